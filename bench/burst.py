"""Many runs that do nothing, through the whole path until each is known to have succeeded."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path

from bench.harness import Bar, Plan, Row, interleave
from bench.peers import PEERS, ForkExec, Muster, Peer

ABOUT = "Runs of `true` a second, submitted at once, until the last one is kept and shown as succeeded."


def run(plan: Plan) -> list[Row]:
    everybody: tuple[type[Peer], ...] = (ForkExec, Muster, *PEERS)
    contenders = {kind.name: partial(rate, kind, plan) for kind in everybody}
    contest = interleave(plan, "burst", "runs/s", contenders)
    rows = [
        contest.alone(
            f"Muster, {plan.count(Muster.burst):,} runs", Muster.name, bar=Bar(sense="≥", limit=150)
        ),
        contest.ratio(
            "Muster ÷ fork+exec",
            Muster.name,
            ForkExec.name,
            bar=Bar(sense="≥", limit=0.12),
            note=f"{ForkExec.about}: {plan.count(ForkExec.burst):,} processes",
        ),
    ]
    for kind in PEERS:
        note = f"{plan.count(kind.burst)} runs; {kind.about}"
        bar = Bar(sense=">", limit=1)
        rows.append(contest.ratio(f"Muster ÷ {kind.name}", Muster.name, kind.name, bar=bar, note=note))
    return rows


def rate(kind: type[Peer], plan: Plan) -> float:
    """Runs a second; one run goes before, so that everything is loaded."""
    times = plan.count(kind.burst)
    with tempfile.TemporaryDirectory(dir=plan.folder) as name, kind(Path(name) / "peer") as peer:
        peer.submit(["true"], 1)
        peer.finish()
        began = peer.submit(["true"], times)
        peer.finish()
        return times / ((time.monotonic_ns() - began) / 1e9)
