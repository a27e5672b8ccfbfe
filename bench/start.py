"""From the call that launches to the first instruction of the process, everything idle before."""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

from bench.harness import Bar, Plan, Row, interleave
from bench.knock import Knocker
from bench.peers import PEERS, ForkExec, Muster, Peer

ABOUT = "Milliseconds from the call that launches to the first instruction of the process; idle before."
_PATIENCE = 60.0
_PAUSE = 0.2  #: seconds at most between two starts: so they meet every phase of whatever polls


def run(plan: Plan) -> list[Row]:
    everybody: tuple[type[Peer], ...] = (ForkExec, Muster, *PEERS)
    contenders = {kind.name: partial(median_start, kind, plan) for kind in everybody}
    contest = interleave(plan, "start", "ms", contenders)
    rows = [
        contest.difference("Muster above fork+exec", Muster.name, ForkExec.name, bar=Bar(sense="≤", limit=30))
    ]
    for kind in PEERS:
        bar = Bar(sense=">", limit=1)
        rows.append(contest.ratio(f"{kind.name} ÷ Muster", kind.name, Muster.name, bar=bar, note=kind.about))
    return rows


def median_start(kind: type[Peer], plan: Plan) -> float:
    """Milliseconds; the first start, which may load this and that, is not counted."""
    with tempfile.TemporaryDirectory(dir=plan.folder) as name, Knocker(Path(name)) as knocker:
        with kind(Path(name) / "peer") as peer:
            times = [start_once(peer, knocker) for _ in range(1 + plan.count(kind.starts))]
        return statistics.median(times[1:])


def start_once(peer: Peer, knocker: Knocker) -> float:
    time.sleep(random.uniform(0, _PAUSE))  # noqa: S311 - a phase, no secret
    began = peer.submit(knocker.command, 1)
    at = knocker.wait(seconds=_PATIENCE)
    peer.finish()
    return (at - began) / 1e6
