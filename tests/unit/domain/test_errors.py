"""One tree of errors, drawn in the module's docstring, with stable codes."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator

import pytest

from muster.domain import errors
from muster.domain.errors import MusterError, NotFound, UnknownKey, by_code, nearest


def tree(root: type[MusterError] = MusterError) -> Iterator[type[MusterError]]:
    """The classes of the module; others may add leaves of their own elsewhere."""
    yield root
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child)


ALL = list(tree())


def drawn() -> dict[str, tuple[int, int | None]]:
    """The docstring's drawing: name → depth, HTTP status where one is written."""
    found: dict[str, tuple[int, int | None]] = {}
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"    ([│├└─ ]*)(\w+)\s*(\d{3})?(?:\s|$)", line)
        if match:
            found[match[2]] = (len(match[1]) // 4, int(match[3]) if match[3] else None)
    return found


def test_the_drawing_names_every_class_at_its_place() -> None:
    def depth(kind: type[MusterError]) -> int:
        return len(kind.__mro__) - len(MusterError.__mro__)

    assert {name: place for name, (place, _) in drawn().items()} == {k.__name__: depth(k) for k in ALL}


def test_the_drawing_names_every_status() -> None:
    statuses = drawn()
    for kind in ALL:
        written = statuses[kind.__name__][1]
        if written is not None:
            assert kind.status == written
        elif kind is not MusterError and not issubclass(kind, errors.LocalProblem):
            parent = kind.__bases__[0]
            assert issubclass(parent, MusterError)
            assert kind.status == parent.status, "a status of its own is drawn"


def test_every_code_is_its_own() -> None:
    codes = [kind.code for kind in ALL]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z_]+", code) for code in codes)
    assert len({kind.title for kind in ALL}) == len(ALL)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_an_error_is_the_same_after_crossing_the_wire(kind: type[MusterError]) -> None:
    facts = {"key": "x", "sent": True}
    rebuilt = by_code(kind.code).rebuild("What was given.", "What to do.", facts)
    assert type(rebuilt) is kind
    assert (rebuilt.detail, rebuilt.hint, rebuilt.facts) == ("What was given.", "What to do.", facts)
    assert str(rebuilt) == "What was given. What to do."


def test_a_code_of_a_newer_server_is_still_an_error() -> None:
    assert by_code("from_the_future") is MusterError


@pytest.mark.parametrize(
    ("word", "known", "expected"),
    [
        ("gpuu", ["gpu", "cpu"], "gpu"),
        ("valeus", ["values", "env"], "values"),
        ("xyz", ["gpu", "cpu"], None),
        ("x", [], None),
    ],
)
def test_the_nearest_known_word(word: str, known: list[str], expected: str | None) -> None:
    assert nearest(word, known) == expected


def test_a_hint_names_the_nearest_or_all() -> None:
    assert UnknownKey("gpuu", where="resources", known=["cpus", "gpus"]).hint == "Did you mean 'gpus'?"
    assert UnknownKey("x", where="resources", known=["cpus", "gpus"]).hint == "Known keys: cpus, gpus."
    assert NotFound("queue", "gpuu", known=["gpu"]).hint == "Did you mean 'gpu'?"
    assert NotFound("queue", "x").hint == "`muster queue list` shows what there is."


def test_an_error_made_from_its_own_words_has_a_message() -> None:
    stale = errors.StaleLease("r1", given=1, current=2)
    assert stale.detail == "Epoch 1 no longer speaks for run r1; epoch 2 does."
    port = errors.PortInUse("127.0.0.1", 8700)
    assert "--port 8701" in str(port)
    away = errors.ServerUnreachable("http://x", reason="refused")
    assert away.detail == "No Muster server answers at http://x (refused)."
    assert pickle.loads(pickle.dumps(errors.Conflict("x"))).detail == "x"  # noqa: S301
