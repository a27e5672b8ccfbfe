"""Log uploads: whatever is sent, the answer is in words, and what is kept is the beginning of the stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from door import Agent, Door, held, open_door, replica
from muster.store.usage import FIELDS

STREAM = bytes(range(256)) * 2
#: More numbers than any field takes, and some that it does.
NUMBERS = st.one_of(st.integers(-2, 600), st.sampled_from([2**31, 2**62, 2**62 + 1, 2**63, 2**64, 10**400]))
WORDS = st.one_of(st.text(max_size=12), st.sampled_from(["../../etc", "\0", "\ud800", "a123456789"]))
ANYTHING = st.one_of(st.none(), st.booleans(), st.floats(), NUMBERS, WORDS, st.lists(NUMBERS, max_size=2))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    yield from open_door(tmp_path_factory.mktemp("door"))


@pytest.fixture
def door(house: Door) -> Door:
    return house.begin_anew()


class Upload:
    """A run whose log is sent by hand."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.run = door.launch()
        self.agent: Agent = door.agent()
        self.claim = self.agent.claim()
        self.agent.report(self.claim, replica("running"))

    def send(self, body: bytes) -> httpx.Response:
        return self.door.call("POST", f"/agents/{self.agent.id}/logs", content=body)

    def kept(self) -> bytes:
        return self.door.call("GET", f"/runs/{self.run['id']}/logs").content

    def piece(self, **other: Any) -> dict[str, Any]:
        return {**held(self.claim), "rank": 0, "offset": 0, "length": 0, **other}

    def body(self, *pieces: dict[str, Any], data: bytes = b"") -> bytes:
        return json.dumps({"incarnation": self.agent.incarnation, "pieces": pieces}).encode() + b"\n" + data


@pytest.fixture
def upload(door: Door) -> Upload:
    made = Upload(door)
    assert made.agent.send_log(made.claim, 0, STREAM[:100]) == 100
    return made


def relaxed(examples: int) -> settings:
    return settings(
        max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )


def assert_refused_in_words(answer: httpx.Response) -> None:
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.json()["detail"]


@given(body=st.binary(max_size=300))
@relaxed(60)
def test_random_bytes_are_refused_in_words(upload: Upload, body: bytes) -> None:
    assert_refused_in_words(upload.send(body))
    assert upload.kept() == STREAM[:100]


@given(index=st.dictionaries(st.sampled_from(["incarnation", "pieces", "x"]), ANYTHING), data=st.binary())
@relaxed(40)
def test_an_index_of_anything_is_refused_in_words(upload: Upload, index: dict[str, Any], data: bytes) -> None:
    assert_refused_in_words(upload.send(json.dumps(index).encode() + b"\n" + data))
    assert upload.kept() == STREAM[:100]


@given(
    changes=st.lists(
        st.dictionaries(
            st.sampled_from(["run_id", "attempt", "epoch", "rank", "offset", "length", "x"]),
            ANYTHING,
            min_size=1,
        ),
        min_size=1,
        max_size=3,
    ),
    data=st.binary(max_size=20),
)
@relaxed(150)
def test_pieces_with_wrong_fields_do_no_harm(
    upload: Upload, changes: list[dict[str, Any]], data: bytes
) -> None:
    """Most are refused. Where the numbers fit, bytes are taken, but none that were there is changed."""
    before = upload.kept()
    answer = upload.send(upload.body(*(upload.piece(**change) for change in changes), data=data))
    assert answer.status_code == 200 or 400 <= answer.status_code < 500, answer.text
    assert upload.kept().startswith(before)


@given(
    sends=st.lists(
        st.lists(st.tuples(st.integers(0, len(STREAM)), st.integers(0, 200)), min_size=1, max_size=5),
        max_size=8,
    )
)
@relaxed(40)
def test_pieces_of_the_stream_in_any_order_leave_no_gap(
    upload: Upload, sends: list[list[tuple[int, int]]]
) -> None:
    for places in sends:
        parts = [STREAM[offset : offset + size] for offset, size in places]
        pieces = [
            upload.piece(offset=offset, length=len(part))
            for (offset, _), part in zip(places, parts, strict=True)
        ]
        answer = upload.send(upload.body(*pieces, data=b"".join(parts)))
        kept = upload.kept()
        assert kept == STREAM[: len(kept)]
        assert answer.json()["lengths"][-1]["length"] == len(kept)


def test_many_small_pieces_in_one_request(upload: Upload) -> None:
    """Ranks stand in for runs: each has a file of its own."""
    pieces = [upload.piece(rank=rank, length=6) for rank in range(1, 2001)]
    data = b"".join(b"%05d\n" % rank for rank in range(1, 2001))
    lengths = upload.send(upload.body(*pieces, data=data)).json()["lengths"]
    assert {(item["rank"], item["length"]) for item in lengths} == {(rank, 6) for rank in range(1, 2001)}
    found = upload.door.call("GET", f"/runs/{upload.run['id']}/logs", rank=1234)
    assert found.content == b"01234\n"


def test_a_full_disk_is_said_in_words_and_gone_on_with_once_there_is_room(upload: Upload) -> None:
    """`/dev/full` stands where the log goes on: a write to it fails as on a full disk."""
    folder = log_folder(upload)
    whole = folder / f"{0:020d}"
    aside = whole.rename(folder / "aside")
    whole.symlink_to("/dev/full")
    body = upload.body(upload.piece(length=200), data=STREAM[:200])
    answer = upload.send(body)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (503, "store_unavailable")
    assert problem["detail"] == "The server's disk is full: logs cannot be written."
    assert problem["hint"].startswith("Make room")

    whole.unlink()
    aside.rename(whole)
    assert upload.kept() == STREAM[:100]
    assert upload.send(body).json()["lengths"][0]["length"] == 200
    assert upload.kept() == STREAM[:200]


def test_usage_on_a_full_disk_is_said_in_words_too(upload: Upload) -> None:
    folder = upload.door.context.settings.data_dir / "usage" / upload.run["id"][:2] / upload.run["id"]
    folder.mkdir(parents=True)
    (folder / f"1-0.{len(FIELDS)}").symlink_to("/dev/full")
    sample = {"run_id": upload.run["id"], "attempt": 1, "rank": 0, "at": 1.0, "cpu": 0.5}
    asked = {"incarnation": upload.agent.incarnation, "samples": [sample]}
    answer = upload.door.call("POST", f"/agents/{upload.agent.id}/usage", asked)
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
    assert answer.json()["detail"] == "The server's disk is full: usage cannot be written."


def log_folder(upload: Upload) -> Path:
    run_id: str = upload.run["id"]
    return upload.door.context.settings.data_dir / "logs" / run_id[:2] / run_id / "1" / "0"
