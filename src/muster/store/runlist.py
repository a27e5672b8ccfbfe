"""Lists of runs: narrowed, in an order, page by page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    String,
    and_,
    case,
    func,
    literal,
    null,
    or_,
    select,
    type_coerce,
    union_all,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from muster.domain.names import ID_LENGTH, may_start_id
from muster.domain.run import Run, RunState
from muster.domain.runorder import NEWEST, RunKey, RunOrder
from muster.store.runs import SELECT_RUN, run_of
from muster.store.schema import Instant, entities, queues, runs

T = TypeVar("T")
D = TypeVar("D")

_MAX_BRANCHES = 64  #: entities times states that a page is put together from
_queue = queues.alias("of_run")  #: whole rows of runs are joined with their queues by another name


@dataclass(frozen=True, kw_only=True)
class Filter:
    """What a list of runs is narrowed to; empty means all."""

    entities: tuple[str, ...] | None = None  #: None: every entity (server admins)
    project: str | None = None
    queue_id: str | None = None
    author: str | None = None
    job_id: str | None = None
    job_version: int | None = None
    states: tuple[RunState, ...] = ()
    text: str | None = None  #: in the name, or the start of the id
    id_start: str | None = None
    group: str | None = None  #: a few thousand runs at most, side by side in an index: the rest is sifted

    @property
    def sparse(self) -> bool:
        """May leave few runs of many, and has an index within an entity to find them."""
        return not self.group and bool(self.project or self.author or self.states or self.text)

    @property
    def mixed(self) -> bool:
        """No index of its own leads to these runs: they are sifted in the one that has everything."""
        others = sum(map(bool, (self.project, self.author, self.states, self.queue_id)))
        return bool(self.text or self.id_start or self.group) or others > (0 if self.job_id else 1)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where in a list a run stands, though others come and go around it."""

    seq: int
    value: str | int | None = None  #: what the list is sorted by, unless by time


def page(
    conn: Connection,
    narrow: Filter,
    *,
    limit: int,
    order: RunOrder = NEWEST,
    after: Place | None = None,
    now: datetime | None = None,
) -> list[tuple[Place, Run]]:
    """Each with its place. `now` is what those that run are as long as, the same for all pages of a list."""
    if narrow.entities is None and narrow.sparse:
        everybody = tuple(conn.execute(select(entities.c.name).limit(_MAX_BRANCHES + 1)).scalars())
        narrow = replace(narrow, entities=everybody if len(everybody) <= _MAX_BRANCHES else None)
    by_queue = order.by is RunKey.QUEUE
    cut = _Cut(key=_key(order.by, now), by_queue=by_queue, down=order.down, after=after, limit=limit)
    rows = conn.execute(_page_statement(narrow, cut))
    return [(Place(seq=row.seq, value=None if cut.key is None else row.key), run_of(row)) for row in rows]


@dataclass(frozen=True, kw_only=True)
class _Cut:
    """A page of a list: what of it, and in what order. Of what is alike, the newest first."""

    key: ColumnElement[Any] | None  #: None: the time, for which the numbers of runs stand
    by_queue: bool  #: whose name is not with the runs
    down: bool
    after: Place | None
    limit: int

    def of(self, query: Select[Any]) -> Select[Any]:
        if self.by_queue:
            query = query.join(_queue, _queue.c.id == runs.c.queue_id)
        if self.after is not None:
            query = query.where(self._follows(self.after))
        seq = runs.c.seq
        first, *then = (seq,) if self.key is None else (self.key, seq.desc())
        return query.order_by(first.desc() if self.down else first.asc(), *then).limit(self.limit)

    def _follows(self, place: Place) -> ColumnElement[bool]:
        if self.key is None:
            return runs.c.seq < place.seq if self.down else runs.c.seq > place.seq
        beyond = self.key < place.value if self.down else self.key > place.value
        return or_(beyond, and_(self.key == place.value, runs.c.seq < place.seq))


def _key(by: RunKey, now: datetime | None) -> ColumnElement[Any] | None:
    match by:
        case RunKey.CREATED:
            return None
        case RunKey.NAME | RunKey.STATE | RunKey.PROJECT | RunKey.AUTHOR:
            return bytewise(runs.c[by.value])
        case RunKey.QUEUE:
            return bytewise(_queue.c.name)
        case RunKey.GPUS:
            return type_coerce(runs.c.gpus, BigInteger)
        case RunKey.DURATION:
            ended = func.coalesce(type_coerce(runs.c.ended_at, BigInteger), literal(now, Instant))
            lasted = type_coerce(ended, BigInteger) - type_coerce(runs.c.started_at, BigInteger)
            return type_coerce(case((runs.c.started_at.is_(null()), -1), else_=lasted), BigInteger)


