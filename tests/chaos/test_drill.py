"""The drill, short: `make chaos` has the long one."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from chaos.drill import Plan, drill


@pytest.mark.slow
def test_nothing_is_lost_and_nothing_happens_twice(tmp_path: Path) -> None:
    seed = int(os.environ.get("MUSTER_DRILL_SEED") or random.SystemRandom().randrange(10**9))
    print(f"MUSTER_DRILL_SEED={seed}")
    plan = Plan(
        runs=500, server_kills=4, agent_kills=6, freezes=2, seed=seed, pace=1.5, longest=1.0, patience=300
    )
    result = drill(plan, tmp_path, print)
    print(result.summary())
    assert result.failures == []
