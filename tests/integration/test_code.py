"""Taking code along and unpacking it again: real folders, real git, real processes."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pathspec  # noqa: F401 - loaded before a test gives up the right to read it
import pytest

from muster.agent.cachedir import CacheDir
from muster.agent.code import CodeCache
from muster.client.code import CollectedCode, collect, pack
from muster.domain.errors import BadSnapshot
from muster.domain.snapshot import Snapshot, SnapshotFile, sha256_of
from muster.wire.frames import BlobData, BlobEnd, FrameReader


def write(root: Path, files: Mapping[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=me", "-c", "user.email=me@example.org", "-c", "protocol.file.allow=always"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=root, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def repository(root: Path, files: Mapping[str, str]) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "-q", "-b", "main")
    write(root, files)
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", "first")
    return root


def names(code: CollectedCode) -> list[str]:
    return [file.path for file in code.snapshot.files]


# --- which files -----------------------------------------------------------------------------------

IGNORED_TREES: dict[str, tuple[dict[str, str], list[str]]] = {
    "plain": ({"a.py": "", "d/b.py": ""}, ["a.py", "d/b.py"]),
    "a name anywhere": (
        {".gitignore": "*.log\n", "x.log": "", "d/y.log": "", "d/z": ""},
        [".gitignore", "d/z"],
    ),
    "anchored": ({".gitignore": "/out\n", "out/x": "", "d/out/y": ""}, [".gitignore", "d/out/y"]),
    "folders only": ({".gitignore": "out/\n", "out/x": "", "d/out": ""}, [".gitignore", "d/out"]),
    "taken back": (
        {".gitignore": "*.csv\n!keep.csv\n", "a.csv": "", "d/keep.csv": ""},
        [".gitignore", "d/keep.csv"],
    ),
    "not out of an ignored folder": (
        {".gitignore": "d/\n!d/keep\n", "d/keep": "", "e": ""},
        [".gitignore", "e"],
    ),
    "a deeper file decides": (
        {".gitignore": "*.txt\n", "d/.gitignore": "!*.txt\n", "a.txt": "", "d/b.txt": ""},
        [".gitignore", "d/.gitignore", "d/b.txt"],
    ),
    "everything but": (
        {".gitignore": "*\n!*/\n!*.py\n", "a.py": "", "a.bin": "", "d/b.py": "", "d/b.bin": ""},
        ["a.py", "d/b.py"],
    ),
    "all inside but": ({".gitignore": "d/**\n!d/keep\n", "d/keep": "", "d/x": ""}, [".gitignore", "d/keep"]),
    "a folder taken back": (
        {".gitignore": "/*\n!/d/\nsub/\n!d/\n", "x": "", "d/y": "", "d/sub/z": ""},
        ["d/y"],
    ),
    "a line that means nothing": ({".gitignore": "!\n\n#x\nx\n", "x": "", "#x": ""}, ["#x", ".gitignore"]),
    "musterignore": (
        {".musterignore": "data\n", "data/x": "", "d/.musterignore": "/y", "d/y": "", "d/e/y": ""},
        [".musterignore", "d/.musterignore", "d/e/y"],
    ),
    "windows line ends and comments": (
        {".musterignore": "# no\r\nx y\r\n", "x y": "", "z": ""},
        [".musterignore", "z"],
    ),
    "always": (
        {
            **dict.fromkeys((".venv/x", "d/node_modules/x", ".mypy_cache/x", ".pytest_cache/x"), ""),
            **dict.fromkeys((".ruff_cache/x", "d/__pycache__/x.pyc", "y.pyc", "venv/z", "wandb/log"), ""),
            **dict.fromkeys(("env/pyvenv.cfg", "env/lib/big.py"), ""),
        },
        ["venv/z", "wandb/log"],
    ),
}


@pytest.mark.parametrize("inside_git", [True, False])
@pytest.mark.parametrize("case", IGNORED_TREES)
def test_the_same_files_go_along_with_git_and_without(tmp_path: Path, case: str, inside_git: bool) -> None:
    files, expected = IGNORED_TREES[case]
    write(tmp_path, files)
    if inside_git:
        git(tmp_path, "init", "-q")

    assert names(collect(tmp_path)) == expected


def test_the_files_go_along_as_they_lie_on_the_disk(tmp_path: Path) -> None:
    root = repository(
        tmp_path / "repo", {"same": "1", "changed": "1", "deleted": "1", "gone/x": "", "-z é": ""}
    )
    write(root, {"changed": "2", "new": "3"})
    (root / "deleted").unlink()
    shutil.rmtree(root / "gone")
    (root / "same").chmod(0o700)

    code = collect(root)

    assert names(code) == ["-z é", "changed", "new", "same"]
    by_path = {file.path: file for file in code.snapshot.files}
    assert by_path["changed"].sha256 == sha256_of("2")
    assert by_path["same"].mode == 0o755
    assert by_path["new"].mode == 0o644
    assert {sha: path.read_text() for sha, path in code.paths.items()} == {
        sha256_of(text): text for text in ("", "1", "2", "3")
    }


def test_a_folder_inside_a_repository_is_taken_alone(tmp_path: Path) -> None:
    root = repository(tmp_path, {".gitignore": "*.log\n", "sub/train.py": "", "sub/x.log": "", "other": ""})
    assert names(collect(root / "sub")) == ["train.py"]


def test_a_folder_that_the_repository_around_it_ignores_is_taken_nevertheless(tmp_path: Path) -> None:
    root = repository(tmp_path, {".gitignore": "*\n", "work/train.py": "", "work/x.pyc": ""})
    assert names(collect(root / "work")) == ["train.py"]


def test_a_tracked_file_can_be_left_out_and_a_changed_kind_is_no_trouble(tmp_path: Path) -> None:
    root = repository(
        tmp_path, {".musterignore": "big\n", "big": "", "d/f": "", "real/f": "", "was_file": ""}
    )
    shutil.rmtree(root / "d")
    (root / "d").symlink_to("real")
    (root / "was_file").unlink()
    write(root, {"was_file/now": ""})

    assert names(collect(root)) == [".musterignore", "d", "real/f", "was_file/now"]


def test_submodules_and_repositories_inside_are_walked(tmp_path: Path) -> None:
    library = repository(tmp_path / "library", {"lib.py": "", ".gitignore": "*.log\n"})
    root = repository(tmp_path / "root", {"train.py": ""})
    git(root, "submodule", "add", "-q", str(library), "libs/one")
    git(root, "submodule", "add", "-q", str(library), "libs/two")
    repository(root / "nested", {"n.py": ""})
    write(root, {"libs/one/new.py": "", "libs/one/x.log": ""})
    git(root, "submodule", "deinit", "-q", "-f", "libs/two")

    code = collect(root)

    one = ["libs/one/.gitignore", "libs/one/lib.py", "libs/one/new.py"]
    assert names(code) == [".gitmodules", *one, "nested/n.py", "train.py"]
    assert len(code.notes) == 1
    assert "libs/two is not checked out" in code.notes[0]


def test_git_state_is_told(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", {"train.py": ""})
    git(root, "remote", "add", "upstream", "https://example.org/other.git")
    git(root, "remote", "add", "origin", "https://me:secret@example.org/x.git")
    clean = collect(root).snapshot
    write(root, {"# new file": ""})
    git(root, "checkout", "-q", "--detach")
    dirty = collect(root).snapshot

    assert clean.git is not None
    assert dirty.git is not None
    assert clean.git.remote == "https://example.org/x.git"
    assert (clean.git.commit, clean.git.branch, clean.git.dirty) == (
        git(root, "rev-parse", "HEAD"),
        "main",
        False,
    )
    assert (dirty.git.branch, dirty.git.dirty) == (None, True)


def test_a_repository_without_commits_is_taken(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    write(tmp_path, {"train.py": ""})
    state = collect(tmp_path).snapshot.git
    assert state is not None
    assert (state.commit, state.branch, state.remote, state.dirty) == (None, "main", None, True)


def test_the_variables_of_a_git_hook_do_not_mislead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = repository(tmp_path / "other", {"wrong": ""})
    root = repository(tmp_path / "root", {"right": ""})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    assert names(collect(root)) == ["right"]


def test_links_inside_the_tree_are_kept_as_links(tmp_path: Path) -> None:
    write(tmp_path, {"data/v1/x": "1"})
    (tmp_path / "data" / "latest").symlink_to("v1")
    (tmp_path / "nowhere").symlink_to("data/v9")
    links = {file.path: file.link for file in collect(tmp_path).snapshot.files if file.link}
    assert links == {"data/latest": "v1", "nowhere": "data/v9"}


# --- what stands in the way ------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "train.py/../../outside"])
def test_a_link_out_of_the_tree_is_refused(tmp_path: Path, target: str) -> None:
    write(tmp_path, {"train.py": ""})
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(BadSnapshot, match=r"'link' to .* leads out.*\.musterignore"):
        collect(tmp_path)
    write(tmp_path, {".musterignore": "link\n"})
    assert names(collect(tmp_path)) == [".musterignore", "train.py"]


def test_a_root_that_is_no_folder_with_files_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": ""})
    (tmp_path / "empty" / "emptier").mkdir(parents=True)
    with pytest.raises(BadSnapshot, match="is not a folder"):
        collect(tmp_path / "train.py")
    with pytest.raises(BadSnapshot, match="There is no folder"):
        collect(tmp_path / "missing")
    with pytest.raises(BadSnapshot, match="no file to take along"):
        collect(tmp_path / "empty")


def test_a_fifo_or_socket_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadSnapshot, match=r"'pipe' is neither .*\.musterignore"):
        collect(tmp_path)
    (tmp_path / "pipe").unlink()
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{short}/sock")
        with pytest.raises(BadSnapshot, match="'sock' is neither"):
            collect(Path(short))


@pytest.mark.parametrize("inside_git", [True, False])
@pytest.mark.parametrize("name", [b"caf\xe9.py", b"new\nline"])
def test_a_name_that_cannot_travel_is_refused(tmp_path: Path, name: bytes, inside_git: bool) -> None:
    if inside_git:
        git(tmp_path, "init", "-q")
    Path(os.fsdecode(bytes(tmp_path) + b"/" + name)).touch()
    with pytest.raises(BadSnapshot, match="control characters or is not UTF-8"):
        collect(tmp_path)
    write(tmp_path, {".musterignore": "caf*\nnew*\n"})
    assert names(collect(tmp_path)) == [".musterignore"]


@contextmanager
def as_somebody_else() -> Iterator[None]:
    """Root can read everything; the tests of this project often run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("unreadable", ["secret", "folder"])
