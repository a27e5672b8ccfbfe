"""Config files: what is read, what is refused, and where the error points."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest

from muster.cli import yamlfile
from muster.domain.errors import BadConfigFile

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdef", "bcdefg", strict=True)
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1\nb: [x, 2.5, true, null]\n", {"a": 1, "b": ["x", 2.5, True, None]}),
        ('{"a": {"b": "{{gpus}}"}}', {"a": {"b": "{{gpus}}"}}),
        ('{\n\t"a": 1\n}', {"a": 1}),
        ("on: yes\n", {"on": "yes"}),
        ("base: &b {x: 1}\nmore: *b\n", {"base": {"x": 1}, "more": {"x": 1}}),
        ('{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}),
        ("a: &x 1\nb: &x 2\nc: *x\n", {"a": 1, "b": 2, "c": 2}),
        ("---\na: 1\n---\n", {"a": 1}),
        ("text: |\n  one\n  two\n", {"text": "one\ntwo\n"}),
    ],
)
def test_what_json_could_say_is_read(text: str, value: object) -> None:
    assert yamlfile.parse_mapping(text, name="q.yaml") == value


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\nb: 2\na: 3\n", "q.yaml:3:1: the key 'a' is there twice."),
        ("a:\n\tb: 1\n", "q.yaml:2:1: found character '\\t'"),
        ("a: 1\n2: x\n", "q.yaml:2:1: the key '2' is not text."),
        ("a: 1\ntrue: x\n", "q.yaml:2:1: the key 'true' is not text."),
        ("? [a]\n: 1\n", "q.yaml:1:3: a key is not text."),
        ("a: 1\nb: x\0y\n", "q.yaml:2:5: the character U+0000 is not allowed."),
        (BOMB, ": the aliases stand for too much."),
        ("a: &x {b: *x}\n", "q.yaml:1:4: this contains itself."),
        ("d: 2024-01-01\n", "q.yaml:1:4: a value of type date is not allowed."),
        ("a: !!python/object:os.system x\n", "q.yaml:1:4: a value of type python/object:os.system"),
        ("a: !!set {x}\n", "q.yaml:1:4: the type set is not allowed."),
        ("a: [1,\n", "q.yaml:2:1: expected the node content"),
        ("a: b: c\n", "q.yaml:1:5: mapping values are not allowed here."),
        ("a: 1\n---\nb: 2\n", "q.yaml:3:1: a second document begins here."),
        ("a: .inf\n", "q.yaml:1:4: JSON cannot write the number inf."),
        ("a: " + "[" * 200 + "]" * 200, "nested more than 100 levels deep"),
        ("a: " + "[" * 600, "q.yaml:1:104: this is nested more than 100 levels deep."),
        ("a: " + "9" * 5000, "q.yaml:1:4: this number is too long."),
        ("b: &b {x: 1}\nc:\n  <<: *b\n", "q.yaml:3:3: merge keys are not read."),
        ('a: "x\\0y"\n', "q.yaml:1:4: the character U+0000 is not allowed."),
        ('{"a": "\\ud800"}', "q.yaml:1:7: the character U+D800 is not allowed."),
        ("a: *b\n", "q.yaml:1:4: found undefined alias 'b'."),
        ("- x\n" * 50_000, "q.yaml:40000:3: there are more than 20000 values before this."),
        ("- 1\n", "q.yaml is a list."),
        ("just words\n", "q.yaml is a single value."),
        ("", "q.yaml is empty."),
    ],
)
def test_slips_and_tricks_are_refused_where_they_are(text: str, told: str) -> None:
    with pytest.raises(BadConfigFile) as caught:
        yamlfile.parse_mapping(text, name="q.yaml")
    assert told in caught.value.detail


def test_a_file_is_read_with_its_name_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "queue.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert yamlfile.read_mapping(path) == {"a": 1}
    path.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(BadConfigFile, match=r"queue\.yaml:2:4: this is not UTF-8 text"):
        yamlfile.read_mapping(path)
    path.write_bytes(b"#" * (yamlfile.MAX_BYTES + 1))
    with pytest.raises(
        BadConfigFile, match="larger than 1 MiB: its limit is passed at line 1, column 1048577"
    ):
        yamlfile.read_mapping(path)
    with pytest.raises(BadConfigFile, match="Is a directory"):
        yamlfile.read_mapping(tmp_path)
    with pytest.raises(BadConfigFile, match="No such file"):
        yamlfile.read_mapping(tmp_path / "none.yaml")


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"a: [1\n")))
    with pytest.raises(BadConfigFile, match="<stdin>:2:1"):
        yamlfile.read_mapping("-")


def test_what_is_written_reads_back_in_the_same_order() -> None:
    data = {"b": 1, "a": [{"script": "one\ntwo\n", "v": "{{gpus}}"}], "e": {}, "t": "true", "ü": None}
    text = yamlfile.dump(data)
    assert yamlfile.parse_mapping(text, name="x") == data
    assert text.index("b:") < text.index("a:")
    assert "- script: |\n    one\n    two\n" in text
