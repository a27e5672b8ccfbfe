from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain.errors import BadSnapshot
from muster.domain.snapshot import GitState, Snapshot, SnapshotFile, sha256_of, without_credentials

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def file(path: str, content: str = "x", mode: int = 0o644) -> SnapshotFile:
    return SnapshotFile(path=path, mode=mode, size=len(content.encode()), sha256=sha256_of(content))


def data(**changes: Any) -> dict[str, Any]:
    """A sound file entry with some keys changed."""
    return {**file("train.py").to_data(), **changes}


SAMPLE = Snapshot(
    files=(file("train.py"), file("bin/go", mode=0o755), SnapshotFile.symlink("lib/latest", "../train.py")),
    git=GitState(remote="https://example.org/x.git", commit=COMMIT, branch="main", dirty=True),
)


def test_a_snapshot_survives_json() -> None:
    assert Snapshot.from_data(json.loads(json.dumps(SAMPLE.to_data()))) == SAMPLE


def test_the_id_is_stable_across_versions_of_muster() -> None:
    assert SAMPLE.id == "46d4af7c8f7ed8172c6ca10c29ad280824b7e8d771ef5e451710b40631caf037"


def test_the_id_knows_neither_order_nor_git() -> None:
    assert Snapshot(files=SAMPLE.files[::-1]).id == SAMPLE.id


@pytest.mark.parametrize(
    "changed",
    [
        file("train2.py"),
        file("train.py", "y"),
        file("train.py", mode=0o755),
        SnapshotFile.symlink("train.py", "x"),
    ],
)
def test_the_id_changes_with_any_file(changed: SnapshotFile) -> None:
    assert Snapshot(files=(changed,)).id != Snapshot(files=(file("train.py"),)).id


def test_blobs_are_the_distinct_contents_without_links() -> None:
    assert SAMPLE.blobs == {sha256_of("x"): 1}
    assert SAMPLE.total_bytes == 2


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "/etc/passwd", "..", "../x", "a/../b", "a//b", "a/", "./a", "a/.", "."),
        *("a\0b", "a\nb", "a\x7fb", "a\x85b", "a\udce9b", "x" * 256, "é" * 128, "/".join(["x" * 99] * 41)),
    ],
)
def test_a_path_that_is_not_inside_the_tree_is_refused(path: str) -> None:
    with pytest.raises(BadSnapshot):
        Snapshot.from_data({"files": [data(path=path)]})


@pytest.mark.parametrize("path", ["a", "a b", "é/日本", "...", "..a", "-rf", "a\\b", "x" * 255, "a\u200db"])
def test_an_odd_but_sound_path_is_taken(path: str) -> None:
    assert Snapshot.from_data({"files": [data(path=path)]}).files[0].path == path


@pytest.mark.parametrize(
    ("path", "target"),
    [
        *(("a", "b"), ("a", "missing/b"), ("d/a", "../b"), ("d/e/a", "../../b"), ("d/a", ".."), ("a", "a")),
        *(("a", "./b"), ("a", "b/"), ("a", ".")),
    ],
)
def test_a_link_that_stays_inside_is_taken(path: str, target: str) -> None:
    assert Snapshot.from_data({"files": [{"path": path, "link": target}]}).files[0].link == target


@pytest.mark.parametrize(
    ("path", "target"),
    [
        *(("a", ""), ("a", "/etc/passwd"), ("a", ".."), ("a", "../b"), ("d/a", "../../b")),
        # Through another link, `..` behind a name climbs from somewhere else than it seems.
        *(
            ("d/a", "up/../.."),
            ("a", "b/../c"),
            ("a", "./../b"),
            ("a", "b\0"),
            ("a", "b\n"),
            ("a", "\udce9"),
            ("a", 3),
        ),
    ],
)
def test_a_link_that_may_lead_out_is_refused(path: str, target: object) -> None:
    with pytest.raises(BadSnapshot):
        Snapshot.from_data({"files": [{"path": path, "link": target}]})


@pytest.mark.parametrize(
    "hostile",
    [
        *(None, [], "x", 3, {}, {"files": None}, {"files": "abc"}, {"files": {}}, {"files": []}),
        *({"files": [None]}, {"files": [[]]}, {"files": [{}]}),
        {"files": [data(), data()]},
        {"files": [data(path="a"), data(path="a/b")]},
        {"files": [data(path="a/b/c"), data(path="a-b"), {"path": "a", "link": "x"}]},
        *({"files": [data(mode=mode)]} for mode in (0o777, 0o4755, 0, -1, "644", None, True, 420.0)),
        *({"files": [data(size=size)]} for size in (-1, "1", None, True, 1.0, 501 * 2**20)),
        *(
            {"files": [data(sha256=sha)]}
            for sha in ("", "0" * 63, "G" * 64, "A" * 64, "0" * 64 + "\n", 3, None)
        ),
        {"files": [data()], "git": "main"},
        {"files": [data()], "git": []},
        {"files": [data()], "git": {"dirty": 1}},
        {"files": [data()], "git": {"branch": 3}},
        {"files": [data()], "git": {"remote": "https://me:secret@example.org/x"}},
        {"files": [data()], "git": {"commit": "main"}},
        {"files": [data()], "git": {"branch": "a\nb"}},
        {"files": [data()], "git": {"branch": "b" * 3000}},
    ],
)
def test_hostile_data_is_refused(hostile: object) -> None:
    with pytest.raises(BadSnapshot):
        Snapshot.from_data(hostile)


def test_limits_are_limits() -> None:
    two = {"files": [data(path="a"), data(path="b")]}
    assert Snapshot.from_data(two, max_files=2, max_bytes=2).total_bytes == 2
    with pytest.raises(BadSnapshot, match="2 files; 1 are allowed"):
        Snapshot.from_data(two, max_files=1)
    with pytest.raises(BadSnapshot, match="2 B; 1 B are allowed"):
        Snapshot.from_data(two, max_bytes=1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["path", "link", "size", "git"]), inner),
    max_leaves=3,
)


@given(path=JSON | st.text(), link=JSON, mode=JSON, size=JSON, sha=JSON, git=JSON)
def test_whatever_is_sent_either_is_sound_or_is_refused(
    path: object, link: object, mode: object, size: object, sha: object, git: object
) -> None:
    entry = {"path": path, "link": link, "mode": mode, "size": size, "sha256": sha}
    try:
        snapshot = Snapshot.from_data({"files": [entry], "git": git})
    except BadSnapshot:
        return
    assert Snapshot.from_data(snapshot.to_data()) == snapshot


def test_git_does_not_change_what_a_snapshot_is() -> None:
    assert replace(SAMPLE, git=None).id == SAMPLE.id


@pytest.mark.parametrize(
    ("remote", "shown"),
    [
        ("https://example.org/x.git", "https://example.org/x.git"),
        ("https://me:pw@example.org:8443/x.git", "https://example.org:8443/x.git"),
        ("https://token@example.org/x", "https://example.org/x"),
        ("https://me:p@ss@example.org/x", "https://example.org/x"),
        ("https://example.org/x?access_token=secret#y", "https://example.org/x"),
        ("ssh://git:pw@example.org/x", "ssh://git@example.org/x"),
        ("git@example.org:team/x.git", "git@example.org:team/x.git"),
        ("helper::https://me:pw@example.org/x", "helper::https://example.org/x"),
        ("/srv/git/x.git", "/srv/git/x.git"),
        ("https://example.org/a@b", "https://example.org/a@b"),
    ],
)
def test_a_remote_is_shown_without_credentials(remote: str, shown: str) -> None:
    assert without_credentials(remote) == shown
