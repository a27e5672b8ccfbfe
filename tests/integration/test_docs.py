"""The pages are true: their commands run, their links lead somewhere, their tables are current.

How a page says what is run and compared is told in docs/contributing/tests.md. To write the table of failure
classes anew: MUSTER_WRITE_DOCS=1 pytest tests/integration/test_docs.py -k failure_classes
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from installation import Installation
from muster.domain.failures.classes import CLASSES

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TROUBLESHOOTING = DOCS / "troubleshooting.md"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md")])
RUN = (
    "README.md",
    "docs/getting-started.md",
    "docs/queues.md",
    "docs/priorities.md",
    "docs/templates.md",
    "docs/jobs.md",
    "docs/inputs.md",
    "docs/python.md",
)
WITH_TORCH = ("README.md", "docs/getting-started.md")

_BLOCK = re.compile(r"((?:^<!--[^\n]*-->\n)*)^```(console|bash|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_STATUS = re.compile(r"<!-- status: (\d+) -->")
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\b\d+(?:\.\d+)? (?:s|min|h)\b")
_ID = re.compile(r"\b[a-z][a-z0-9]{9}\b")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"(<!-- failure classes:.*?-->\n)(.*?)(<!-- end of failure classes -->)", re.DOTALL)
_OF_THIS_MACHINE = re.compile(r"(?<![\w.~…-])/(?:work|root)/|" + re.escape(str(ROOT)))
#: Parts of host names, in pairs, so that this file itself has none of them.
_HOSTS = (
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("registry", "npmjs"),
    ("download", "pytorch"),
    ("docker", "io"),
    ("ghcr", "io"),
)
_REGISTRY = re.compile("|".join(rf"{first}\.{second}" for first, second in _HOSTS))


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block of a page and what the comments before it say."""

    kind: str
    text: str
    marks: str

    @property
    def needs_torch(self) -> bool:
        return "<!-- needs: torch -->" in self.marks

    @property
    def by_hand(self) -> bool:
        return "<!-- by hand -->" in self.marks

    @property
    def in_background(self) -> bool:
        return "<!-- another terminal -->" in self.marks

    @property
    def status(self) -> int:
        found = _STATUS.search(self.marks)
        return int(found[1]) if found else 0

    def commands(self) -> list[tuple[str, list[str]]]:
        """Each command of a console block, with the lines of output the page shows."""
        found: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            elif line.strip():
                found[-1][1].append(line)
        return found


def blocks(page: Path) -> list[Block]:
    return [
        Block(marks=marks, kind=kind, text=text)
        for marks, kind, text in _BLOCK.findall(page.read_text("utf-8"))
    ]


def normal(line: str) -> str:
    """Without what differs from one time to the next: ids, times, widths of columns."""
    return " ".join(_ID.sub("ID", _TIME.sub("TIME", line)).split())


def is_shown(expected: str, output: list[str]) -> bool:
    """Is this line of the page among the lines printed? `…` stands for anything."""
    parts = [re.escape(normal(part)) for part in expected.split("…")]
    pattern = re.compile(r"\s?.*\s?".join(parts))
    return any(pattern.fullmatch(line) for line in output)


