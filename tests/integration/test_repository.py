"""Code from a git repository: fetched from a real server, checked out by the agent, run as any other."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitserver import GitServer, git, serving
from installation import Installation
from muster.agent import repository
from muster.agent.repository import RepositoryCache
from muster.client import gitfile
from muster.client.git import pinned
from muster.client.gitfile import jobfile_of
from muster.client.jobfile import JobFile
from muster.client.sdk import launch
from muster.domain import document
from muster.domain.errors import (
    BadConfigFile,
    BadDocument,
    BadGit,
    BadInputValue,
    CheckoutFailed,
    TooLarge,
)
from muster.domain.run import RunState
from muster.domain.source import GitSource
from muster.wire.jobs import JobRequest
from muster.wire.runs import GitModel

ALLOWED = frozenset({"git"})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServer]:
    with serving(tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture
def repo(server: GitServer, request: pytest.FixtureRequest) -> tuple[Path, str]:
    """A repository of the test's own, and its address."""
    name = f"{hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:8]}/train.git"
    folder = server.repository(name)
    server.commit(folder, train__py="print('first')\n", sub_in_eval__py="print('eval')\n")
    return folder, server.url(name)


def checkout(cache: RepositoryCache, target: Path, **source: Any) -> tuple[str, list[str]]:
    said: list[str] = []
    target.mkdir(exist_ok=True)
    return asyncio.run(cache.checkout(GitSource(**source), target, say=said.append)), said


@pytest.fixture
def cache(tmp_path: Path) -> RepositoryCache:
    return RepositoryCache(tmp_path / "cache", schemes=ALLOWED)


def test_a_branch_is_checked_out_and_its_commit_told(
    server: GitServer, repo: tuple[Path, str], cache: RepositoryCache, tmp_path: Path
) -> None:
    folder, url = repo
    head = git(folder, "rev-parse", "HEAD")
    commit, said = checkout(cache, tmp_path / "work", url=url, ref="main")
    assert commit == head
    assert said == [f"checked out {head} of {url}"]
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == ["sub", "train.py"]


def test_a_pinned_commit_stays_while_the_branch_moves(
    server: GitServer, repo: tuple[Path, str], cache: RepositoryCache, tmp_path: Path
) -> None:
    folder, url = repo
    old = git(folder, "rev-parse", "HEAD")
    new = server.commit(folder, train__py="print('second')\n")
    checkout(cache, tmp_path / "old", url=url, commit=old)
    assert checkout(cache, tmp_path / "new", url=url)[0] == new
    assert (tmp_path / "old" / "train.py").read_text() == "print('first')\n"
    assert (tmp_path / "new" / "train.py").read_text() == "print('second')\n"


@pytest.mark.parametrize("short", [7, 40])
def test_tags_and_parts_of_commits_are_found(
    short: int, server: GitServer, repo: tuple[Path, str], cache: RepositoryCache, tmp_path: Path
) -> None:
    folder, url = repo
    old = git(folder, "rev-parse", "HEAD")
    git(folder, "tag", "-a", "v1", "-m", "one")
    server.commit(folder, train__py="print('second')\n")
    assert checkout(cache, tmp_path / "a", url=url)[0] != old  # a shallow start, to be deepened
    assert checkout(cache, tmp_path / "b", url=url, ref=old[:short])[0] == old
    assert checkout(cache, tmp_path / "c", url=url, ref="v1")[0] == old


