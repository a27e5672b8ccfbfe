"""What `muster launch` refuses before anything is sent, and what it would send."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.cli import submit
from muster.cli.main import main
from muster.cli.order import Order
from muster.client.settings import ClientSettings
from muster.domain.run import Priority
from muster.wire.runs import LaunchRequest


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Here is a folder with a script; no server answers."""
    (tmp_path / "train.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MUSTER_URL", "http://127.0.0.1:9")
    return tmp_path


def request_of(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> LaunchRequest:
    """What would be sent for this command line."""
    orders: list[Order] = []

    async def keep(order: Order, **_: Any) -> None:
        orders.append(order)

    monkeypatch.setattr(submit, "launch", keep)
    assert main(["launch", *arguments]) == 0
    return orders[0].request(ClientSettings(url="http://x", entity="team", project="vision"))


@pytest.mark.parametrize(
    ("arguments", "told", "advice"),
    [
        ([".", "train.py"], "'train.py' stands where no word", "muster launch . -- train.py"),
        ([".", "train.py", "--epochs", "3"], "No such option: --epochs", "behind `--`"),
        (["train.py"], "'train.py' is a file", "muster launch . -- train.py"),
        (["train.py", "--", "x"], "'train.py' is a file", "muster launch . -- train.py"),
        (["nowhere", "--", "train.py"], "There is no folder 'nowhere'", "folder of your code"),
        (["."], "There is no command to run", "behind `--`"),
        ([".", "--"], "There is no command to run", "behind `--`"),
        (["--"], "There is no command to run", "behind `--`"),
        ([".", "--", " "], "There is no command to run", ""),
        ([".", "--", "trian.py"], "There is no 'trian.py' in the folder '.'", "Did you mean 'train.py'?"),
        ([".", "--dry-run", "--", "trian.py"], "There is no 'trian.py'", "'train.py'"),
        (["--", "train.py"], "no folder is launched with it", "muster launch . -- train.py"),
        (["-u", "/srv/code", "--", "a.py"], "'/srv/code' is a local path", "muster launch PATH"),
        (["-u", "https://me:pw@x/y", "--", "a.py"], "carries a user or a password", "credential helper"),
        (["-u", "https://x/y", "--ref", "-x", "--", "a.py"], "'-x' cannot be a branch", ""),
        ([".", "-u", "https://x/y", "--", "a.py"], "-u and the folder '.' name different code", ""),
        ([".", "-j", "job"], "-j and the folder '.' name different code", ""),
        (["--ref", "main", "--", "a.py"], "--ref is about a repository", "-u GIT"),
        (["--entrypoint", "a.py", "--", "a.py"], "--entrypoint replaces that of a job", ""),
        (["-j", "job", "--entrypoint", "'a"], "No closing quotation", ""),
        (["--override", "a.b", "--", "ls"], "--override a.b: this is not PATH=VALUE", "replicas=3"),
        (["--override", "a..b=1", "--", "ls"], "--override: 'a..b' is not a path", "spec.tasks"),
        (["--override", "a=1", "--override", "a=2", "--", "ls"], "gives a twice", ""),
        (["-d", "img", "-j", "job"], "-d and -j name different things", ""),
        (["--gpus", "2", "--set", "gpus=3", "--", "ls"], "--gpus 2 and --set gpus=3", ""),
        (["--set", "gpus", "--", "ls"], "--set gpus: this is not NAME=VALUE", "--set gpus=2"),
        (["--env", "A", "--", "ls"], "--env A: this is not NAME=VALUE", "--env NAME=value"),
        (["--config", "lr", "--", "ls"], "--config lr: this is not NAME=VALUE", "lr=0.01"),
        (["--nodes", "0", "--", "ls"], "nodes=0 is not possible", "Use 1"),
        (["--procs-per-node", "two", "--", "ls"], "neither a number nor `gpu`", ""),
        (["--procs-per-node", "0", "--", "ls"], "procs_per_node=0 is not possible", ""),
        (["--priority", "urgent", "--", "ls"], "urgent", ""),
        (["--launcher", "mpi", "--", "ls"], "mpi", ""),
        (["--retry", "-1", "--", "ls"], "--retry", ""),
        (["--gpus", "two", "--", "ls"], "--gpus", ""),
    ],
)
def test_what_cannot_be_right_is_refused_before_anything_is_sent(
    arguments: list[str], told: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["launch", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith("Error: ")
    assert told in err
    assert advice in err


def test_everything_behind_the_dashes_is_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["train.py", "--json", "-f", "--", "--help", "-q", "x", ""]
    request = request_of(".", "-q", "gpu", "--", *words, monkeypatch=monkeypatch)
    assert request.command == words
    assert request.queue == "gpu"


def test_a_bare_command_needs_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_of("--", "echo", "hello", monkeypatch=monkeypatch)
    assert request.command == ["echo", "hello"]
    assert request.training is None
    assert (request.entity, request.project, request.queue) == ("team", "vision", "local")
    assert (request.retry.max, request.priority) == (3, None)


def test_an_image_needs_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_of("-d", "acme/train:main", "-q", "gpu", monkeypatch=monkeypatch)
    assert (request.image, request.command) == ("acme/train:main", [])


def test_a_queue_may_have_an_image_so_nothing_needs_to_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_of("-q", "gpu", monkeypatch=monkeypatch)
    assert (request.image, request.command) == (None, [])


def test_a_folder_that_names_its_job_is_launched_under_that_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "muster.yaml").write_text("name: fitter\nentrypoint: [train.py]\n")
    request = request_of(".", monkeypatch=monkeypatch)
    assert (request.command, request.job_name, request.source_name) == (["train.py"], "fitter", folder.name)


def test_options_of_the_shape_go_over_what_the_folder_says_of_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "entrypoint: [train.py]\ntraining: {nodes: 2, procs_per_node: gpu, shm: 8Gi}\n"
    (folder / "muster.yaml").write_text(said)
    alone = request_of(".", monkeypatch=monkeypatch).training
    changed = request_of(".", "--nodes", "4", "--max-restarts", "1", monkeypatch=monkeypatch).training
    assert alone is not None
    assert alone.model_dump(exclude_unset=True) == {"nodes": 2, "procs_per_node": "gpu", "shm": "8Gi"}
    assert changed is not None
    assert (changed.nodes, changed.procs_per_node, changed.max_restarts) == (4, "gpu", 1)


def test_a_folder_with_a_shape_that_cannot_run_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "muster.yaml").write_text("training: {nodes: two}\n")
    assert main(["launch", ".", "--", "train.py"]) == 2
    assert "training of muster.yaml: nodes='two' is not a whole number" in capsys.readouterr().err


def test_overrides_are_paths_with_values_as_in_yaml(monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["spec.tasks[name=worker].replicas=3", 'a["x.y/z"]={cpu: 2}', "b=a=b", "c=", "d='3'", "e=${x}"]
    words = [word for text in given for word in ("--override", text)]
    assert request_of(*words, "--", "ls", monkeypatch=monkeypatch).overrides == {
        "spec.tasks[name=worker].replicas": 3,
        'a["x.y/z"]': {"cpu": 2},
        "b": "a=b",
        "c": "",
        "d": "3",
        "e": "${x}",
    }


def test_the_options_become_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = "-p nlp -e ann --name big --gpus 2 --cpus 0.5 --memory 8Gi --set zone=a --config lr=0.01"
    more = "--config o.n=adam --env A=b=c --priority high --retry 0 --docker-image img"
    request = request_of(*arguments.split(), *more.split(), "--", "ls", monkeypatch=monkeypatch)
    assert (request.project, request.entity, request.name) == ("nlp", "ann", "big")
    assert request.values == {"zone": "a", "gpus": "2", "cpus": "0.5", "memory": "8Gi"}
    assert request.config == {"lr": 0.01, "o": {"n": "adam"}}
    assert request.env == {"A": "b=c"}
    assert (request.priority, request.retry.max, request.image) == (Priority.HIGH, 0, "img")


@pytest.mark.parametrize(
    ("behind", "arguments"), [([], None), (["--"], []), (["--", "--epochs", "5"], ["--epochs", "5"])]
)
def test_what_is_behind_the_dashes_replaces_the_arguments_of_a_job(
    behind: list[str], arguments: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_of("-j", "job-x:v1", "--entrypoint", "python -m x", *behind, monkeypatch=monkeypatch)
    assert (request.job, request.command) == ("job-x:v1", [])
    assert (request.entrypoint, request.arguments) == (["python", "-m", "x"], arguments)


def test_of_the_training_only_what_was_typed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_of("-j", "job-x", "--nodes", "2", monkeypatch=monkeypatch)
    assert request.training is not None
    assert request.training.model_fields_set == {"nodes"}


def test_a_repository_becomes_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "-u git@host:acme/train.git --ref main --folder sub -- train.py"
    request = request_of(*words.split(), monkeypatch=monkeypatch)
    assert request.git is not None
    assert request.git.model_dump(exclude_none=True) == {
        "url": "git@host:acme/train.git",
        "ref": "main",
        "folder": "sub",
    }


@pytest.mark.parametrize(
    ("option", "value", "field", "expected"),
    [
        ("--nodes", "2", "nodes", 2),
        ("--procs-per-node", "4", "procs_per_node", 4),
        ("--procs-per-node", "gpu", "procs_per_node", "gpu"),
        ("--max-restarts", "1", "max_restarts", 1),
        ("--launcher", "plain", "launcher", "plain"),
        ("--rdzv-timeout", "60", "rdzv_timeout", 60),
    ],
)
def test_any_training_option_makes_it_a_training(
    option: str, value: str, field: str, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_of(option, value, "--", "ls", monkeypatch=monkeypatch)
    assert request.training is not None
    assert getattr(request.training, field) == expected
