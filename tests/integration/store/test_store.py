"""What any database under the store must do. SQLite now; another one is one more row of DATABASES."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, event, func, insert, inspect, select
from sqlalchemy.exc import OperationalError

from muster.domain.errors import BadInput, StoreUnavailable
from muster.domain.observation import AttemptKey, End, EndSeen, Failure, Replica, ReplicaState
from muster.domain.resources import Resources
from muster.domain.run import AttemptEnd, Retry, Run, RunSpec, RunState
from muster.domain.training import Training
from muster.store import attempts, codec, events, migrations, records, runlist, runs
from muster.store.database import Database, Tx, sqlite_url
from muster.store.schema import meta, metadata
from postgres import empty_postgres
from world import DAWN, READY, World, open_world, order

T = TypeVar("T")

#: name → a new, empty database (no tables) in a folder
EMPTY: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: sqlite_url(folder / "new.db"),
    "postgresql": lambda folder: empty_postgres(),
}
DATABASES = sorted(READY)


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return READY[request.param](tmp_path)


@contextmanager
def opened(url: str, **given: Any) -> Iterator[Database]:
    database = Database(url, **given)
    try:
        yield database
    finally:
        database.close()


def put(key: str, value: str = "x") -> Callable[[Tx], str]:
    def work(tx: Tx) -> str:
        tx.conn.execute(insert(meta).values(key=key, value=value))
        tx.tell(key)
        return key

    return work


def kept(database: Database) -> set[str]:
    return database.write_now(lambda tx: set(tx.conn.execute(select(meta.c.key)).scalars()))


# --- schema ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DATABASES)
def test_migrations_make_the_schema_from_nothing_and_only_once(name: str, tmp_path: Path) -> None:
    with opened(EMPTY[name](tmp_path)) as database:
        assert database.write_now(lambda tx: migrations.current_revision(tx.conn)) is None
        assert database.write_now(lambda tx: migrations.upgrade(tx.conn)) is True
        assert database.write_now(lambda tx: migrations.current_revision(tx.conn)) == migrations.HEAD
        assert database.write_now(lambda tx: migrations.upgrade(tx.conn)) is False


def test_head_is_the_newest_migration() -> None:
    scripts = ScriptDirectory(str(Path(migrations.__file__).parent))
    assert scripts.get_heads() == [migrations.HEAD]


# SQLAlchemy cannot read such indexes of SQLite; the next test compares how they are written.
@pytest.mark.filterwarnings("ignore:.*expression-based index")
@pytest.mark.parametrize("name", DATABASES)
def test_the_schema_after_all_migrations_is_the_one_in_the_code(name: str, tmp_path: Path) -> None:
    def differences(tx: Tx) -> list[Any]:
        context = MigrationContext.configure(tx.conn, opts={"compare_type": True})
        return list(compare_metadata(context, metadata))

    with opened(EMPTY[name](tmp_path)) as database:
        database.write_now(lambda tx: migrations.take_steps(tx.conn))
        assert database.write_now(differences) == []


@pytest.mark.filterwarnings("ignore:.*expression-based index")
@pytest.mark.parametrize("name", DATABASES)
def test_a_database_made_at_once_is_the_same_as_one_made_step_by_step(name: str, tmp_path: Path) -> None:
    def made(folder: str, way: Callable[[Connection], None]) -> dict[str, Any]:
        (tmp_path / folder).mkdir()
        with opened(EMPTY[name](tmp_path / folder)) as database:
            database.write_now(lambda tx: way(tx.conn))
            assert database.write_now(lambda tx: migrations.current_revision(tx.conn)) == migrations.HEAD
            return database.write_now(shape)

    at_once = made("at-once", migrations.create)
    assert at_once == made("by-steps", migrations.take_steps)
    assert set(at_once) == {"alembic_version", *metadata.tables}


def shape(tx: Tx) -> dict[str, Any]:
    """All that a database knows of its tables."""
    look = inspect(tx.conn)

    def table(name: str) -> dict[str, Any]:
        return {
            "columns": [{**column, "type": repr(column["type"])} for column in look.get_columns(name)],
            "primary key": look.get_pk_constraint(name),
            "references": sorted(map(repr, look.get_foreign_keys(name))),
            "unique": sorted(map(repr, look.get_unique_constraints(name))),
            "checks": look.get_check_constraints(name),
            "indexes": sorted(repr(_plain(index)) for index in look.get_indexes(name)),
        }

    found = {name: table(name) for name in look.get_table_names()}
    if tx.conn.dialect.name == "sqlite":  # not told by `inspect`
        serial = "SELECT name FROM sqlite_master WHERE sql LIKE '%AUTOINCREMENT%'"
        for name in tx.conn.exec_driver_sql(serial).scalars():
            found[name]["serial"] = True
        texts = "SELECT tbl_name, sql FROM sqlite_master WHERE type = 'index' ORDER BY name"
        for name, definition in tx.conn.exec_driver_sql(texts):
            found[name].setdefault("indexes, those of expressions too", []).append(definition)
    return found


def _plain(index: Any) -> dict[str, Any]:
    """With the condition of a partial index as text."""
    options = {key: str(value) for key, value in index.get("dialect_options", {}).items()}
    return {**index, "dialect_options": options}


def test_sqlite_is_durable_and_keeps_its_references(tmp_path: Path) -> None:
    def pragmas(tx: Tx) -> dict[str, Any]:
        names = ("journal_mode", "synchronous", "foreign_keys")
        return {name: tx.conn.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names}

    with opened(READY["sqlite"](tmp_path)) as database:
        assert database.write_now(pragmas) == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_a_reader_cannot_write(url: str) -> None:
    async def scene(database: Database) -> None:
        with pytest.raises(StoreUnavailable):
            await database.read(lambda conn: conn.execute(insert(meta).values(key="k", value="v")))

    with opened(url) as database:
        asyncio.run(scene(database))
        assert "k" not in kept(database)


# --- group commit ----------------------------------------------------------------------------------


class Gate:
    """Holds the writer up, so that what comes meanwhile is one group."""

    def __init__(self) -> None:
        self.busy = threading.Event()
        self.open = threading.Event()

    def __call__(self, tx: Tx) -> None:
        self.busy.set()
        assert self.open.wait(10)


async def as_one_group(database: Database, works: list[Callable[[Tx], T]]) -> list[T | BaseException]:
    """Run these writes in one transaction."""
    gate = Gate()
    first = asyncio.create_task(database.write(gate))
    await asyncio.to_thread(gate.busy.wait, 10)
    tasks = [asyncio.create_task(database.write(work)) for work in works]
    await asyncio.sleep(0)  # let each of them join the queue
    gate.open.set()
    await first
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_many_writes_at_once_are_all_kept(url: str) -> None:
    async def scene(database: Database) -> list[str]:
        return list(await asyncio.gather(*(database.write(put(f"k{i}")) for i in range(1000))))

    with opened(url) as database:
        before = kept(database)
        assert asyncio.run(scene(database)) == [f"k{i}" for i in range(1000)]
        assert kept(database) == before | {f"k{i}" for i in range(1000)}


def fail(tx: Tx) -> str:
    put("half-made")(tx)
    raise BadInput("no")


def break_a_rule(tx: Tx) -> str:
    put("half-made")(tx)
    return put("half-made")(tx)


def test_a_write_that_fails_disturbs_no_other_of_its_group(url: str) -> None:
    told: list[set[str]] = []
    with opened(url, on_commit=told.append) as database:
        before = kept(database)
        works = [put("a"), fail, put("b"), break_a_rule, put("c")]
        a, refused, b, broken, c = asyncio.run(as_one_group(database, works))
        assert (a, b, c) == ("a", "b", "c")
        assert isinstance(refused, BadInput)
        assert isinstance(broken, StoreUnavailable)
        assert kept(database) == before | {"a", "b", "c"}
        assert set().union(*told) == {"a", "b", "c"}, "only what was kept is told"
        assert asyncio.run(database.write(put("later"))) == "later"


def test_the_group_was_one_commit(url: str) -> None:
    told: list[set[str]] = []
    with opened(url, on_commit=told.append) as database:
        asyncio.run(as_one_group(database, [put(f"k{i}") for i in range(20)]))
        assert told == [{f"k{i}" for i in range(20)}]


def test_a_write_sees_what_earlier_ones_of_its_group_wrote(url: str) -> None:
    def count(tx: Tx) -> str:
        return str(tx.conn.execute(select(func.count()).select_from(meta)).scalar_one())

    with opened(url) as database:
        first, _, second = asyncio.run(as_one_group(database, [count, put("a"), count]))
        assert int(str(second)) == int(str(first)) + 1


def test_what_is_told_is_committed_by_then(url: str) -> None:
    seen: list[bool] = []

    async def scene() -> None:
        def check(topics: set[str]) -> None:
            with opened(url) as other:
                seen.append("k" in kept(other))

        with opened(url, on_commit=check) as database:
            await database.write(put("k"))

    asyncio.run(scene())
    assert seen == [True]


def test_a_read_sees_only_what_is_committed(url: str) -> None:
    async def scene(database: Database) -> tuple[bool, bool]:
        gate = Gate()

        def slow(tx: Tx) -> None:
            put("k")(tx)
            gate(tx)

        def there(conn: Any) -> bool:
            return conn.execute(select(meta.c.key).where(meta.c.key == "k")).first() is not None

        writing = asyncio.create_task(database.write(slow))
        await asyncio.to_thread(gate.busy.wait, 10)
        before = await database.read(there)
        gate.open.set()
        await writing
        return before, await database.read(there)

    with opened(url) as database:
        assert asyncio.run(scene(database)) == (False, True)


def test_a_commit_that_fails_is_heard_by_all_of_its_group(url: str) -> None:
    told: list[set[str]] = []
    refusals = iter([OperationalError("COMMIT", {}, RuntimeError("no room"))])

    def refuse_once(conn: object) -> None:
        for error in refusals:
            raise error

    with opened(url, on_commit=told.append) as database:
        before = kept(database)
        event.listen(database._write_engine, "commit", refuse_once)
        outcomes = asyncio.run(as_one_group(database, [put("a"), put("b")]))
        assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
        assert told == []
        assert kept(database) == before
        assert asyncio.run(database.write(put("later"))) == "later"


def test_a_broken_rule_of_the_database_is_not_taken_for_bad_text(url: str) -> None:
    def nothing_for_something(tx: Tx) -> None:
        tx.conn.execute(insert(meta).values(key="k", value=None))

    with opened(url) as database, pytest.raises(StoreUnavailable, match=r"(?i)null"):
        database.write_now(nothing_for_something)


def test_a_commit_lost_with_its_connection_is_not_said_to_be_undone(url: str) -> None:
    def lose(conn: object) -> None:
        raise OperationalError("COMMIT", {}, RuntimeError("connection lost"), connection_invalidated=True)

    with opened(url) as database:
        event.listen(database._write_engine, "commit", lose)
        with pytest.raises(StoreUnavailable) as lost:
            database.write_now(put("k"))
        assert lost.value.hint == "It may have been kept or not: look before you do it again."


def test_one_that_spoils_the_transaction_costs_the_others_nothing(url: str) -> None:
    def word_of_no_run(tx: Tx) -> str:
        put("c")(tx)
        tx.file_events(
            [
                {
                    "run_id": "nosuchrun0",
                    "seq": 1,
                    "attempt": 0,
                    "type": "state",
                    "at": DAWN,
                    "actor": "ann",
                    "data": {},
                }
            ]
        )
        return "c"

    with opened(url) as database:
        a, spoiler, b = asyncio.run(as_one_group(database, [put("a"), word_of_no_run, put("b")]))
        assert (a, b) == ("a", "b")
        assert isinstance(spoiler, StoreUnavailable)
        assert kept(database) >= {"a", "b"}
        assert "c" not in kept(database)


def test_a_caller_that_gave_up_does_not_stop_the_others(url: str) -> None:
    async def scene(database: Database) -> str:
        gate = Gate()
        first = asyncio.create_task(database.write(gate))
        await asyncio.to_thread(gate.busy.wait, 10)
        impatient = asyncio.create_task(database.write(put("impatient")))
        patient = asyncio.create_task(database.write(put("patient")))
        await asyncio.sleep(0)
        impatient.cancel()
        gate.open.set()
        await first
        return await patient

    with opened(url) as database:
        assert asyncio.run(scene(database)) == "patient"
        assert {"impatient", "patient"} <= kept(database)


def test_closing_finishes_what_was_accepted(url: str) -> None:
    async def scene() -> list[str]:
        database = Database(url)
        tasks = [asyncio.create_task(database.write(put(f"k{i}"))) for i in range(50)]
        await asyncio.sleep(0)
        await asyncio.to_thread(database.close)
        return list(await asyncio.gather(*tasks))

    assert len(asyncio.run(scene())) == 50


def test_a_file_that_is_no_database_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "muster.db").write_bytes(b"this is not a database, not even a little" * 100)
    broken = sqlite_url(tmp_path / "muster.db")
    with opened(broken) as database, pytest.raises(StoreUnavailable, match="restore it from a backup"):
        database.write_now(lambda tx: migrations.upgrade(tx.conn))


# --- pages -----------------------------------------------------------------------------------------


@pytest.fixture(params=DATABASES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made = open_world(READY[request.param](tmp_path))
    made.queue()
    yield made
    made.close()


def newest(tx: Tx, *, after: runlist.Place | None, limit: int) -> list[tuple[runlist.Place, Run]]:
    return runlist.page(tx.conn, runlist.Filter(), after=after, limit=limit)


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6), inserts=st.lists(st.integers(0, 4)))
@settings(max_examples=15, deadline=None)
def test_pages_miss_and_double_nothing_while_runs_come_in(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], inserts: list[int]
) -> None:
    world = open_world(READY["sqlite"](tmp_path_factory.mktemp("pages")))
    world.queue()
    old = [run.id for run in world.launch(*[order() for _ in range(23)])]
    seen: list[str] = []
    before: runlist.Place | None = None
    for turn in range(100):
        if turn < len(inserts) and inserts[turn]:
            world.launch(*[order() for _ in range(inserts[turn])])
        limit, cursor = sizes[turn % len(sizes)], before
        page = world.do(partial(newest, after=cursor, limit=limit))
        if not page:
            break
        seen += [run.id for _, run in page]
        before = page[-1][0]
    world.close()
    assert [run_id for run_id in seen if run_id in set(old)] == list(reversed(old))
    assert len(set(seen)) == len(seen)


# --- what goes in comes out ------------------------------------------------------------------------


def test_a_run_comes_back_as_it_was_filed(world: World) -> None:
    filed = world.launch(
        order(
            command=("python", "train.py", "ünïcödé", "{}"),
            env={"A": "1"},
            inputs={"lr": 0.1, "deep": {"list": [1, None, True]}},
            training=Training(nodes=2, procs_per_node=3, max_restarts=1, shm="1Gi"),
            retry=Retry(max=2, on=frozenset({AttemptEnd.LOST})),
        )
    )[0]
    assert world.run(filed.id) == filed


FAILURE = Failure(kind="oom", summary="x", advice="y", rank=1, exit_code=2, signal=9, evidence="z")
REPLICA = Replica(
    rank=3,
    state=ReplicaState.FAILED,
    node="n",
    handle="h",
    devices=("GPU-1", "GPU-2"),
    exit_code=1,
    signal=9,
    restarts=2,
    reason="r",
    started_at=DAWN,
    ended_at=DAWN + timedelta(microseconds=1),
    log_bytes=7,
)


def test_what_is_kept_as_json_comes_back_equal() -> None:
    spec = RunSpec(command=("a",), resources=Resources(millicpus=1, memory=2, gpus=3))
    for value in (spec, replace(spec, training=Training(procs_per_node="gpu"))):
        assert codec.spec_from_data(codec.spec_to_data(value)) == value
    for replica in (REPLICA, Replica(rank=0, state=ReplicaState.PENDING)):
        assert codec.replica_from_data(codec.replica_to_data(replica)) == replica
    for failure in (FAILURE, None):
        assert codec.failure_from_data(codec.failure_to_data(failure)) == failure
    for end in (EndSeen(end=End.LOST, reason="gone"), None):
        assert codec.end_from_data(codec.end_to_data(end)) == end


def test_replicas_and_failures_come_back_as_they_were_seen(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    key = AttemptKey(run_id=run_id, attempt=1)
    agent.claim(run_id)

    def work(tx: Tx) -> tuple[list[Replica], attempts.Attempt]:
        attempts.save_replicas(tx.conn, [(key, REPLICA)], [])
        attempts.save_replicas(tx.conn, [], [(key, replace(REPLICA, restarts=3))])
        attempts.change(tx.conn, {key: {"failure": FAILURE, "end_seen": EndSeen(end=End.LOST)}})
        return attempts.replicas_of(tx.conn, key), attempts.find_many(tx.conn, [key])[key]

    members, attempt = world.do(work)
    assert members == [replace(REPLICA, restarts=3)]
    assert (attempt.failure, attempt.end_seen) == (FAILURE, EndSeen(end=End.LOST))


def test_a_deleted_run_takes_its_events_and_attempts_along(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    agent.claim(run_id)
    world.do(lambda tx: runs.remove(tx.conn, run_id))
    assert world.events(run_id) == []
    assert world.attempts(run_id) == []


def test_event_ids_are_never_given_twice(world: World) -> None:
    """A follower goes on from the last id it saw: one given twice would be missed."""
    first = world.launch_one()
    newest = world.do(lambda tx: events.newest(tx.conn))
    world.do(lambda tx: runs.remove(tx.conn, first))
    second = world.launch_one()
    assert world.events(second)[0].id > newest


def test_times_keep_their_microseconds(world: World) -> None:
    world.clock.advance(timedelta(microseconds=123_457))
    assert world.run(world.launch_one()).created_at == world.now


def test_kept_answers_are_dropped_when_they_are_old(world: World) -> None:
    answer = records.KeptAnswer(fingerprint="f", answer=["x"])
    world.do(lambda tx: records.keep_answer(tx.conn, "ann", "k", answer, at=world.now, since=world.now))
    assert world.do(lambda tx: records.kept_answer(tx.conn, "ann", "k", since=DAWN)) == answer
    assert world.do(lambda tx: records.kept_answer(tx.conn, "bob", "k", since=DAWN)) is None
    world.clock.advance(timedelta(hours=25))
    world.sweep()
    assert world.do(lambda tx: records.kept_answer(tx.conn, "ann", "k", since=DAWN)) is None


def test_states_are_kept_as_they_are_called(world: World) -> None:
    run_id = world.launch_one()
    for state in RunState:
        world.do(lambda tx, s=state: runs.change(tx.conn, {run_id: {"state": s}}))  # type: ignore[misc]
        assert world.run(run_id).state is state
