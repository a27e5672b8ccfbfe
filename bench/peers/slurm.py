"""Slurm on this machine: munge, one controller, one node; sbatch, and a job array for a burst."""

from __future__ import annotations

import getpass
import os
import secrets
import shlex
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from bench.harness import CannotMeasure
from bench.machine import need_program
from bench.peers.port import Service
from bench.processes import free_port, until

_CONFIG = """\
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={control}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
MaxJobCount=20000
MaxArraySize=10001
SchedulerParameters={scheduler}
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={node} CPUs={cpus} State=UNKNOWN
PartitionName=bench Nodes=n1 Default=YES MaxTime=INFINITE State=UP
"""


class Slurm(Service):
    name = "Slurm"
    about = "sbatch, a job array for a burst; tuned to schedule at once; state written now and then"
    starts = 3
    burst = 100

    #: Without the first, a batch job waits up to 3 s for company.
    scheduler = "batch_sched_delay=0,sched_min_interval=0,sched_interval=1"

    def start(self) -> None:
        munged = need_program("munged", "munge")
        control = need_program("slurmctld", "slurm-wlm")
        daemon = need_program("slurmd", "slurm-wlm")
        self._jobs = 0
        self._out = self.folder / "out"
        for name in ("state", "spool", "out"):
            (self.folder / name).mkdir()
        config = self._write_config()
        self._env = {"SLURM_CONF": str(config)}
        self._munge(munged)
        self.processes.spawn("slurmctld", [control, "-D", "-f", config])
        self.processes.spawn("slurmd", [daemon, "-D", "-N", "n1", "-f", config])
        until(
            lambda: self._run("sinfo", "-h", "-o", "%T", check=False) == "idle",
            seconds=60,
            what="Slurm's node to be idle",
            every=0.1,
        )

    def submit(self, command: Sequence[str], times: int) -> int:
        words = ["sbatch", "--parsable", "--output", f"{self._out}/%A_%a.txt", "--wrap", shlex.join(command)]
        if times > 1:
            words.insert(1, f"--array=1-{times}")
        began = time.monotonic_ns()
        self._run(*words)
        self._jobs += times
        return began

    def finish(self) -> None:
        until(lambda: not self._run("squeue", "-h"), seconds=300, what="Slurm's jobs to end", every=0.02)
        succeeded = len(self._run("squeue", "-h", "-r", "-t", "CD", "-o", "%i").splitlines())
        if succeeded != self._jobs:
            raise CannotMeasure(f"{succeeded} of {self._jobs} jobs completed")

    def _write_config(self) -> Path:
        path = self.folder / "slurm.conf"
        path.write_text(
            _CONFIG.format(
                host=socket.gethostname().split(".")[0],
                user=getpass.getuser(),
                folder=self.folder,
                control=free_port(),
                node=free_port(),
                cpus=os.cpu_count(),
                scheduler=self.scheduler,
            )
        )
        return path

    def _munge(self, program: Path) -> None:
        key, place = self.folder / "munge.key", self.folder / "munge.socket"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        names = {"key-file": key, "socket": place}
        names |= {name: self.folder / f"munge.{name}" for name in ("pid-file", "log-file", "seed-file")}
        options = [f"--{name}={path}" for name, path in names.items()]
        self.processes.spawn("munged", [program, "--foreground", "--force", *options])
        until(place.is_socket, seconds=10, what="munged")

    def _run(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            words, env=self.processes.env(self._env), cwd=self.folder, capture_output=True, text=True
        )
        if check and done.returncode:
            raise CannotMeasure(f"{words[0]}: {done.stderr.strip()}")
        return done.stdout.strip()