def test_what_was_fetched_once_needs_no_server(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served") as short_lived:
        commit = short_lived.commit(short_lived.repository(), train__py="print(1)\n")
        url = short_lived.url()
        cache = RepositoryCache(tmp_path / "cache", schemes=ALLOWED)
        checkout(cache, tmp_path / "a", url=url, commit=commit)
    assert checkout(cache, tmp_path / "b", url=url, commit=commit)[0] == commit


def test_locks_of_a_git_that_was_killed_are_removed(
    repo: tuple[Path, str], cache: RepositoryCache, tmp_path: Path
) -> None:
    _, url = repo
    checkout(cache, tmp_path / "a", url=url)
    mirror = tmp_path / "cache" / hashlib.sha256(url.encode()).hexdigest()
    (mirror / "shallow.lock").touch()
    (mirror / "config.lock").touch()
    checkout(cache, tmp_path / "b", url=url, ref=git(repo[0], "rev-parse", "--short", "HEAD"))


def test_submodules_come_along_but_not_from_this_machine(
    server: GitServer, repo: tuple[Path, str], cache: RepositoryCache, tmp_path: Path
) -> None:
    folder, url = repo
    library = server.repository(f"{folder.parent.name}/library.git")
    server.commit(library, lib__py="x = 1\n")
    git(folder, "-c", "protocol.allow=always", "submodule", "add", "-q", "../library.git", "library")
    git(folder, "commit", "-q", "-m", "library")
    checkout(cache, tmp_path / "work", url=url)
    assert (tmp_path / "work" / "library" / "lib.py").is_file()
    assert not list((tmp_path / "work").rglob(".git"))

    git(folder, "config", "-f", ".gitmodules", "submodule.library.url", str(library))
    git(folder, "commit", "-qam", "a local path")
    with pytest.raises(CheckoutFailed, match="transport 'file' not allowed"):
        checkout(cache, tmp_path / "other", url=url)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"ref": "mian"}, "has no commit, branch or tag 'mian'"),
        ({"commit": "0" * 40}, "0000"),
    ],
)
def test_what_the_repository_lacks_is_said(
    source: dict[str, str], told: str, repo: tuple[Path, str], cache: RepositoryCache, tmp_path: Path
) -> None:
    with pytest.raises(CheckoutFailed, match=told):
        checkout(cache, tmp_path / "work", url=repo[1], **source)


def test_gits_own_words_are_told(server: GitServer, cache: RepositoryCache, tmp_path: Path) -> None:
    with pytest.raises(CheckoutFailed, match=r"git ls-remote failed:\n.*access denied or repository not"):
        checkout(cache, tmp_path / "work", url=server.url("no/such.git"))


