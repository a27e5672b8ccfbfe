"""Config files of the code, with inputs merged into them."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from muster.agent.managed import merge_into_files, merge_text
from muster.domain.errors import BadManagedFile
from muster.domain.inputs import merged

CONF = """\
# How to train.
optimizer:   # which one
    name: "sgd"   # quoted
    lr: 1e-3      # rate

    # as in the paper
    betas:
      - 0.9
      - 0.99
data: {path: /data, shuffle: yes}   # in one line
plain: text
"""


def yaml(text: str, version: tuple[int, int] = (1, 2)) -> Any:
    reader = YAML(typ="safe", pure=True)
    reader.version = version
    return reader.load(text)


def test_yaml_keeps_comments_order_and_form() -> None:
    inputs = {"optimizer": {"lr": 0.5, "name": "adam"}, "data": {"path": "/new"}, "seed": 3}
    assert merge_text(CONF, inputs, path="c.yaml") == dedent("""\
        # How to train.
        optimizer:   # which one
            name: "adam"  # quoted
            lr: 0.5       # rate

            # as in the paper
            betas:
              - 0.9
              - 0.99
        data: {path: /new, shuffle: yes}    # in one line
        plain: text
        seed: 3
        """)


def test_what_has_the_value_already_is_not_written_anew() -> None:
    inputs = {"optimizer": {"name": "sgd", "lr": 0.001, "betas": [0.9, 0.99]}, "plain": "text"}
    assert merge_text(CONF, inputs, path="c.yaml") == CONF
    assert merge_text("a: 1\n", {"a": True}, path="c.yaml") == "a: true\n"
    assert merge_text("a: 1\n", {"a": 1.0}, path="c.yaml") == "a: 1.0\n"


@pytest.mark.parametrize("version", [(1, 1), (1, 2)], ids=str)
@pytest.mark.parametrize(
    "value",
    [
        *(1e-05, 1e20, -2.5e-7, 1.5, 7, True, None, [], {}),
        *("on", "no", "Yes", "null", "~", "1e5", "12:30:00", "0x1f", "1_000", "", " a ", "a: b", "#", "- a"),
        *("line\nline", "ünï", [1, 2.5e-9, "on"], {"a": [{"b": None}]}),
    ],
    ids=repr,
)
def test_readers_of_either_yaml_see_the_value_that_was_given(value: Any, version: tuple[int, int]) -> None:
    written = merge_text("a: 0 # here\n", {"a": value, "b": {"c": value}}, path="c.yaml")
    assert yaml(written, version) == {"a": value, "b": {"c": value}}


SHARED = """\
base: &base
  depth: 3
  more: {x: 1}
copy: *base
child:
  <<: *base
  width: 4
