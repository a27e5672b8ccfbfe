"""Many rows with one statement: what comes back is what was given, on every database."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import JSON, Boolean, Column, Float, Integer, MetaData, String, Table, delete, select

from muster.domain.errors import MusterError
from muster.store import bulk
from muster.store.bulk import add_many, change_many
from muster.store.database import Database, Tx
from muster.store.schema import Instant, Words
from world import READY

_things = Table(
    "things",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("word", String(8)),
    Column("words", Words),
    Column("share", Float),
    Column("yes", Boolean),
    Column("at", Instant),
    Column("data", JSON),
    Column("perhaps", JSON(none_as_null=True)),
)
_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
_data = st.recursive(
    st.none() | st.booleans() | st.integers() | _texts,
    lambda some: st.lists(some) | st.dictionaries(_texts, some),
)
_rows = st.lists(
    st.fixed_dictionaries(
        {
            "word": st.none()
            | st.sampled_from(["NULL", "{}", '"', "\\", "a,b"])
            | _texts.map(lambda t: t[:8]),
            "words": st.none() | _texts,
            "share": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "yes": st.none() | st.booleans(),
            "at": st.none() | st.datetimes(timezones=st.just(UTC)),
            "data": _data,
            "perhaps": _data,
        }
    ),
    min_size=1,
    max_size=5,
)


@pytest.fixture(params=sorted(READY))
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    database = Database(READY[request.param](tmp_path))
    database.write_now(lambda tx: _things.create(tx.conn))
    yield database
    database.close()


@pytest.mark.parametrize("copied", [50, 1])
@given(first=_rows, second=_rows)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_rows_are_added_and_changed_as_they_were_given(
    database: Database, copied: int, first: list[dict[str, object]], second: list[dict[str, object]]
) -> None:
    added = [{"id": number, **row} for number, row in enumerate(first)]
    changed = dict(zip(range(len(first)), second, strict=False))

    def work(tx: Tx) -> list[dict[str, object]]:
        tx.conn.execute(delete(_things))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bulk, "_COPIED", copied)
            add_many(tx.conn, _things, added)
        change_many(tx.conn, _things, [({"id": number}, row) for number, row in changed.items()])
        return [dict(row) for row in tx.conn.execute(select(_things).order_by(_things.c.id)).mappings()]

    assert database.write_now(work) == [{**row, **changed.get(n, {})} for n, row in enumerate(added)]


def test_a_word_that_is_too_long_is_refused_not_cut(database: Database) -> None:
    if not database.shared:
        pytest.skip("SQLite knows no lengths")
    for change in (False, True):

        def work(tx: Tx, change: bool = change) -> None:
            add_many(tx.conn, _things, [{"id": 1, "word": "short" if change else "much too long"}])
            change_many(tx.conn, _things, [({"id": 1}, {"word": "much too long"})])

        with pytest.raises(MusterError, match="too long"):
            database.write_now(work)