def test_a_git_that_does_not_end_is_ended(
    cache: RepositoryCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    monkeypatch.setattr(repository, "SECONDS", 0.5)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(CheckoutFailed, match=r"did not end within 0\.5 s"):
            checkout(cache, tmp_path / "work", url=f"git://127.0.0.1:{silent.getsockname()[1]}/x")


def test_a_scheme_the_agents_operator_does_not_allow_is_refused(tmp_path: Path) -> None:
    cache = RepositoryCache(tmp_path / "cache", schemes=frozenset({"https"}))
    with pytest.raises(BadGit, match="only https are allowed"):
        checkout(cache, tmp_path / "work", url="git://127.0.0.1/x")


def test_the_client_pins_the_commit_and_knows_a_wrong_branch(repo: tuple[Path, str]) -> None:
    folder, url = repo
    head = git(folder, "rev-parse", "HEAD")
    assert asyncio.run(pinned(GitSource(url=url, ref="main"))).commit == head
    with pytest.raises(BadGit, match=r"no branch or tag 'mian'.* Did you mean 'main'"):
        asyncio.run(pinned(GitSource(url=url, ref="mian")))
    unreachable = GitSource(url="git://127.0.0.1:9/x")
    assert asyncio.run(pinned(unreachable)) == unreachable


# --- its muster.yaml -------------------------------------------------------------------------------

JOBFILE = """\
name: from-the-repository
entrypoint: [show.py]
inputs:
  schema:
    type: object
    properties:
      lr: {type: number, default: 0.1, maximum: 1}
    additionalProperties: false
  arguments: [lr]
"""


def jobfile(url: str, **source: str) -> JobFile | None:
    async def read() -> JobFile | None:
        return await jobfile_of(await pinned(GitSource(url=url, **source)))

    return asyncio.run(read())


@pytest.mark.parametrize("can_filter", ["true", "false"])
def test_its_muster_yaml_is_read_at_the_commit_without_a_checkout(
    can_filter: str, server: GitServer, repo: tuple[Path, str]
) -> None:
    folder, url = repo
    git(folder, "config", "uploadpack.allowFilter", can_filter)
    assert jobfile(url) == JobFile()
    old = server.commit(folder, muster__yaml=JOBFILE, sub_in_muster__yaml="name: below\n")
    server.commit(folder, muster__yaml="name: newer\n")
    said = jobfile(url, ref=old)
    assert said is not None
    assert (said.name, said.entrypoint) == ("from-the-repository", ("show.py",))
    assert jobfile(url, folder="sub") == JobFile(name="below")
    assert jobfile(url, folder="nowhere") == JobFile()


def test_a_muster_yaml_that_is_not_sound_is_refused(server: GitServer, repo: tuple[Path, str]) -> None:
    folder, url = repo
    server.commit(folder, sub_in_muster__yaml="name: a\nname: b\n")
    with pytest.raises(BadDocument, match=r"sub/muster.yaml:2:1: the key 'name' is there twice"):
        jobfile(url, folder="sub")
    server.commit(folder, muster__yaml=f"name: {'x' * document.MAX_BYTES}\n")
    with pytest.raises(TooLarge, match=r"muster.yaml is larger than 1 MiB"):
        jobfile(url)
    (folder / "muster.yaml").unlink()
    (folder / "muster.yaml").symlink_to("/etc/passwd")
    server.commit(folder)
    with pytest.raises(BadConfigFile, match="not a plain file"):
        jobfile(url)


def test_what_cannot_be_fetched_from_here_is_left_to_the_agent(
    repo: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = GitSource(url=repo[1], commit="0" * 40)
    assert asyncio.run(jobfile_of(source)) is None, "it has no such commit"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(gitfile, "SECONDS", 0.5)
        mute = GitSource(url=f"git://127.0.0.1:{silent.getsockname()[1]}/x", commit="0" * 40)
        assert asyncio.run(jobfile_of(mute)) is None


# --- the whole way ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    installation = Installation(tmp_path_factory.mktemp("muster"), env={"MUSTER_GIT_SCHEMES": "https,git"})
    installation.start()
    try:
        yield installation
    finally:
        installation.destroy()


def test_a_repository_is_launched_filed_and_launched_again(
    muster: Installation, repo: tuple[Path, str], server: GitServer
) -> None:
    folder, url = repo
    server.commit(folder, train__py="import os, sys; print(sys.argv[1:], os.environ['MUSTER_CONFIG'])\n")
    client = muster.client()
    run = launch(
        git={"url": url, "ref": "main"}, command="train.py --epochs 3", config={"lr": 0.1}, client=client
    )
    assert run.wait(60) is RunState.SUCCEEDED, run.why()
    assert list(run.logs()) == ["""['--epochs', '3'] {"lr":0.1}"""]
    head = git(folder, "rev-parse", "HEAD")
    assert any(head in str(event.data.get("message")) for event in run.events())
    job = run.model.job
    assert job is not None
    assert client.get_job_version(job.name).git == run.model.git

    server.commit(folder, train__py="print('moved on')\n")
    again = launch(job=f"{job.name}:latest", command="--epochs 5", config={"lr": 0.01}, client=client)
    assert again.wait(60) is RunState.SUCCEEDED
    assert list(again.logs()) == ["""['--epochs', '5'] {"lr":0.01}"""]
    assert [change.what for change in again.model.overridden] == ["arguments", "config.lr"]

    third = again.rerun(config={"lr": 1})
    assert third.wait(60) is RunState.SUCCEEDED
    assert list(third.logs()) == ["""['--epochs', '5'] {"lr":1}"""]
    assert third.model.rerun_of == again.id
    assert {item.id for item in client.list_runs(job=job.name).items} == {run.id, again.id, third.id}


def test_a_folder_of_a_repository_is_where_it_starts(muster: Installation, repo: tuple[Path, str]) -> None:
    source = {"url": repo[1], "folder": "sub"}
    run = launch(git=source, command="eval.py", client=muster.client())
    assert run.wait(60) is RunState.SUCCEEDED
    lost = launch(git={**source, "folder": "nowhere"}, command="eval.py", client=muster.client())
    assert lost.wait(60) is RunState.FAILED
    failure = lost.why().failure
    assert failure is not None
    assert failure.kind == "checkout_failed"
    assert "no folder 'nowhere'" in failure.summary


def test_inputs_declared_for_a_repository_reach_its_program_and_files(
    muster: Installation, repo: tuple[Path, str], server: GitServer
) -> None:
    folder, url = repo
    show = "import sys; print(sys.argv[1:], open('conf.yaml').read().split())\n"
    server.commit(folder, sub_in_show__py=show, sub_in_conf__yaml="lr: 9 # rate\n")
    client = muster.client()
    asked = JobRequest(
        name="declared",
        git=GitModel(url=url, folder="sub"),
        command=["show.py", "-x"],
        inputs={
            "schema": {"type": "object", "properties": {"lr": {"type": "number", "default": 0.1}}},
            "arguments": ["lr"],
            "files": ["conf.yaml"],
        },
    )
    assert client.create_job(asked).version == 0
    run = launch(job="declared", client=client)
    assert run.wait(60) is RunState.SUCCEEDED, run.why()
    assert list(run.logs()) == ["['-x', '--lr=0.1'] ['lr:', '0.1', '#', 'rate']"]
    again = run.rerun(config={"lr": 0.5})
    assert again.wait(60) is RunState.SUCCEEDED, again.why()
    assert list(again.logs()) == ["['-x', '--lr=0.5'] ['lr:', '0.5', '#', 'rate']"]
    with pytest.raises(BadInputValue, match="lr=fast"):
        launch(job="declared", config={"lr": "fast"}, client=client)


def test_a_repository_says_itself_what_it_runs_and_takes(
    muster: Installation, repo: tuple[Path, str], server: GitServer
) -> None:
    folder, url = repo
    show = "import sys; print(*sys.argv[1:])\n"
    server.commit(folder, sub_in_show__py=show, sub_in_muster__yaml=JOBFILE)
    source = {"url": url, "folder": "sub"}
    run = launch(git=source, command="--epochs 3", client=muster.client())
    assert run.wait(60) is RunState.SUCCEEDED, run.why()
    assert list(run.logs()) == ["--epochs 3 --lr=0.1"]
    assert run.model.job is not None
    assert run.model.job.name == "from-the-repository"
    with pytest.raises(BadInputValue, match="lr=2 is above the maximum of 1"):
        launch(git=source, config={"lr": 2}, client=muster.client())

    typed = ["launch", "-u", url, "--folder", "sub"]
    assert "--lr=0.5" in muster.muster(*typed, "--config", "lr=0.5", "--dry-run", check=True).stdout
    followed = muster.muster(*typed, "--config", "lr=0.5", "--follow", check=True)
    assert followed.stdout.splitlines()[0] == "--lr=0.5"
    made = muster.muster("job", "create", "-u", url, "--folder", "sub", check=True)
    assert made.stdout == "Job from-the-repository:v0 is there.\n", "the launch filed the same"
    grid = muster.muster(*typed, "--grid", "lr=0.2,0.3", "--follow", check=True)
    assert "2 ✔ succeeded" in grid.stderr


def test_a_repository_that_names_no_command_needs_one(muster: Installation, repo: tuple[Path, str]) -> None:
    for words in (["launch"], ["launch", "--dry-run"], ["job", "create"]):
        refused = muster.muster(*words, "-u", repo[1])
        assert refused.returncode == 2
        assert "There is no command to run" in refused.stderr


def test_the_server_refuses_a_scheme_its_operator_does_not_allow(muster: Installation) -> None:
    with pytest.raises(BadGit, match="only git, https are allowed"):
        launch(git="ssh://git@127.0.0.1:9/x", command="train.py", client=muster.client())


def test_a_repository_gives_its_training_shape_and_a_launch_changes_it(
    muster: Installation, repo: tuple[Path, str], server: GitServer
) -> None:
    folder, url = repo
    shape = "entrypoint: [sh, -c, 'echo $RANK of $WORLD_SIZE']\ntraining: {nodes: 2, procs_per_node: 2}\n"
    server.commit(folder, sub_in_muster__yaml=shape)
    run = launch(
        git={"url": url, "folder": "sub"},
        training={"procs_per_node": 1},
        values={"cpus": 0.1},
        client=muster.client(),
    )
    assert run.wait(60) is RunState.SUCCEEDED, run.why()
    assert sorted(run.logs()) == ["[0] 0 of 2", "[1] 1 of 2"]
    assert run.model.job is not None
    filed = muster.client().get_job_version(run.model.job.name).training
    assert filed is not None
    assert (filed.nodes, filed.procs_per_node) == (2, 1)