def test_what_cannot_be_read_is_named(unreadable: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = write(Path(folder), {"secret": "x", "folder/y": ""})
        root.chmod(0o755)
        (root / unreadable).chmod(0)
        try:
            with (
                as_somebody_else(),
                pytest.raises(BadSnapshot, match=rf"{unreadable}.* cannot be read: Permission"),
            ):
                collect(root)
        finally:
            (root / unreadable).chmod(0o700)


def test_too_much_is_refused_with_the_names_of_the_biggest(tmp_path: Path) -> None:
    write(tmp_path, {"data/big.bin": "x" * 3000, "data/b": "x" * 100, "model.pt": "x" * 500, "train.py": "x"})

    with pytest.raises(BadSnapshot) as caught:
        collect(tmp_path, max_bytes=2000)
    assert "3.5 KiB; 2.0 KiB can be taken along" in caught.value.detail
    assert "data/ (3.0 KiB), model.pt (500 B)" in caught.value.detail
    assert "data/big.bin (2.9 KiB)" in caught.value.detail
    assert ".musterignore" in caught.value.hint

    with pytest.raises(BadSnapshot, match=r"4 files; 3 can be taken along.*data/ \(2 files\)"):
        collect(tmp_path, max_files=3)
    with pytest.raises(BadSnapshot, match="more than 2 files; 1 can"):
        collect(tmp_path, max_files=1)

    write(tmp_path, {".musterignore": "data/\n"})
    assert names(collect(tmp_path, max_bytes=2000)) == [".musterignore", "model.pt", "train.py"]


def test_progress_ends_at_the_total(tmp_path: Path) -> None:
    write(tmp_path, {"a": "xx", "b": "", "c": "yyy"})
    told: list[tuple[int, int]] = []
    collect(tmp_path, progress=lambda done, total: told.append((done, total)))
    assert told == [(2, 5), (2, 5), (5, 5)]


def test_many_small_files_are_quick(tmp_path: Path) -> None:
    for folder in range(50):
        write(tmp_path, {f"d{folder}/f{number}.py": f"{folder} {number}" for number in range(100)})
    write(tmp_path, {".gitignore": "*.log\nbuild/\n/dist\n", ".musterignore": "data/\n"})
    started = time.process_time()
    assert len(collect(tmp_path).snapshot.files) == 5002
    assert time.process_time() - started < 3  # about half a second on a quiet machine


def test_importing_it_costs_next_to_nothing() -> None:
    heavy = "{'httpx', 'subprocess', 'pathspec', 'hashlib', 'asyncio', 'pydantic'}"
    script = f"import sys, muster.domain.snapshot as s; b = set(sys.modules); import muster.client.code; print({heavy} & (set(sys.modules) - b))"  # noqa: E501
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# --- sending ---------------------------------------------------------------------------------------


def received(chunks: Iterator[bytes]) -> dict[str, bytes]:
    reader = FrameReader()
    blobs: dict[str, bytes] = {}
    content = b""
    for event in (event for chunk in chunks for event in reader.feed(chunk)):
        if isinstance(event, BlobData):
            content += event.data
        elif isinstance(event, BlobEnd):
            blobs[event.sha256], content = content, b""
    reader.close()
    return blobs


def test_what_is_packed_arrives(tmp_path: Path) -> None:
    write(tmp_path, {"empty": "", "small": "x", "exact": "y" * 2**20, "large": "z" * (3 * 2**20 + 7)})
    code = collect(tmp_path)

    blobs = received(pack(code.paths.items()))

    assert blobs == {sha: path.read_bytes() for sha, path in code.paths.items()}
    assert set(blobs) == set(code.snapshot.blobs)


def test_small_blobs_travel_together(tmp_path: Path) -> None:
    write(tmp_path, {f"f{number}": str(number) for number in range(1000)})
    assert len(list(pack(collect(tmp_path).paths.items()))) == 1


@pytest.mark.parametrize("content", ["changed", "longer than before", "", None])
@pytest.mark.parametrize("size", [7, 3 * 2**20])
def test_a_file_that_changed_is_never_sent_as_what_it_was(
    tmp_path: Path, size: int, content: str | None
) -> None:
    write(tmp_path, {"file": "x" * size})
    code = collect(tmp_path)
    if content is None:
        (tmp_path / "file").unlink()
    else:
        (tmp_path / "file").write_text(content * (1 if size == 7 else 2**19))
    with pytest.raises(BadSnapshot, match=r"changed while it was sent|cannot be read any more"):
        list(pack(code.paths.items()))


def test_a_file_that_is_cut_while_it_is_sent_is_noticed(tmp_path: Path) -> None:
    write(tmp_path, {"file": "x" * (4 * 2**20)})
    chunks = pack(collect(tmp_path).paths.items())
    next(chunks)
    os.truncate(tmp_path / "file", 2 * 2**20)
    with pytest.raises(BadSnapshot, match="changed while it was sent"):
        list(chunks)


# --- unpacking -------------------------------------------------------------------------------------


@pytest.fixture
def code(tmp_path: Path) -> CollectedCode:
    root = write(
        tmp_path / "source", {"train.py": "print()", "bin/go": "#!/bin/sh", "lib/deep/x": "é", "empty": ""}
    )
    (root / "bin/go").chmod(0o755)
    (root / "lib/latest").symlink_to("deep/x")
    return collect(root)


class Server:
    """Hands out one snapshot, as the server does, and counts."""

    def __init__(self, code: CollectedCode, *, swap: Mapping[str, bytes] | None = None) -> None:
        self.code = code
        self.fetched = 0
        self.swap = swap or {}

    async def fetch(self, to: Path) -> None:
        self.fetched += 1
        with tarfile.open(to, "w:") as archive:
            for file in self.code.snapshot.files:
                member = tarfile.TarInfo(file.path)
                if file.link is not None:
                    member.type, member.linkname = tarfile.SYMTYPE, file.link
                    archive.addfile(member)
                    continue
                content = self.swap.get(file.path, self.code.paths[file.sha256].read_bytes())
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        await asyncio.sleep(0)


def test_the_code_arrives_as_it_was_and_is_fetched_once(tmp_path: Path, code: CollectedCode) -> None:
    server = Server(code)
    cache = CodeCache(tmp_path / "cache")

    async def check_out_three() -> None:
        await asyncio.gather(
            *(cache.checkout(code.snapshot, server.fetch, tmp_path / f"run{n}") for n in range(3))
        )

    asyncio.run(check_out_three())

    assert server.fetched == 1
    for number in range(3):
        assert collect(tmp_path / f"run{number}").snapshot.id == code.snapshot.id
    assert not list((tmp_path / "cache").glob(".tmp-*"))


def test_a_run_that_changes_its_files_does_not_change_the_cache(tmp_path: Path, code: CollectedCode) -> None:
    server, cache = Server(code), CodeCache(tmp_path / "cache")
    asyncio.run(cache.checkout(code.snapshot, server.fetch, tmp_path / "run1"))
    with (tmp_path / "run1/train.py").open("r+") as file:
        file.write("spoilt")
    (tmp_path / "run1/lib/latest").write_text("spoilt through a link")

    asyncio.run(cache.checkout(code.snapshot, server.fetch, tmp_path / "run2"))
    assert collect(tmp_path / "run2").snapshot.id == code.snapshot.id


def test_a_copy_that_was_cut_short_is_completed(tmp_path: Path, code: CollectedCode) -> None:
    run = write(tmp_path / "run", {"train.py": "half", "outside": "x"})
    (run / "lib").mkdir()
    (run / "lib/latest").symlink_to("../outside")
    asyncio.run(CodeCache(tmp_path / "cache").checkout(code.snapshot, Server(code).fetch, run))
    assert (run / "outside").read_text() == "x"
    (run / "outside").unlink()
    assert collect(run).snapshot.id == code.snapshot.id


PROCESS = """
import asyncio, json, sys
from pathlib import Path
from muster.agent.code import CodeCache
from muster.domain.snapshot import Snapshot
manifest, tar, cache, target, log = map(Path, sys.argv[1:])
async def fetch(to):
    with log.open("a") as file:
        file.write("fetched\\n")
    to.write_bytes(tar.read_bytes())
sys.stdin.readline()
asyncio.run(CodeCache(cache).checkout(Snapshot.from_data(json.loads(manifest.read_text())), fetch, target))
"""


def test_several_processes_fetch_once(tmp_path: Path, code: CollectedCode) -> None:
    import json

    (tmp_path / "manifest").write_text(json.dumps(code.snapshot.to_data()))
    asyncio.run(Server(code).fetch(tmp_path / "tar"))
    given = [str(tmp_path / name) for name in ("manifest", "tar", "cache")]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, *given, str(tmp_path / f"run{number}"), str(tmp_path / "log")],
            stdin=subprocess.PIPE,
        )
        for number in range(3)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.close()
    assert [process.wait(timeout=30) for process in processes] == [0, 0, 0]
    assert (tmp_path / "log").read_text() == "fetched\n"
    assert collect(tmp_path / "run2").snapshot.id == code.snapshot.id


