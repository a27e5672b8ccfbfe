"""Before any route: Host, Origin and size, on every method."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from door import Door, open_door
from muster.server import guard
from muster.wire.agents import ClaimModel

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    yield from open_door(tmp_path_factory.mktemp("door"), allowed_hosts=frozenset({"lab.example.org"}))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example.org"},
        {"Host": "127.0.0.1.evil.example.org:8700"},
        {"Host": "localhost@evil.example.org"},
        {"Host": ""},
        {"Host": "[::1"},
        {"Host": "[not-an-address]"},
        {"Origin": "http://evil.example.org"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://[::1"},
        {"Host": "localhost:8700", "Origin": "http://127.0.0.1:8700"},
    ],
    ids=str,
)
def test_a_request_meant_for_another_name_or_from_another_page_is_refused(
    door: Door, method: str, headers: dict[str, str]
) -> None:
    for path in ("/runs", "/healthz", "/api/openapi.json"):
        answer = door.call(method, path, headers=headers)
        assert answer.status_code == 403, (path, answer.text)
        if method != "HEAD":
            assert answer.json()["code"] == "not_allowed"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "127.0.0.1:8700"},
        {"Host": "localhost"},
        {"Host": "LOCALHOST:8700"},
        {"Host": "[::1]:8700"},
        {"Host": "lab.example.org"},
        {"Host": "127.0.0.1:8700", "Origin": "http://127.0.0.1:8700"},
        {"Host": "lab.example.org", "Origin": "https://lab.example.org"},
    ],
    ids=str,
)
def test_a_request_under_a_known_name_from_its_own_page_is_taken(door: Door, headers: dict[str, str]) -> None:
    assert door.call("GET", "/runs", headers=headers).status_code == 200


def test_a_server_on_a_public_address_takes_any_name_but_no_foreign_page(tmp_path: Path) -> None:
    for door in open_door(tmp_path, host="0.0.0.0"):  # noqa: S104
        assert door.call("GET", "/runs", headers={"Host": "gpu-7.lan"}).status_code == 200
        foreign = {"Host": "gpu-7.lan", "Origin": "http://evil.example.org"}
        assert door.call("GET", "/runs", headers=foreign).status_code == 403


BIG = 10_000


async def in_pieces(size: int) -> AsyncIterator[bytes]:
    yield b'{"label":"'
    for _ in range(size // 1000):
        yield b"x" * 1000
    yield b'"}'


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/keys"),
        ("POST", "/launches"),
        ("PATCH", "/queues/blobs"),
        ("PUT", "/entities/ann/members/blobs"),
    ],
)
@pytest.mark.parametrize("key", ["", None])
def test_a_body_over_the_limit_is_refused(
    door: Door, monkeypatch: pytest.MonkeyPatch, method: str, path: str, key: str | None
) -> None:
    monkeypatch.setattr(guard, "MAX_BODY", BIG)
    declared = door.call(method, path, content=b"x" * (BIG + 1), key=key)
    in_parts = door.call(method, path, content=in_pieces(BIG + 1000), key=key)
    for answer in (declared, in_parts):
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
        assert answer.headers["content-type"] == "application/problem+json"


def test_a_body_just_below_the_limit_is_read(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MAX_BODY", BIG)
    answer = door.call("POST", "/keys", content=in_pieces(BIG - 1000))
    assert answer.status_code == 422


def test_a_length_that_is_no_number_does_no_harm(door: Door) -> None:
    answer = door.call("POST", "/keys", content=b"{}", headers={"Content-Length": "-1"})
    assert answer.status_code == 422


def test_a_server_is_called_by_its_public_address_too_and_tells_agents_of_it(tmp_path: Path) -> None:
    url = "https://muster.example.org:8443/lab"
    for door in open_door(tmp_path, public_url=url):
        assert door.call("GET", "/me", headers={"Host": "muster.example.org:8443"}).status_code == 200
        assert door.call("GET", "/me", headers={"Host": "other.example.org"}).status_code == 403
        door.launch()
        claim = ClaimModel(**door.agent().claim())
        secrets = claim.secrets("http://127.0.0.1:8700")
        assert secrets == {"MUSTER_URL": url, "MUSTER_API_KEY": claim.token}


def test_without_a_public_address_runs_use_the_one_of_their_agent(door: Door) -> None:
    door.launch()
    claim = ClaimModel(**door.agent().claim())
    snapshot = claim.run.model_copy(update={"snapshot": "s1"})
    with_code = claim.model_copy(update={"run": snapshot, "code_key": "mc-x"})
    assert claim.public_url is None
    assert with_code.secrets("http://server:1") == {
        "MUSTER_URL": "http://server:1",
        "MUSTER_API_KEY": claim.token,
        "MUSTER_CODE_URL": "http://server:1/api/v1/snapshots/s1",
        "MUSTER_CODE_KEY": "mc-x",
    }
