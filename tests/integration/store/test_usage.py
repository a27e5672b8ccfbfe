"""Resource use over time, packed."""

from __future__ import annotations

import math
import struct
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.domain.errors import BadInput
from muster.store.logs import LogKey
from muster.store.usage import FIELDS, UsagePoint, UsageStore

KEY = LogKey(run_id="a123456789", attempt=1, rank=0)


def point(at: float, cpu: float | None = 1.0) -> UsagePoint:
    return UsagePoint(at=at, values=(cpu, *[None] * (len(FIELDS) - 1)))


def test_points_come_back_with_what_is_not_known(tmp_path: Path) -> None:
    store = UsageStore(tmp_path)
    points = [point(1.5), point(2.5, None), point(3.5, 0.0)]
    store.append(KEY, points)
    assert store.read(KEY, max_points=10) == points


@given(batches=st.lists(st.lists(st.integers(1, 50), max_size=5), max_size=10))
@settings(max_examples=40, deadline=None)
def test_a_resend_adds_nothing_and_time_only_grows(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]]
) -> None:
    store = UsageStore(tmp_path_factory.mktemp("usage"))
    expected: list[float] = []
    for batch in batches:
        store.append(KEY, [point(at) for at in batch])
        for at in batch:
            if not expected or at > expected[-1]:
                expected.append(at)
    assert [p.at for p in store.read(KEY, max_points=1000)] == expected


@pytest.mark.parametrize(("count", "most"), [(0, 5), (1, 5), (5, 5), (6, 5), (1000, 7), (1000, 1)])
def test_a_long_course_is_thinned_evenly_and_keeps_its_newest_point(
    tmp_path: Path, count: int, most: int
) -> None:
    store = UsageStore(tmp_path)
    store.append(KEY, [point(float(at)) for at in range(1, count + 1)])
    found = [p.at for p in store.read(KEY, max_points=most)]
    assert len(found) <= most
    if count:
        assert found[-1] == count
        gaps = {b - a for a, b in pairwise(found)}
        assert len(gaps) <= 1


def test_a_record_cut_short_spoils_none_after_it(tmp_path: Path) -> None:
    store = UsageStore(tmp_path)
    store.append(KEY, [point(1.0)])
    with (tmp_path / "a1" / KEY.run_id / "1-0").open("ab") as file:
        file.write(b"half a record")  # the disk was full
    assert store.read(KEY, max_points=10) == [point(1.0)]
    store.append(KEY, [point(1.0), point(2.0)])
    assert store.read(KEY, max_points=10) == [point(1.0), point(2.0)]


def test_a_removed_run_has_no_usage(tmp_path: Path) -> None:
    store = UsageStore(tmp_path)
    store.append(KEY, [point(1.0)])
    store.remove_run(KEY.run_id)
    assert store.read(KEY, max_points=10) == []


@pytest.mark.parametrize("run_id", ["", "..", "../../etc", "/etc/passwd", "A123456789"])
def test_what_is_no_run_id_never_becomes_a_path(tmp_path: Path, run_id: str) -> None:
    store = UsageStore(tmp_path / "usage")
    with pytest.raises(BadInput):
        store.append(LogKey(run_id=run_id, attempt=1, rank=0), [point(1.0)])
    with pytest.raises(BadInput):
        store.remove_run(run_id)
    assert list(tmp_path.iterdir()) == []


def test_what_was_written_with_fewer_fields_is_read_before_what_came_since(tmp_path: Path) -> None:
    store = UsageStore(tmp_path)
    store.append(KEY, [point(20.0)])
    [new] = tmp_path.glob("*/*/*")
    old = struct.pack("<" + "d" * 9, 10.0, 0.5, *[math.nan] * 6, 7.0)
    new.with_name(f"{KEY.attempt}-{KEY.rank}").write_bytes(old)
    found = store.read(KEY, max_points=10)
    assert [(one.at, one.values[0], one.values[7], one.values[8]) for one in found] == [
        (10.0, 0.5, 7.0, None),
        (20.0, 1.0, None, None),
    ]
