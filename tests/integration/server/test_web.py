"""The web app's files, and signing in with a browser."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from door import URL, Door, open_door

SCRIPT = b"console.log('muster');" * 20


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A server with an app of one script."""
    folder = tmp_path_factory.mktemp("web")
    (folder / "assets").mkdir()
    (folder / "index.html").write_text("<!doctype html><title>Muster</title>")
    (folder / "assets" / "index-1a2b.js").write_bytes(SCRIPT)
    (folder / "assets" / "index-1a2b.js.gz").write_bytes(gzip.compress(SCRIPT))
    (folder / "favicon.svg").write_text("<svg/>")
    yield from open_door(tmp_path_factory.mktemp("door"), web_dir=folder)


@pytest.fixture
def door(house: Door) -> Door:
    return house.begin_anew()


# --- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/runs", "/runs/abcdefghij", "/queues/a.b", "/launch", "/apix"])
def test_every_page_is_the_app_and_is_asked_for_each_time(door: Door, path: str) -> None:
    answer = door.call("GET", URL + path, key=None)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"<title>Muster</title>" in answer.content
    assert answer.headers["cache-control"] == "no-cache"
    again = door.call("GET", URL + path, key=None, headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_file_with_its_hash_in_its_name_is_kept_for_ever_and_comes_zipped(door: Door) -> None:
    answer = door.call("GET", "/assets/index-1a2b.js", key=None)
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.content == SCRIPT
    plain = door.call("GET", "/assets/index-1a2b.js", key=None, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == SCRIPT


def test_a_page_loads_nothing_from_elsewhere_and_no_inline_script(door: Door) -> None:
    policy = door.call("GET", "/", key=None).headers["content-security-policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["connect-src"] == rules["style-src"] == "'self'"
    assert rules["frame-ancestors"] == "'none'"


@pytest.mark.parametrize(
    "path", ["/assets/gone.js", "/assets/../index.html", "/api/nothing", "/graphql", "/files/x", "/api"]
)
def test_what_is_no_page_is_not_found(door: Door, path: str) -> None:
    answer = door.call("GET", path, key=None)
    assert answer.status_code == (200 if ".." in path else 404), "a client takes .. out before it asks"
    if answer.status_code == 404:
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["/assets/%2e%2e/blobs.id", "/..%2fmuster.db", "/%2e%2e/%2e%2e/etc/passwd"])
def test_no_path_leads_out_of_the_folder(door: Door, path: str) -> None:
    answer = door.call("GET", path, key=None)
    assert answer.status_code == 404 or b"<title>Muster</title>" in answer.content


def test_a_server_without_the_app_says_how_to_get_it(tmp_path: Path) -> None:
    for door in open_door(tmp_path, web_dir=tmp_path / "none"):
        answer = door.call("GET", f"{URL}/runs", key=None)
        assert answer.status_code == 200
        assert b"make web" in answer.content
        assert door.call("GET", "/assets/x.js", key=None).status_code == 404
        assert door.call("GET", "/runs").status_code == 200, "and all else works"


# --- sessions --------------------------------------------------------------------------------------

ORIGIN = {"Origin": "http://127.0.0.1:8700"}


def cookie_of(door: Door, key: str, **headers: str) -> str:
    answer = door.call("POST", "/session", {"key": key}, key=None, headers={**ORIGIN, **headers})
    assert answer.status_code == 200, answer.text
    return answer.headers["set-cookie"]


def with_cookie(door: Door, cookie: str, method: str = "GET", path: str = "/me", body: object = None) -> int:
    sent = {"Cookie": cookie.partition(";")[0]}
    return door.call(method, path, body, key=None, headers=sent).status_code


def test_a_key_becomes_a_cookie_that_no_script_reads_and_no_other_site_sends(door: Door) -> None:
    cookie = cookie_of(door, door.key)
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert "secure" not in cookie.lower()
    assert door.key not in cookie
    assert with_cookie(door, cookie) == 200
    assert with_cookie(door, cookie, "POST", "/launches", {"command": ["true"]}) == 201


def test_behind_tls_the_cookie_is_for_tls_alone(door: Door) -> None:
    cookie = cookie_of(door, door.key, Origin="https://127.0.0.1:8700")
    assert "; Secure" in cookie


@pytest.mark.parametrize("key", ["", "mk-wrong", "mr-x-1-y"])
def test_a_wrong_key_begins_no_session(door: Door, key: str) -> None:
    answer = door.call("POST", "/session", {"key": key}, key=None)
    assert (answer.status_code, answer.json()["code"]) == (401, "not_signed_in")
    assert "set-cookie" not in answer.headers


def test_an_agents_key_begins_no_session(door: Door) -> None:
    key = door.call("POST", "/keys", {"label": "gpu-1", "kind": "agent"}).json()["key"]
    answer = door.call("POST", "/session", {"key": key}, key=None)
    assert answer.status_code == 401


def test_a_session_ends_with_its_key(door: Door) -> None:
    made = door.call("POST", "/keys", {"label": "browser"}).json()
    cookie = cookie_of(door, made["key"])
    assert with_cookie(door, cookie) == 200
    door.call("DELETE", f"/keys/{made['id']}")
    assert with_cookie(door, cookie) == 401


def test_a_session_ends_after_its_time_and_not_later_than_its_key(door: Door) -> None:
    short = door.call("POST", "/keys", {"label": "week", "days": 7}).json()
    cookies = cookie_of(door, door.key), cookie_of(door, short["key"])
    door.clock.advance(timedelta(days=8))
    door.context.bus.publish(["keys"])
    assert [with_cookie(door, cookie) for cookie in cookies] == [200, 401]
    door.clock.advance(timedelta(days=23))
    door.app.state.doorkeeper._forget()
    assert with_cookie(door, cookies[0]) == 401


@pytest.mark.parametrize("forged", ["", ".", "x.9999999999.00", "a.b.c", "%ff.1.2"])
def test_a_forged_cookie_opens_nothing(door: Door, forged: str) -> None:
    name = cookie_of(door, door.key).partition("=")[0]
    assert with_cookie(door, f"{name}={forged}") == 401


def test_a_cookie_with_another_key_in_it_opens_nothing(door: Door) -> None:
    name, _, value = cookie_of(door, door.user("eve")).partition(";")[0].partition("=")
    anns = door.call("GET", "/keys").json()["items"][0]["id"]
    assert with_cookie(door, f"{name}={anns}.{value.split('.', 1)[1]}") == 401


def test_signing_out_forgets_the_cookie(door: Door) -> None:
    cookie = cookie_of(door, door.key)
    answer = door.call("DELETE", "/session", key=None, headers={"Cookie": cookie.partition(";")[0]})
    assert answer.status_code == 204
    assert "Max-Age=0" in answer.headers["set-cookie"]
