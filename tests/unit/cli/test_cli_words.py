from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from muster.cli.words import SIGNS, ago, count, span, state, took, visible, written
from muster.domain.observation import ReplicaState
from muster.domain.run import RunState

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("passed", "said"),
    [
        (timedelta(seconds=-5), "just now"),
        (timedelta(seconds=0.4), "just now"),
        (timedelta(seconds=59), "59 s ago"),
        (timedelta(minutes=2, seconds=30), "2 min ago"),
        (timedelta(hours=23, minutes=59), "23 h ago"),
        (timedelta(days=3), "3 d ago"),
        (timedelta(days=100), "2026-01-24"),
    ],
)
def test_a_moment_is_told_from_now(passed: timedelta, said: str) -> None:
    assert ago(NOW - passed, now=NOW) == said


@pytest.mark.parametrize(
    ("length", "said"),
    [
        (timedelta(seconds=-1), "0.0 s"),
        (timedelta(seconds=3.44), "3.4 s"),
        (timedelta(seconds=59), "59 s"),
        (timedelta(seconds=60), "1 min"),
        (timedelta(seconds=125), "2 min 5 s"),
        (timedelta(hours=1, minutes=4, seconds=9), "1 h 4 min"),
        (timedelta(days=2, minutes=4), "2 d"),
        (None, ""),
    ],
)
def test_a_length_of_time_has_at_most_two_units(length: timedelta | None, said: str) -> None:
    assert span(length) == said


def test_what_has_not_begun_took_nothing() -> None:
    assert took(None, None) == ""
    assert took(NOW, None, now=NOW + timedelta(minutes=1)) == "1 min"
    assert took(NOW, NOW + timedelta(hours=1)) == "1 h"


def test_every_state_has_a_sign_beside_its_colour() -> None:
    for name in {*RunState, *ReplicaState}:
        assert name.value in SIGNS
        assert state(name.value).plain == f"{SIGNS[name.value][0]} {name.value}"
    ends = [SIGNS[name][0] for name in ("succeeded", "failed", "stopped", "running", "queued")]
    assert len(set(ends)) == len(ends)


def test_text_that_would_change_the_terminal_is_made_visible() -> None:
    assert visible("plain ✔ text") == "plain ✔ text"
    assert visible("a\x1b]0;title\x07b\nc") == "a\ufffd]0;title\ufffdb\nc"


@pytest.mark.parametrize(
    ("value", "text"),
    [("sgd", "sgd"), (0.1, "0.1"), (True, "true"), (None, "null"), ({"lr": [1, "ä"]}, '{"lr": [1, "ä"]}')],
)
def test_a_value_is_shown_as_its_writer_would_write_it(value: object, text: str) -> None:
    assert written(value) == text


def test_things_are_counted_as_people_do() -> None:
    assert (count(1, "run"), count(0, "run"), count(2, "run")) == ("1 run", "0 runs", "2 runs")
