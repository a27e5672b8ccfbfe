"""The portable shape of a distributed run."""

from __future__ import annotations

from typing import Any

import pytest

from muster.domain.errors import BadTraining, MusterError, UnknownKey
from muster.domain.training import MAX_NODES, MAX_PROCS, Launcher, Training, checked_shape


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"nodes": 0}, "nodes=0 is not possible"),
        ({"nodes": -1}, "Use 1 … 4096"),
        ({"nodes": MAX_NODES + 1}, "nodes=4097"),
        ({"procs_per_node": 0}, "procs_per_node=0 is not possible"),
        ({"procs_per_node": MAX_PROCS + 1}, "or `gpu` for one process a GPU"),
        ({"max_restarts": -1}, "max_restarts must be 0 or more"),
        ({"rdzv_timeout": 0}, "rdzv_timeout at least 1 second"),
    ],
)
def test_a_shape_that_cannot_run_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadTraining, match=words):
        Training(**given)


@pytest.mark.parametrize(
    "given", [{}, {"nodes": MAX_NODES}, {"procs_per_node": MAX_PROCS}, {"procs_per_node": "gpu"}]
)
def test_a_shape_that_can_run_is_taken(given: dict[str, Any]) -> None:
    Training(**given)


@pytest.mark.parametrize(
    ("procs", "gpus", "expected"), [(1, 0, 1), (4, 0, 4), (4, 2, 4), ("gpu", 1, 1), ("gpu", 8, 8)]
)
def test_how_many_processes_a_node_starts(procs: Any, gpus: int, expected: int) -> None:
    assert Training(procs_per_node=procs).processes(gpus_per_node=gpus) == expected


def test_one_process_a_gpu_needs_gpus() -> None:
    with pytest.raises(BadTraining, match="--gpus N"):
        Training(procs_per_node="gpu").processes(gpus_per_node=0)


@pytest.mark.parametrize(
    ("launcher", "command", "expected"),
    [
        ("auto", ["train.py", "--x"], "torchrun"),
        ("auto", ["./a/train.py"], "torchrun"),
        ("auto", ["python", "train.py"], "plain"),
        ("auto", ["bash"], "plain"),
        ("auto", [], "plain"),
        ("torchrun", ["bash"], "torchrun"),
        ("plain", ["train.py"], "plain"),
    ],
)
def test_which_launcher_starts_a_command(launcher: str, command: list[str], expected: str) -> None:
    assert Training(launcher=Launcher(launcher)).launcher_for(command) == expected


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        ([2], BadTraining, "training is not a mapping"),
        ({"node": 2}, UnknownKey, "training has no key 'node'"),
        ({"nodes": "2"}, BadTraining, "nodes='2' is not a whole number"),
        ({"nodes": True}, BadTraining, "nodes=True is not a whole number"),
        ({"procs_per_node": "cpu"}, BadTraining, "a whole number, or `gpu`"),
        ({"launcher": "mpirun"}, BadTraining, "not one of auto, torchrun, plain"),
        ({"shm": 8}, BadTraining, "shm=8 is not a size"),
        ({"nodes": 0}, BadTraining, "nodes=0 is not possible"),
    ],
)
def test_a_shape_in_a_file_that_cannot_be_right_is_refused(
    data: object, error: type[MusterError], words: str
) -> None:
    with pytest.raises(error, match=words):
        checked_shape(data, where="training")


def test_a_shape_in_a_file_leaves_open_what_it_does_not_say() -> None:
    given = {"nodes": 2, "procs_per_node": "gpu", "launcher": "plain", "shm": "8Gi"}
    assert checked_shape(given, where="training") == given