"""


def test_a_change_where_an_alias_stands_changes_that_place_alone() -> None:
    written = merge_text(SHARED, {"copy": {"depth": 5}, "child": {"more": {"x": 2}}}, path="c.yaml")
    base = {"depth": 3, "more": {"x": 1}}
    assert yaml(written) == {
        "base": base,
        "copy": {**base, "depth": 5},
        "child": {**base, "more": {"x": 2}, "width": 4},
    }


def test_toml_keeps_comments_and_order() -> None:
    text = dedent("""\
        # How to train.
        lr = 0.1 # rate
        name = 'x'

        [optimizer] # which one
        betas = [0.9, 0.99] # as in the paper
        """)
    inputs = {"lr": 1e-05, "optimizer": {"betas": [1.0], "new": {"a": 1}}, "seed": 3}
    written = merge_text(text, inputs, path="c.toml")
    assert tomllib.loads(written) == merged(tomllib.loads(text), inputs)
    for kept in (
        "# How to train.\n",
        "lr = 1e-05 # rate\n",
        "[optimizer] # which one\n",
        "[1.0] # as in the paper",
    ):
        assert kept in written


def test_json_keeps_order_and_indentation() -> None:
    text = '{\n    "b": 1,\n    "a": {\n        "x": "ü"\n    }\n}\n'
    assert merge_text(text, {"b": 2}, path="c.json") == text.replace('"b": 1', '"b": 2')
    assert merge_text('{"b": 1}', {"b": 2}, path="c.json") == '{"b": 2}'


@pytest.mark.parametrize("name", ["c.yaml", "c.yml", "c.toml"])
def test_an_empty_file_is_an_empty_mapping(name: str) -> None:
    assert "3" in merge_text("", {"a": 3}, path=name)


TEXTS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Z", "S"]), max_size=12)
NUMBERS = st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False)
KEYS = st.sampled_from("abcd")
TREES = st.dictionaries(
    KEYS,
    st.recursive(
        NUMBERS | st.booleans() | TEXTS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


@settings(deadline=None)
@given(TREES, TREES)
def test_whatever_is_merged_the_file_says_the_sum_of_both(under: Any, over: Any) -> None:
    first = merge_text("{}", under, path="c.json")
    assert json.loads(merge_text(first, over, path="c.json")) == merged(under, over)
    first = merge_text("", under, path="c.yaml")
    for version in ((1, 1), (1, 2)):
        assert (yaml(merge_text(first, over, path="c.yaml"), version) or {}) == merged(under, over)


@pytest.mark.parametrize(
    ("name", "text", "inputs", "said"),
    [
        ("c.yaml", "a: [\n", {}, "c.yaml:2:1: the file cannot be read"),
        ("c.yaml", "a: 1\na: 2\n", {}, "duplicate key"),
        ("c.yaml", "- a\n", {}, "is not a mapping"),
        ("c.yaml", "a: 1\n---\nb: 1\n", {}, "has 2 documents"),
        ("c.json", '{"a":}', {}, "c.json:1:6"),
        ("c.json", "[]", {}, "is not a mapping"),
        ("c.toml", "a = \n", {}, "the file cannot be read"),
        ("c.toml", "", {"a": {"b": [None]}}, "The input 'a.b.0' is null, which TOML cannot write"),
    ],
    ids=str,
)
def test_a_file_that_cannot_be_merged_into_is_named(name: str, text: str, inputs: Any, said: str) -> None:
    with pytest.raises(BadManagedFile) as refused:
        merge_text(text, inputs, path=name)
    assert said in str(refused.value)


def test_only_the_inputs_that_are_named_go_into_a_file(tmp_path: Path) -> None:
    for name in ("some.json", "all.json"):
        (tmp_path / name).write_text("{}")
    merge_into_files(tmp_path, {"some.json": ("a.b",), "all.json": True}, {"a": {"b": 1, "c": 2}, "d": 3})
    assert json.loads((tmp_path / "some.json").read_text()) == {"a": {"b": 1}}
    assert json.loads((tmp_path / "all.json").read_text()) == {"a": {"b": 1, "c": 2}, "d": 3}


def test_a_file_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text("{}")
    file.chmod(0o754)
    merge_into_files(tmp_path, {"c.json": True}, {"a": 1})
    assert stat.S_IMODE(file.stat().st_mode) == 0o754
    assert os.listdir(tmp_path) == ["c.json"]


@pytest.mark.parametrize(
    "way", ["missing", "folder", "link", "folder link", "circle", "climbing", "too big", "bytes"]
)
def test_what_is_no_file_within_the_code_is_refused_and_nothing_is_touched(tmp_path: Path, way: str) -> None:
    outside, work = tmp_path / "outside", tmp_path / "work"
    for folder in (outside, work):
        folder.mkdir()
    (outside / "c.json").write_text("{}")
    path = "c.json"
    match way:
        case "folder":
            (work / path).mkdir()
        case "link":
            (work / path).symlink_to(outside / "c.json")
        case "folder link":
            (work / "sub").symlink_to(outside)
            path = "sub/c.json"
        case "circle":
            (work / path).symlink_to(work / path)
        case "climbing":
            path = "../outside/c.json"
        case "too big":
            (work / path).write_bytes(b" " * 5_000_000)
        case "bytes":
            (work / path).write_bytes(b"\xff")
    with pytest.raises(BadManagedFile):
        merge_into_files(work, {path: True}, {"a": 1})
    assert (outside / "c.json").read_text() == "{}"


def test_a_link_within_the_code_leads_to_its_file(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "c.json").symlink_to("real.json")
    merge_into_files(tmp_path, {"c.json": True}, {"a": 1})
    assert (tmp_path / "c.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text()) == {"a": 1}


def test_a_link_that_lies_in_wait_beside_the_file_is_not_followed(tmp_path: Path) -> None:
    outside, work = tmp_path / "precious", tmp_path / "work"
    work.mkdir()
    outside.write_text("precious")
    (work / "c.json").write_text("{}")
    for name in (".c.json.muster", "c.json.tmp", ".c.json.tmp", "c.json~"):
        (work / name).symlink_to(outside)
    merge_into_files(work, {"c.json": True}, {"a": 1})
    assert outside.read_text() == "precious"
    assert not (work / "c.json").is_symlink()
