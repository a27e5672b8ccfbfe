"""Starting an attempt: room for all members, the intent on disk, then one shim a member; all or none."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from muster.domain.errors import LocalProblem
from muster.domain.observation import AttemptKey, Replica, ReplicaState
from muster.domain.resources import Resources
from muster.domain.template import fill
from muster.engine.launcher import launcher_path
from muster.engine.port import Place, Rendered
from muster.engine.process import proc
from muster.engine.process.attempt import AttemptDir, Intent, Member
from muster.engine.process.cgroup import MemoryGroups, remove_group
from muster.engine.process.devices import Grant, Placement
from muster.engine.process.inventory import cuda_name
from muster.engine.process.live import Live, kill_processes, reap
from muster.engine.process.proc import Owner
from muster.engine.process.spare import Spares
from muster.engine.process.spawn import spawn

# Of the agent's own environment a run gets all but what would speak for the agent (its keys and settings)
# or tell the run its place in some other gang.
_PRIVATE = ("MUSTER_", "PET_", "TORCHELASTIC_")
_FOREIGN = frozenset(
    "RANK LOCAL_RANK GROUP_RANK NODE_RANK WORLD_SIZE LOCAL_WORLD_SIZE NNODES NPROC_PER_NODE "
    "MASTER_ADDR MASTER_PORT JOB_COMPLETION_INDEX VC_TASK_INDEX".split()
)


_LAUNCHER = str(launcher_path())
UNDO_WAIT = 1.0  #: seconds for killed members to be gone


class Starter:
    """Starts attempts on this host."""

    def __init__(
        self,
        *,
        host: str,
        environ: Mapping[str, str],
        placement: Placement,
        spares: Spares,
        clock: Callable[[], datetime],
    ) -> None:
        self._host = host
        self._placement = placement
        self._spares = spares
        self._clock = clock
        self._boot = proc.boot_id()
        self._groups = MemoryGroups()
        self._env = {
            name: value
            for name, value in environ.items()
            if not name.startswith(_PRIVATE) and name not in _FOREIGN
        }

    async def start(
        self, rendered: Rendered, place: Place, directory: AttemptDir, *, life: int, ports: Collection[int]
    ) -> tuple[Intent, list[Live]]:
        """Start all members, holding `life`, or leave nothing. `ports` are in use by other attempts."""
        replicas: Sequence[Mapping[str, Any]] = rendered.manifest["replicas"]
        per_node = Resources.parse(replicas[0]["resources"])
        grant = await self._placement.take(per_node, nodes=len(replicas))
        lives: list[Live] = []
        members: list[Member] = []
        try:
            self._make_members(members, rendered.key, per_node, grant)
            intent = Intent(
                epoch=place.epoch,
                boot=self._boot,
                at=self._clock().timestamp(),
                stop_grace=float(rendered.manifest["stop_grace"]),
                port=_free_port(ports) if "master_port" in rendered.macros else None,
                members=tuple(members),
            )
            directory.create(intent, self._spares, with_directories="error_dir" in rendered.macros)
            for rank in range(len(replicas)):
                locks = (life, *grant.fds, *grant.node_fds[rank])
                filled = self._fill(replicas[rank], place, directory, intent, grant)
                lives.append(
                    self._spawn(Owner(key=rendered.key, rank=rank), filled, directory, intent, locks)
                )
        except BaseException as error:
            _undo(lives, members, directory)
            if isinstance(error, OSError):
                raise LocalProblem(f"The run cannot be started: {error}.") from error
            raise
        finally:
            grant.let_go()
        return intent, lives

    def _make_members(
        self, members: list[Member], key: AttemptKey, per_node: Resources, grant: Grant
    ) -> None:
        for rank, devices in enumerate(grant.devices):
            group: Path | None = None
            if per_node.memory:
                group = self._groups.make(f"muster-{key.run_id}-{key.attempt}-{rank}", per_node.memory)
            members.append(
                Member(
                    devices=tuple(device.uuid for device in devices),
                    memory=per_node.memory,
                    cgroup="" if group is None else str(group),
                )
            )

    def _spawn(
        self,
        owner: Owner,
        replica: Mapping[str, Any],
        directory: AttemptDir,
        intent: Intent,
        locks: Sequence[int],
    ) -> Live:
        live = watched(owner, directory, intent, node=self._host)
        pid = spawn(
            directory.replica(owner.rank),
            command=replica["command"],
            env=replica["env"],
            workdir=replica["workdir"],
            cgroup=live.member.cgroup,
            locks=locks,
        )
        live.pid, live.pidfd, live.is_child = pid, _open_pidfd(pid), True
        live.seen = replace(live.seen, handle=str(pid))
        return live

    def _fill(
        self,
        replica: Mapping[str, Any],
        place: Place,
        directory: AttemptDir,
        intent: Intent,
        grant: Grant,
    ) -> dict[str, Any]:
        rank: int = replica["rank"]
        values = {
            "workdir": str(place.workdir),
            "output_dir": str(place.output_dir),
            "error_dir": directory.replica(rank),
            "launcher": _LAUNCHER,
            "master_port": str(intent.port),
            "devices": ",".join(cuda_name(device) for device in grant.devices[rank]),
            "python": "python",
        }
        path = os.pathsep.join(map(str, place.path_prepend))
        env = {**self._env, **fill(replica["env"], values), **place.env}
        env["MUSTER_REPLICA_DIR"] = directory.replica(rank)  # by this its processes are known
        env["PATH"] = os.pathsep.join(filter(None, (path, env.get("PATH", os.defpath))))
        if any("${python}" in word for word in replica["command"]) and not shutil.which(
            "python", path=env["PATH"]
        ):
            values["python"] = "python3"
        command: list[str] = fill(replica["command"], values)
        return {"command": command, "env": env, "workdir": fill(replica["workdir"], values)}


def watched(owner: Owner, directory: AttemptDir, intent: Intent, *, node: str) -> Live:
    """A replica as the intent has it, its shim not yet known."""
    member = intent.members[owner.rank]
    return Live(
        owner=owner,
        mark=directory.replica(owner.rank),
        member=member,
        seen=Replica(
            rank=owner.rank,
            state=ReplicaState.RUNNING,
            node=node,
            devices=member.devices,
            started_at=datetime.fromtimestamp(intent.at, UTC),
        ),
        since=time.monotonic(),
    )


def _undo(lives: Sequence[Live], members: Sequence[Member], directory: AttemptDir) -> None:
    """Not all could be started: leave nothing of those that were."""
    deadline = time.monotonic() + UNDO_WAIT
    while lives and kill_processes(lives, spare_shims=False) and time.monotonic() < deadline:
        time.sleep(0.001)  # they die at once; nothing else may happen before they have
    for live in lives:
        reap(live)
    for member in members:
        if member.cgroup:
            remove_group(Path(member.cgroup))
    directory.remove()


def _open_pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError:  # no descriptor left: a shim that cannot be watched must not run
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _free_port(taken: Collection[int]) -> int:
    """A port nobody listens on now. It is not held: the members bind it a moment later."""
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port not in taken:
            return port
