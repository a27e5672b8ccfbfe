"""The script that brings code into a pod, from a real server, with whatever tools an image has."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from installation import Installation
from muster.client.sdk import launch
from muster.engine.kubernetes.code import script
from muster.wire.agents import AgentRequest, PollRequest
from muster.wire.runs import ResourcesModel

SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]
BUSYBOX = shutil.which("busybox")
#: What an image may have. `rm` and `sleep` go with every `sh`.
IMAGES = {
    "python": ("python3",),
    "curl": ("curl", "tar", "sha256sum"),
    "wget": ("wget", "tar", "sha256sum"),
    "python and tar": ("python3", "tar", "sha256sum"),
    "nothing to verify with": ("curl", "tar"),
}
LONG = "/".join(["a-folder-with-a-rather-long-name"] * 9) + "/and-a-file-with-a-long-name-in-it.txt"
DEADLINE = 60


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    made = Installation(tmp_path_factory.mktemp("house"))
    made.start()
    yield made
    made.destroy()


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what is hard to carry: long names, odd ones, links, modes, big files, empty ones."""
    folder = tmp_path_factory.mktemp("code")
    (folder / LONG).parent.mkdir(parents=True)
    (folder / LONG).write_text("long\n")
    (folder / "train.py").write_text("print('hello')\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / " ä file\\with odd name ").write_text("odd\n")
    (folder / "-dash").write_text("dash\n")
    (folder / ".hidden").touch()
    (folder / "big").write_bytes(bytes(range(256)) * 8192)
    (folder / "link").symlink_to("train.py")
    (folder / "a-folder-with-a-rather-long-name" / "up").symlink_to("../" + LONG)
    return folder


@pytest.fixture(scope="module")
def secrets(house: Installation, code: Path) -> dict[str, str]:
    """What the Secret of a claimed run has."""
    client = house.client()
    config = house.data.parent / "queue.yaml"
    config.write_text("{template: {spec: {containers: [{}]}}}")
    made = house.muster("queue", "create", "cluster", "--resource", "kubernetes", "--config", str(config))
    assert made.returncode == 0, made.stderr
    run = launch(code, command="train.py", image="acme/stock:1", queue="cluster", client=client)
    plenty = ResourcesModel(millicpus=1000, memory=2**30)
    agent = client.wait(
        client.asynchronous.register_agent(
            AgentRequest(
                name="c1",
                incarnation="incarnation",
                engine="kubernetes",
                host="c",
                locality="c",
                version="1",
                max_jobs=1,
                total=plenty,
                queues=["cluster"],
            )
        )
    )
    asked = PollRequest(incarnation="incarnation", slots=1, free=plenty, wait=10)
    answer = client.wait(client.asynchronous.poll_work(agent.id, asked))
    (claim,) = answer.claims
    assert claim.run.id == run.id
    return claim.secrets(house.url)


def tools(tmp_path: Path, *names: str) -> str:
    """A PATH of these alone."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in (*names, "rm", "sleep"):
        real = sys.executable if name == "python3" else shutil.which(name)
        assert real is not None, name
        wrapper = folder / name
        wrapper.write_text(f'#!/bin/sh\nexec {real} "$@"\n')
        wrapper.chmod(0o755)
    return str(folder)


def fetch(
    shell: str, path: str, secrets: dict[str, str], folder: Path, **more: str
) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    words = [shell, "sh"] if shell == BUSYBOX else [str(shutil.which(shell))]
    known = {key: value for key, value in secrets.items() if key.startswith("MUSTER_CODE")}
    return subprocess.run(
        [*words, "-c", script(), "sh", str(folder)],
        env={"PATH": path, **known, **more},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )


def tree(folder: Path) -> dict[str, Any]:
    """Everything in it: content, what a link leads to, what may be executed."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file():
            found[name] = (path.read_bytes(), bool(path.stat().st_mode & stat.S_IXUSR))
    return found


@pytest.mark.parametrize("image", IMAGES)
@pytest.mark.parametrize("shell", SHELLS)
def test_code_arrives_as_it_was_launched_whatever_the_image_has(
    secrets: dict[str, str], code: Path, tmp_path: Path, shell: str, image: str
) -> None:
    done = fetch(shell, tools(tmp_path, *IMAGES[image]), secrets, tmp_path / "code")
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "code") == tree(code)
    assert ("not verified" in done.stderr) == (image == "nothing to verify with")


@pytest.mark.skipif(BUSYBOX is None, reason="There is no busybox here.")
def test_busybox_alone_is_enough(secrets: dict[str, str], code: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("wget", "tar", "sha256sum", "rm", "sleep"):
        (tmp_path / "bin" / name).symlink_to(BUSYBOX or "")
    done = fetch(BUSYBOX or "", str(tmp_path / "bin"), secrets, tmp_path / "code")
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / "code") == tree(code)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("tar",), "this image has none of python3, curl, wget"),
        (("curl",), "this image has neither tar nor python3"),
    ],
)
def test_what_an_image_lacks_is_named(
    secrets: dict[str, str], tmp_path: Path, names: tuple[str, ...], told: str
) -> None:
    done = fetch("dash", tools(tmp_path, *names), secrets, tmp_path / "code")
    assert done.returncode == 127
    assert told in done.stderr


@pytest.mark.parametrize("image", ["python", "curl", "wget"])
def test_a_key_that_does_not_open_it_is_told_and_never_shown(
    secrets: dict[str, str], tmp_path: Path, image: str
) -> None:
    path = tools(tmp_path, *IMAGES[image])
    (tmp_path / "bin" / "sleep").write_text(f"#!/bin/sh\necho $1 >>{tmp_path}/pauses\n")
    done = fetch("dash", path, {**secrets, "MUSTER_CODE_KEY": "mc-wrong"}, tmp_path / "code")
    assert done.returncode == 1
    assert f"could not be brought from {secrets['MUSTER_CODE_URL']}, in 5 tries" in done.stderr
    assert "mc-wrong" not in done.stderr
    assert (tmp_path / "pauses").read_text().split() == ["1", "2", "4", "8"]


@pytest.mark.parametrize("verifier", ["sha256sum", "python3"])
def test_what_arrives_damaged_is_fetched_again(
    secrets: dict[str, str], code: Path, tmp_path: Path, verifier: str
) -> None:
    """A tar that changes a byte of what it unpacks, once."""
    path = tools(tmp_path, "python3", *((verifier,) if verifier != "python3" else ()))
    once, real = tmp_path / "once", shutil.which("tar")
    damage = f"[ -e {once} ] || {{ echo damaged >train.py; : >{once}; }}"
    tar = tmp_path / "bin" / "tar"
    tar.write_text(f'#!/bin/sh\n{real} "$@" && {damage}\n')
    tar.chmod(0o755)
    done = fetch("dash", path, secrets, tmp_path / "code")
    assert done.returncode == 0, done.stderr
    assert once.exists()
    assert "train.py" in done.stderr or "WARNING" in done.stderr
    assert tree(tmp_path / "code") == tree(code)
