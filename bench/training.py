"""From launch to the first all-reduce of four ranks, against torchrun by hand with the same script."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from bench.harness import Bar, CannotMeasure, Plan, Row, interleave, missing
from bench.installed import muster_up
from bench.knock import Knocker
from bench.processes import Processes, free_port
from installation import Installation
from muster.domain.run import RunState
from muster.wire.queues import QueueEdit

ABOUT = "Seconds from launch to the first all-reduce of four ranks (gloo, CPU), with torchrun on both sides."
SHAPES = ((1, 4), (2, 2))  #: nodes, processes on each
SCRIPT = Path(__file__).with_name("first_all_reduce.py")
_PATIENCE = 300.0


def run(plan: Plan) -> Iterator[Row]:
    python, bar = plan.torch_python, Bar(sense="≤", limit=1.15)
    if python is None or not python.exists():
        yield missing("Muster ÷ torchrun", "no interpreter with PyTorch; `make bench` makes one", bar=bar)
        return
    with muster_up(plan.folder / "training") as installation, Knocker(plan.folder) as knocker:
        _use(installation, python)
        for nodes, procs in SHAPES:
            shape = f"{nodes} × {procs}"
            contest = interleave(
                plan,
                f"training {shape}",
                "s",
                {
                    "Muster": partial(launched, installation, knocker, nodes, procs),
                    "torchrun": partial(by_hand, plan, python, knocker, nodes, procs),
                },
            )
            words = f"Muster ÷ torchrun, {nodes} node{'s' * (nodes > 1)} × {procs} processes"
            yield contest.ratio(words, "Muster", "torchrun", bar=bar)


def launched(installation: Installation, knocker: Knocker, nodes: int, procs: int) -> float:
    began = time.monotonic_ns()
    run = installation.launch(
        [str(SCRIPT), str(knocker.path)], training={"nodes": nodes, "procs_per_node": procs}
    )
    at = knocker.wait(seconds=_PATIENCE)
    if run.wait(60) is not RunState.SUCCEEDED:
        raise CannotMeasure(run.why().summary)
    return (at - began) / 1e9


def by_hand(plan: Plan, python: Path, knocker: Knocker, nodes: int, procs: int) -> float:
    """torchrun on each node, as one would type it."""
    with Processes(plan.folder / "torchrun") as processes:
        port = free_port()
        began = time.monotonic_ns()
        started = [
            processes.spawn("torchrun", _torchrun(python, nodes, procs, rank, port, knocker.path))
            for rank in range(nodes)
        ]
        at = knocker.wait(seconds=_PATIENCE)
        if any(process.wait(60) for process in started):
            raise CannotMeasure(f"torchrun failed: {processes.log('torchrun').read_text()[-300:]}")
    return (at - began) / 1e9


def _torchrun(python: Path, nodes: int, procs: int, rank: int, port: int, pipe: Path) -> Sequence[str | Path]:
    shape = [f"--nnodes={nodes}", f"--nproc-per-node={procs}", f"--node-rank={rank}"]
    place = ["--master-addr=127.0.0.1", f"--master-port={port}"]
    return [python, "-m", "torch.distributed.run", *shape, *place, SCRIPT, pipe]


def _use(installation: Installation, python: Path) -> None:
    """Let the queue use this interpreter, so that no environment has to be made; and let all nodes in."""
    config = {"python": str(python), "resources": {"cpus": "{{cpus}}"}}
    variables = {"cpus": {"type": "number", "default": 0.5}}
    installation.client().edit_queue("local", QueueEdit(config=config, variables=variables))