@dataclass(kw_only=True)
class Reader:
    """Somebody who types what a page says, in one terminal and sometimes another."""

    muster: Installation
    folder: Path
    background: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        return {**self.muster.env, "PATH": path, "NO_COLOR": "1"}

    def read(self, page: Sequence[Block]) -> None:
        todo = [block for block in page if not block.by_hand]
        assert todo, "there is nothing to type"
        programs = [block for block in todo if block.kind == "python"]
        for block in todo:
            match block.kind:
                case "bash":
                    self._type(block.text, expect=0)
                case "console" if block.in_background:
                    self._start(block)
                case "console":
                    self._follow(block)
                case "python" if block is programs[-1]:  # names go on from block to block
                    self._run_python("\n".join(program.text for program in programs))

    def _follow(self, block: Block) -> None:
        commands = block.commands()
        for place, (command, shown) in enumerate(commands):
            output = self._type(command, expect=block.status if place == len(commands) - 1 else 0)
            lines = [normal(line) for line in self._neutral(output).splitlines()]
            for line in shown:
                assert is_shown(line, lines), f"$ {command}\nthe page shows: {line}\nbut it prints:\n{output}"

    def _type(self, command: str, *, expect: int) -> str:
        """In a shell; where it ends up is where the next command starts."""
        place = self.muster.data.parent / "place"
        script = f'{command}\nstatus=$?; pwd > "{place}"; exit $status'
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
        )
        assert done.returncode == expect, f"$ {command}\nexit status {done.returncode}:\n{done.stdout}"
        self.folder = Path(place.read_text().strip())
        return done.stdout

    def _start(self, block: Block) -> None:
        for command, _ in block.commands():
            self.background.append(
                subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=self.folder, env=self.env)
            )

    def _run_python(self, text: str) -> None:
        done = subprocess.run(
            [sys.executable, "-c", text],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _neutral(self, output: str) -> str:
        output = output.replace(str(self.muster.data), "~/.local/share/muster")
        return re.sub(rf"\b{re.escape(socket.gethostname())}\b", "workstation", output)

    def leave(self) -> None:
        for process in self.background:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A fresh installation for all pages: starting one a page takes longer than reading it."""
    folder = tmp_path_factory.mktemp("docs")
    cache = os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv"))
    env = {"MUSTER_FAKE_GPUS": "4", "LOGNAME": "you", "USER": "you", "UV_CACHE_DIR": cache}
    installation = Installation(folder, env=env)
    (folder / "home" / "muster").symlink_to(ROOT)
    installation.start()
    try:
        yield installation
    finally:
        installation.destroy()


@pytest.fixture
def reader(muster: Installation, tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(muster=muster, folder=tmp_path)
    try:
        yield reader
    finally:
        reader.leave()


@pytest.mark.parametrize("page", RUN)
def test_what_a_page_says_to_type_does_what_it_says(reader: Reader, page: str) -> None:
    reader.read([block for block in blocks(ROOT / page) if not block.needs_torch])


@pytest.mark.torch
@pytest.mark.parametrize("page", WITH_TORCH)
def test_so_does_what_needs_torch(reader: Reader, page: str) -> None:
    reader.folder = ROOT  # these blocks launch what is in examples/
    reader.read([block for block in blocks(ROOT / page) if block.needs_torch])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in _LINK.findall(_FENCED.sub("", page.read_text("utf-8"))):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{link} is not there"
        if anchor:
            assert anchor in anchors(target), f"{link}: no such heading"


def anchors(page: Path) -> set[str]:
    """The headings as GitHub makes anchors of them."""
    found = set()
    for heading in _HEADING.findall(_FENCED.sub("", page.read_text("utf-8"))):
        kept = [c for c in heading.lower() if c in " -_" or unicodedata.category(c)[0] in "LN"]
        found.add("".join(kept).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")) + sorted(DOCS.glob("contributing/*.md")), ids=str)
def test_a_page_starts_with_what_the_reader_can_do_after_it(page: Path) -> None:
    title, _, first, *_ = page.read_text("utf-8").splitlines()
    assert title.startswith("# ")
    assert first.startswith("After this page you "), first


def test_the_table_of_failure_classes_is_current() -> None:
    rows = [f"| `{row.kind}` | {row.title} | {row.advice} |\n" for row in CLASSES]
    wanted = "".join(["| Class | What it is | What to do |\n| --- | --- | --- |\n", *rows])
    page = TROUBLESHOOTING.read_text("utf-8")
    current = _TABLE.sub(lambda found: found[1] + wanted + found[3], page)
    if os.environ.get("MUSTER_WRITE_DOCS"):
        TROUBLESHOOTING.write_text(current, encoding="utf-8")
        page = current
    assert page == current, "MUSTER_WRITE_DOCS=1 pytest tests/integration/test_docs.py -k failure_classes"


def test_no_file_names_this_machine_or_a_registry() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True
    )
    if listed.returncode != 0:
        pytest.skip("this is no git repository")
    for name in filter(None, listed.stdout.decode().split("\0")):
        path = ROOT / name
        if not path.is_file() or b"\0" in (raw := path.read_bytes()):
            continue
        text = raw.decode("utf-8", "replace")
        for pattern in (_OF_THIS_MACHINE, _REGISTRY):
            found = pattern.search(text)
            assert found is None, f"{name} has {found[0]!r}"
