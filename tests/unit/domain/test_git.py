"""Which addresses, refs and folders of repositories are taken, and which commit a name stands for."""

from __future__ import annotations

import pytest

from muster.domain.errors import BadGit
from muster.domain.git import (
    DEFAULT_SCHEMES,
    KNOWN_SCHEMES,
    check_folder,
    check_ref,
    check_url,
    checked,
    near_ref,
    pick_commit,
    read_schemes,
    redacted,
)
from muster.domain.source import GitSource

A, B, C = (digit * 40 for digit in "abc")


@pytest.mark.parametrize(
    "url",
    [
        "https://host/acme/train.git",
        "https://host:8443/acme/train",
        "HTTPS://host/acme/train",
        "ssh://git@host:2222/acme/train.git",
        "git@host:acme/train.git",
        "host:acme/train.git",
        "git@host:/srv/train.git",
    ],
)
def test_addresses_elsewhere_are_taken(url: str) -> None:
    check_url(url, schemes=DEFAULT_SCHEMES)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("", "not the address"),
        ("-uupload", "would be an option"),
        ("--upload-pack=touch /tmp/x", "not the address"),
        ("/srv/train.git", "local path"),
        ("./train", "local path"),
        ("../train", "local path"),
        ("train", "local path"),
        ("file:///srv/train.git", "fetched by file"),
        ("ext::sh", "fetched by ext"),
        ("ext::sh%20-c%20x", "fetched by ext"),
        ("fd::3", "fetched by ext"),
        ("http://host/x.git", "fetched by http"),
        ("git://host/x.git", "fetched by git"),
        ("javascript://x/y", "fetched by javascript"),
        ("https://user:token@host/x.git", "carries a user or a password"),
        ("https://token@host/x.git", "carries a user or a password"),
        ("ssh://git:pw@host/x.git", "carries a user or a password"),
        ("ssh://-oProxyCommand=x/y", "names no repository"),
        ("ssh://-x@host/y", "carries a user"),
        ("-oProxyCommand=x:y", "would be an option"),
        ("git@-oProxyCommand=x:y", "local path"),
        ("git@host:-x", "local path"),
        ("https://host", "names no repository"),
        ("https:///x", "names no repository"),
        ("https://host:x/y", "not an address"),
        ("https://host/x y", "not the address"),
        ("https://host/x\n", "not the address"),
        ("https://host/\x00", "not the address"),
        ("https://host/x?token=z", "goes on behind"),
        ("https://host/x#main", "goes on behind"),
        ("https://host/" + "x" * 3000, "not the address"),
    ],
)
def test_everything_else_is_refused_with_the_reason(url: str, told: str) -> None:
    with pytest.raises(BadGit, match=told) as refused:
        check_url(url, schemes=DEFAULT_SCHEMES)
    assert "token" not in refused.value.detail
    assert refused.value.hint


def test_an_operator_may_allow_more_but_never_a_local_one() -> None:
    assert read_schemes(None) == read_schemes(" ") == DEFAULT_SCHEMES
    check_url("git://host/x", schemes=read_schemes("https, GIT"))
    for word in ("file", "ext", "https,file"):
        with pytest.raises(BadGit, match="cannot be allowed"):
            read_schemes(word)
    assert not {"file", "ext"} & set(KNOWN_SCHEMES)


@pytest.mark.parametrize("ref", ["main", "v1.0", "feature/x-1", "refs/heads/main", A, "a1b2c3d"])
def test_names_of_branches_tags_and_commits_are_taken(ref: str) -> None:
    check_ref(ref)


@pytest.mark.parametrize(
    "ref",
    ["", "-x", "--upload-pack=x", "a..b", "a b", "a^", "a:b", "x.lock", "a@{1}", "a\n", "/a", "x" * 300],
)
def test_what_is_no_ref_is_refused(ref: str) -> None:
    with pytest.raises(BadGit, match="cannot be a branch"):
        check_ref(ref)


@pytest.mark.parametrize("folder", ["", "/etc", "..", "a/../..", "a//b", "./a", "a/", ".git", "a\nb"])
def test_a_folder_must_lie_within(folder: str) -> None:
    check_folder("examples/ddp")
    with pytest.raises(BadGit, match="not a folder within"):
        check_folder(folder)


def test_a_commit_is_forty_digits() -> None:
    checked(GitSource(url="https://h/r", commit=A))
    with pytest.raises(BadGit, match="is not a commit"):
        checked(GitSource(url="https://h/r", commit="-x"))


LISTED = [
    f"{A}\tHEAD",
    f"{A}\trefs/heads/main",
    f"{B}\trefs/heads/both",
    f"{C}\trefs/tags/both",
    f"{B}\trefs/tags/v1",
    f"{C}\trefs/tags/v1^{{}}",
    "warning: something",
]


@pytest.mark.parametrize(
    ("ref", "commit"),
    [(None, A), ("main", A), ("both", B), ("v1", C), ("refs/heads/main", A), ("nothing", None)],
)
def test_a_name_is_looked_up_among_what_the_remote_lists(ref: str | None, commit: str | None) -> None:
    assert pick_commit(LISTED, ref) == commit


def test_a_misspelt_branch_is_known_by_its_likeness() -> None:
    assert near_ref(LISTED, "mian") == "main"
    assert near_ref(LISTED, "zzz") is None


def test_credentials_are_never_told() -> None:
    told = redacted("fatal: unable to access 'https://me:secret@host/x.git/': 403")
    assert told == "fatal: unable to access 'https://…@host/x.git/': 403"
