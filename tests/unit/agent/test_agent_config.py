"""What an agent.yaml may say, and what becomes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.agent.config import UNLIMITED, parse
from muster.domain.errors import BadConfigFile

HERE = Path("data")


def read(**given: Any) -> Any:
    return parse(given, where="agent.yaml", data_dir=HERE)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"queue": ["gpu"]}, "Did you mean 'queues'"),
        ({"maxjobs": 3}, "Did you mean 'max_jobs'"),
        ({"max_jobs": "many"}, "max_jobs is 'many'"),
        ({"max_jobs": True}, "max_jobs is True"),
        ({"max_jobs": -2}, "-1 for no limit"),
        ({"queues": "gpu"}, "a list of names"),
        ({"engine": "slurm"}, "no engine 'slurm'"),
        ({"name": 7}, "name is 7"),
    ],
)
def test_what_it_cannot_mean_is_refused_by_name(given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadConfigFile) as refused:
        read(**given)
    assert words in str(refused.value)
    assert "agent.yaml" in str(refused.value)


def test_a_config_of_wandb_is_read_and_what_says_nothing_here_is_named() -> None:
    config = read(entity="team", queues=["gpu"], max_jobs=-1, builder={"type": "noop"}, verbosity=1)
    assert (config.entity, config.queues, config.jobs()) == ("team", ("gpu",), UNLIMITED)
    assert set(config.passed_over) == {"builder", "verbosity"}


def test_only_allowed_variables_of_the_agent_become_macros() -> None:
    config = read(env_allow=["DATA_ROOT", "NOT_SET"])
    assert config.macros({"DATA_ROOT": "/data", "SECRET": "x"}) == {"DATA_ROOT": "/data"}
