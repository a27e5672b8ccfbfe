"""Grids: values on axes, one run for each combination."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain.compare import differences
from muster.domain.errors import BadGrid
from muster.domain.grid import MAX_RUNS, Grid, run_names


def read(text: str) -> Any:
    """A reader as simple as can be: JSON, else text."""
    try:
        return json.loads(text)
    except ValueError:
        return text.strip("'")


def grid(*words: str) -> Grid:
    return Grid.parse(words, read=read)


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("lr=0.1,0.01", [0.1, 0.01]),
        ("lr=1", [1]),
        ("name=adam,sgd", ["adam", "sgd"]),
        ("seed=1..4", [1, 2, 3, 4]),
        ("seed=-1..1", [-1, 0, 1]),
        ("depth=0..10:2", [0, 2, 4, 6, 8, 10]),
        ("depth=0..9:4", [0, 4, 8]),
        ("depth=5..1:-2", [5, 3, 1]),
        ("lr=0.1..0.3:0.1", [0.1, 0.2, 0.3]),
        ("seed=1..2,7", [1, 2, 7]),
        ("layers=[64],[64,32]", [[64], [64, 32]]),
        ('opt={"a":1,"b":[1,2]},{}', [{"a": 1, "b": [1, 2]}, {}]),
        ("text='a,b',c", ["a,b", "c"]),
        ("path=../data,../more", ["../data", "../more"]),
        ("it=don't,won't", ["don't", "won't"]),
        ("amp=true,false", [True, False]),
        ("kind=true,1,1.0", [True, 1, 1.0]),
    ],
)
def test_an_axis_says_which_values_there_are(word: str, values: list[Any]) -> None:
    (found,) = grid(word).axes.values()
    assert [json.dumps(value) for value in found] == [json.dumps(value) for value in values]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lr"], "not NAME=VALUES"),
        (["lr="], "not NAME=VALUES"),
        (["=1"], "not NAME=VALUES"),
        (["lr=1", "lr=2"], "gives 'lr' twice"),
        (["lr=1,1"], "lr=1 twice"),
        (["lr=1,,2"], "a value is empty"),
        (["lr=[1,2"], "not closed"),
        (["lr='a,b"], "not closed"),
        (["a..b=1"], "not the name of an input"),
        (["seed=4..1"], "this range has no values"),
        (["seed=1..4:0"], "this range has no values"),
        (["lr=0.1..0.5"], "needs a step"),
        (["seed=1..9999999999"], "at most 5,000"),
        (["a=1..100", "b=1..51"], "The grid has 5,100 runs (100 a × 51 b); a group has at most 5,000."),
        (["opt=1,2", "opt.lr=1,2"], "'opt.lr' within it"),
    ],
    ids=str,
)
def test_a_grid_that_cannot_be_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(BadGrid) as refused:
        grid(*words)
    assert said in str(refused.value)


def test_a_grid_without_axes_or_values_is_none() -> None:
    empty: list[dict[str, list[int]]] = [{}, {"lr": []}]
    for data in empty:
        with pytest.raises(BadGrid):
            Grid.from_data(data)


def test_the_last_axis_changes_fastest_and_what_all_have_stays() -> None:
    found = list(grid("opt.lr=1,2", "seed=1..2").points({"opt": {"name": "sgd"}, "x": 0}))
    assert found == [
        {"opt": {"name": "sgd", "lr": lr}, "x": 0, "seed": seed} for lr in (1, 2) for seed in (1, 2)
    ]


@pytest.mark.parametrize("given_to_all", [{"opt": {"lr": 1}}, {"opt": 3}, {"opt": {"lr": {"x": 1}}}], ids=str)
def test_what_is_given_to_all_is_not_in_the_grid_as_well(given_to_all: dict[str, Any]) -> None:
    with pytest.raises(BadGrid, match="is given to all"):
        next(grid("opt.lr=1,2").points(given_to_all))


@given(st.dictionaries(st.sampled_from("abcde"), st.integers(1, 6), min_size=1, max_size=4))
def test_there_are_as_many_runs_as_combinations_and_no_two_alike(sizes: dict[str, int]) -> None:
    found = Grid.from_data({name: range(size) for name, size in sizes.items()})
    points = [json.dumps(point, sort_keys=True) for point in found.points({})]
    assert len(points) == found.size == len(set(points)) <= MAX_RUNS


def test_runs_are_named_one_after_another() -> None:
    assert run_names("sweep", 3) == ["sweep-1", "sweep-2", "sweep-3"]
    with pytest.raises(BadGrid, match="cannot be the name"):
        run_names("x" * 63, 10)


def test_only_what_differs_is_compared() -> None:
    names, own = differences(
        [
            {"lr": 1, "seed": 0, "opt": {"name": "a"}},
            {"lr": True, "seed": 0},
            {"lr": 1, "seed": 0, "new": None},
        ]
    )
    assert names == ["lr", "opt.name", "new"]
    assert own == [{"lr": 1, "opt.name": "a"}, {"lr": True}, {"lr": 1, "new": None}]
    assert differences([]) == ([], [])
