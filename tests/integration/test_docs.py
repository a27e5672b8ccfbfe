"""The pages are true: their commands run, their links lead somewhere, their tables are current.

How a page says what is run and compared is told in docs/contributing/tests.md. To write the table of failure
classes anew: MUSTER_WRITE_DOCS=1 pytest tests/integration/test_docs.py -k failure_classes
"""

from __future__ import annotations

import os
import re
import subprocess
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from installation import Installation
from muster.domain.failures.classes import CLASSES
from pages import Reader, blocks

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
    "docs/training.md",
    "docs/jobs.md",
    "docs/inputs.md",
    "docs/python.md",
)
WITH_TORCH = ("README.md", "docs/getting-started.md")

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