@pytest.mark.parametrize(
    ("swap", "complaint"),
    [({"train.py": b"evil()!"}, "another content"), ({"train.py": b""}, "another content")],
)
def test_a_file_with_another_content_is_refused(
    tmp_path: Path, code: CollectedCode, swap: dict[str, bytes], complaint: str
) -> None:
    cache = CodeCache(tmp_path / "cache")
    with pytest.raises(BadSnapshot, match=complaint):
        asyncio.run(cache.checkout(code.snapshot, Server(code, swap=swap).fetch, tmp_path / "run"))
    assert not (tmp_path / "run").exists()
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [".locks"]

    asyncio.run(cache.checkout(code.snapshot, Server(code).fetch, tmp_path / "run"))
    assert collect(tmp_path / "run").snapshot.id == code.snapshot.id


def tar_of(*members: tuple[tarfile.TarInfo, bytes]) -> Callable[[Path], Awaitable[None]]:
    async def fetch(to: Path) -> None:
        with tarfile.open(to, "w:") as archive:
            for member, content in members:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))

    return fetch


def link_member(name: str, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


async def fetch_garbage(to: Path) -> None:
    to.write_bytes(b"<html>not found</html>")  # noqa: ASYNC240


@pytest.mark.parametrize(
    ("fetch", "complaint"),
    [
        (tar_of(), "lacks 'a'"),
        (
            tar_of((tarfile.TarInfo("a"), b"x"), (tarfile.TarInfo("../evil"), b"")),
            "'../evil', which was never sent",
        ),
        (tar_of((tarfile.TarInfo("/tmp/evil"), b"")), "never sent"),
        (tar_of((link_member("a", "/etc/passwd"), b"")), "lacks 'a'"),
        (tar_of((link_member("a", "../outside"), b""), (tarfile.TarInfo("a"), b"y")), "another content"),
        (tar_of((tarfile.TarInfo("a"), b"x"), (tarfile.TarInfo("a"), b"x")), "never sent"),
        (fetch_garbage, "cannot be unpacked"),
    ],
)
def test_a_hostile_or_broken_archive_is_refused(
    tmp_path: Path, fetch: Callable[[Path], Awaitable[None]], complaint: str
) -> None:
    snapshot = Snapshot(files=(SnapshotFile(path="a", mode=0o644, size=1, sha256=sha256_of("x")),))
    with pytest.raises(BadSnapshot, match=complaint):
        asyncio.run(CodeCache(tmp_path / "cache").checkout(snapshot, fetch, tmp_path / "run"))
    assert {path.name for path in tmp_path.rglob("*")} == {"cache", ".locks", snapshot.id}


def test_a_cancelled_fetch_leaves_nothing(tmp_path: Path, code: CollectedCode) -> None:
    cache = CodeCache(tmp_path / "cache")

    async def cancel_while_fetching() -> None:
        started = asyncio.Event()

        async def fetch(to: Path) -> None:
            to.write_bytes(b"half")  # noqa: ASYNC240
            started.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(cache.checkout(code.snapshot, fetch, tmp_path / "run"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await cache.checkout(code.snapshot, Server(code).fetch, tmp_path / "run")

    asyncio.run(cancel_while_fetching())
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == [".locks", code.snapshot.id]


def test_what_killed_agents_left_is_removed_and_what_one_works_on_is_not(
    tmp_path: Path, code: CollectedCode
) -> None:
    cache = tmp_path / "cache"
    for name in ("left", "busy"):
        write(cache, {f".tmp-{name}/tar": "x"})

    async def checkout_beside_another() -> None:
        async with CacheDir(cache).lock("busy"):
            await CodeCache(cache).checkout(code.snapshot, Server(code).fetch, tmp_path / "run")

    asyncio.run(checkout_beside_another())
    assert [path.name for path in cache.glob(".tmp-*")] == [".tmp-busy"]


# --- the cache folder itself -----------------------------------------------------------------------


def filled(root: Path) -> CacheDir:
    """Entries of 100 bytes, `a` unused for longest."""
    for age, key in enumerate("dcba"):
        write(root, {f"{key}/x": "x" * 60, f"{key}/y/z": "x" * 40})
        os.utime(root / key, (1000 - age, 1000 - age))
    return CacheDir(root)


def test_prune_removes_the_longest_unused_until_the_rest_fits(tmp_path: Path) -> None:
    cache = filled(tmp_path / "cache")
    assert cache.prune(400) == []
    cache.touch("a")
    assert cache.prune(250) == ["b", "c"]
    assert sorted(path.name for path in cache.root.iterdir()) == [".locks", "a", "d"]
    assert CacheDir(tmp_path / "none").prune(0) == []


def test_prune_leaves_what_is_locked_or_kept(tmp_path: Path) -> None:
    cache = filled(tmp_path / "cache")

    async def prune_while_reading() -> list[str]:
        async with cache.lock("a", shared=True), cache.lock("a", shared=True):
            return cache.prune(0, keep=["b"])

    assert asyncio.run(prune_while_reading()) == ["c", "d"]
    assert cache.prune(0) == ["a", "b"]


def test_a_lock_whose_file_was_pruned_meanwhile_still_excludes(tmp_path: Path) -> None:
    """Who waited on the removed file must not think it holds the lock of the new one."""
    cache = CacheDir(tmp_path)

    async def scenario() -> list[str]:
        order: list[str] = []
        waits = asyncio.Event()

        async def second() -> None:
            async with cache.lock("k", waiting=waits.set):
                order.append("second")
                assert (tmp_path / ".locks/k").exists()

        async with cache.lock("k"):
            task = asyncio.create_task(second())
            await waits.wait()
            (tmp_path / ".locks/k").unlink()
            order.append("first")
        await task
        return order

    assert asyncio.run(scenario()) == ["first", "second"]


def test_a_cancelled_wait_for_a_lock_gives_it_back(tmp_path: Path) -> None:
    cache = CacheDir(tmp_path)

    async def scenario() -> None:
        waits = asyncio.Event()

        async def hold() -> None:
            async with cache.lock("k", waiting=waits.set):
                raise AssertionError("unreachable")

        async with cache.lock("k"):
            task = asyncio.create_task(hold())
            await waits.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with asyncio.timeout(10), cache.lock("k"):
            pass

    asyncio.run(scenario())


def test_the_hash_of_a_link_is_the_hash_of_its_target() -> None:
    assert SnapshotFile.symlink("a", "b").sha256 == hashlib.sha256(b"b").hexdigest()