def _page_statement(narrow: Filter, cut: _Cut) -> Select[Any]:
    """For several entities or states, the first of each are looked up and merged: asked for all of
    them at once, the database would read and sort everything they have. Whole rows are read last, and
    only those of the page."""
    branches = [
        replace(narrow, entities=one, states=state)
        for one in _each(narrow.entities, otherwise=None)
        for state in _each(narrow.states, otherwise=())
    ]
    if narrow.group is not None or len(branches) > _MAX_BRANCHES:
        branches = [narrow]
    if cut.key is None and len(branches) == 1 and not narrow.mixed:
        return cut.of(_narrowed(SELECT_RUN, narrow))
    if narrow.text and may_start_id(narrow.text.lower()):  # names are sifted; ids have an index
        branches.append(replace(narrow, text=None, id_start=narrow.text.lower()))
    parts = [cut.of(_narrowed(select(runs.c.seq), branch)).subquery() for branch in branches]
    seqs = union_all(*(select(part.c.seq) for part in parts))
    whole = SELECT_RUN if cut.key is None else SELECT_RUN.add_columns(cut.key.label("key"))
    return cut.of(whole.where(runs.c.seq.in_(seqs)))


def _each(values: tuple[T, ...] | None, *, otherwise: D) -> list[tuple[T, ...] | D]:
    """Each of the values alone; `otherwise` stands for no values."""
    return [(value,) for value in values] if values else [otherwise]


def _narrowed(query: Select[Any], narrow: Filter) -> Select[Any]:
    if narrow.group is not None:
        query = query.where(runs.c.group_id == narrow.group)
    if narrow.entities is not None:
        # A job, a group or the start of an id has few runs beside its entity's: its own index leads to
        # them, whatever is asked.
        few = narrow.job_id or narrow.group or narrow.id_start
        entity = sifted(runs.c.entity) if few else runs.c.entity
        one = len(narrow.entities) == 1
        query = query.where(entity == narrow.entities[0] if one else entity.in_(narrow.entities))
    of = sifted if narrow.mixed else _indexed
    if narrow.job_id is not None:
        query = query.where(runs.c.job_id == narrow.job_id)
    if narrow.job_version is not None:
        query = query.where(runs.c.job_version == narrow.job_version)
    if narrow.project is not None:
        query = query.where(of(runs.c.project) == narrow.project)
    if narrow.queue_id is not None:
        query = query.where(of(runs.c.queue_id) == narrow.queue_id)
    if narrow.author is not None:
        query = query.where(of(runs.c.author) == narrow.author)
    if narrow.states:
        query = query.where(of(runs.c.state).in_([state.value for state in narrow.states]))
    if narrow.text:
        pattern = narrow.text.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
        query = query.where(contains(sifted(runs.c.name), f"%{pattern}%"))
    if narrow.id_start:  # nothing in an id comes after z, in any collation
        query = query.where(runs.c.id.between(narrow.id_start, narrow.id_start + "z" * ID_LENGTH))
    return query


class contains(FunctionElement[bool]):  # noqa: N801 - it is used as a function
    """Does a text match a pattern, whatever the case of its letters?"""

    inherit_cache = True


@compiles(contains)
def _contains(element: contains, compiler: SQLCompiler, **given: Any) -> str:
    column, pattern = element.clauses
    return f"{compiler.process(column, **given)} LIKE {compiler.process(pattern, **given)} ESCAPE '\\'"


@compiles(contains, "postgresql")
def _contains_on_postgresql(element: contains, compiler: SQLCompiler, **given: Any) -> str:
    return _contains(element, compiler, **given).replace(" LIKE ", " ILIKE ", 1)


class sifted(FunctionElement[str]):  # noqa: N801 - it is used as a function
    """A column, but SQLite looks for no index of it. (PostgreSQL knows better than we which one to use.)"""

    inherit_cache = True
    type = String()


class bytewise(FunctionElement[str]):  # noqa: N801 - it is used as a function
    """A text that is compared byte by byte, on every database, whatever language that one was set up in."""

    inherit_cache = True
    type = String()


@compiles(sifted)
@compiles(bytewise)
def _plain(element: FunctionElement[str], compiler: SQLCompiler, **given: Any) -> str:
    return compiler.process(next(iter(element.clauses)), **given)


@compiles(sifted, "sqlite")
def _with_a_plus(element: sifted, compiler: SQLCompiler, **given: Any) -> str:
    return f"+{_plain(element, compiler, **given)}"


@compiles(bytewise, "postgresql")
def _in_no_language(element: bytewise, compiler: SQLCompiler, **given: Any) -> str:
    return f'{_plain(element, compiler, **given)} COLLATE "C"'


def _indexed(column: ColumnElement[str]) -> ColumnElement[str]:
    return column
