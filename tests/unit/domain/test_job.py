"""What a job is called, which content makes a version, how a command is split."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from muster.domain.errors import BadInput, BadName, NotFound
from muster.domain.job import Job, JobContent, JobName, Source, checked_alias, split
from muster.domain.names import checked_name
from muster.domain.source import GitSource
from muster.domain.training import Training

SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("acme/train:main", "job-acme_train"),
        ("train", "job-train"),
        ("registry.example:5000/acme/train:v1", "job-acme_train"),
        ("localhost/train", "job-train"),
        ("host.example/team/sub/train@sha256:" + "a" * 64, "job-team_sub_train"),
        ("acme/train:main@sha256:" + "a" * 64, "job-acme_train"),
        ("x" * 300, "job-" + "x" * 60),
        ("???", "job-image"),
    ],
)
def test_an_image_gives_the_name_without_host_and_tag(image: str, name: str) -> None:
    assert checked_name(Source(image=image).name(folder=None, entrypoint=()), what="job") == name


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://host/acme/train.git", "job-acme_train"),
        ("https://host:8443/acme/train/", "job-acme_train"),
        ("git@host:acme/train.git", "job-acme_train"),
        ("ssh://git@host/train", "job-train"),
    ],
)
def test_a_repository_gives_the_name_of_its_path(url: str, name: str) -> None:
    assert Source(git=GitSource(url=url)).name(folder=None, entrypoint=("a.py",)) == name


@pytest.mark.parametrize(
    ("folder", "entrypoint", "name"),
    [
        ("vision", ("train.py",), "job-vision"),
        ("my project!", ("train.py",), "job-my_project"),
        (None, ("python", "tools/train.py"), "job-train"),
        (None, ("make",), "job-snapshot"),
    ],
)
def test_a_snapshot_is_called_after_its_folder_or_script(
    folder: str | None, entrypoint: tuple[str, ...], name: str
) -> None:
    assert Source(snapshot="s").name(folder=folder, entrypoint=entrypoint) == name


@pytest.mark.parametrize(
    ("command", "entrypoint"),
    [
        ("train.py --lr 1", "train.py"),
        ("python -m pkg x", "python -m pkg"),
        ("python3.12 train.py --lr 1", "python3.12 train.py"),
        ("/usr/bin/python train.py", "/usr/bin/python train.py"),
        ("python -c 1", "python"),
        ("python", "python"),
        ("python -m", "python"),
        ("bash run.sh x", "bash"),
        ("", ""),
    ],
)
def test_a_command_is_what_is_started_and_what_it_is_told(command: str, entrypoint: str) -> None:
    words = tuple(command.split())
    begin, rest = split(words)
    assert begin == tuple(entrypoint.split())
    assert begin + rest == words


def content(**given: object) -> JobContent:
    base = JobContent(source=Source(image="acme/train:main"), entrypoint=("train.py",))
    return replace(base, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "other",
    [
        content(source=Source(image="acme/train:dev")),
        content(source=Source(snapshot="s")),
        content(entrypoint=("eval.py",)),
        content(inputs={"lr": {"type": "number"}}),
        content(training=Training(nodes=2)),
    ],
)
def test_other_content_is_another_version(other: JobContent) -> None:
    assert other.digest != content().digest
    assert JobContent.from_data(other.to_data()) == other


def test_a_commit_is_one_content_whatever_led_to_it() -> None:
    def at(ref: str | None, commit: str | None) -> str:
        return content(source=Source(git=GitSource(url="https://h/r", ref=ref, commit=commit))).digest

    assert at("main", SHA) == at("v1", SHA) == at(None, SHA)
    assert len({at("main", None), at("v1", None), at(None, None), at(None, SHA)}) == 4


def test_two_sources_of_code_are_refused() -> None:
    with pytest.raises(BadInput, match="two sources of code"):
        Source(snapshot="s", git=GitSource(url="https://h/r"))


JOB = Job(
    id="j",
    entity="ann",
    project="default",
    name="job-x",
    newest=3,
    aliases={"best": 1},
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    created_by="ann",
)


@pytest.mark.parametrize(("wanted", "version"), [("latest", 3), ("v0", 0), ("v3", 3), ("best", 1)])
def test_versions_and_aliases_are_resolved(wanted: str, version: int) -> None:
    assert JOB.resolve(wanted) == version


@pytest.mark.parametrize("wanted", ["v4", "v03", "worst", "", "3"])
def test_an_unknown_version_is_answered_with_the_known_ones(wanted: str) -> None:
    with pytest.raises(NotFound, match=r"v0 … v3, and the aliases latest, best"):
        JOB.resolve(wanted)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("job-x", (None, "job-x", None)),
        ("job-x:v3", (None, "job-x", "v3")),
        ("vision/job-x:best", ("vision", "job-x", "best")),
    ],
)
def test_a_job_is_named_with_project_and_alias(text: str, parts: tuple[str | None, ...]) -> None:
    name = JobName.parse(text)
    assert (name.project, name.name, name.alias) == parts


@pytest.mark.parametrize("text", ["", ":v1", "a/b/c", "/x", "x:"])
def test_what_names_no_job_is_refused(text: str) -> None:
    with pytest.raises(BadName):
        JobName.parse(text)


@pytest.mark.parametrize("alias", ["latest", "v0", "v12", "a b", ""])
def test_an_alias_must_not_say_which_version_it_is(alias: str) -> None:
    with pytest.raises(BadName):
        checked_alias(alias)
