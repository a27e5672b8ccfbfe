"""Lists of runs: narrowed, in an order, page by page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any, TypeAlias, TypeVar

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
    true,
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
from muster.store.schema import entities, micros, queues, runs

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
    gpus: int | None = None  #: in all; nobody asks for it but a list by GPUs
    group: str | None = None  #: a few thousand runs at most, side by side in an index: the rest is sifted

    @property
    def whole(self) -> bool:
        """All runs of some entities: they can be read from an index in the order of the list."""
        return self == Filter(entities=self.entities)

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
    if narrow.entities is None and (narrow.sparse or order.by is not RunKey.CREATED):
        everybody = tuple(conn.execute(select(entities.c.name).limit(_MAX_BRANCHES + 1)).scalars())
        narrow = replace(narrow, entities=everybody if len(everybody) <= _MAX_BRANCHES else None)
    if narrow.whole and (lists := _alike(conn, narrow, order.by)):
        return _one_after_the_other(conn, lists, order, after, limit)
    cut = _Cut(order=order, key=_key(order.by, now), after=after, limit=limit)
    rows = conn.execute(_page_statement(narrow, cut, _parts(narrow, cut, now)))
    return [(Place(seq=row.seq, value=None if cut.key is None else row.key), run_of(row)) for row in rows]


#: the value that lists are of → those lists. All values are of one column, so they compare.
Alike: TypeAlias = Mapping[Any, Sequence[Filter]]


def _one_after_the_other(
    conn: Connection, lists: Alike, order: RunOrder, after: Place | None, limit: int
) -> list[tuple[Place, Run]]:
    """Where much is alike, each value has a list of its own, with the newest first. A database asked for
    all of them would sort what is alike, and that may be everything. (A reader sees one moment, however
    many statements it makes: nothing goes from list to list meanwhile.)"""
    found: list[tuple[Place, Run]] = []
    for value in sorted(lists, reverse=order.down):
        place = None
        if after is not None and value == after.value:
            place = Place(seq=after.seq)
        elif after is not None and (value < after.value) is not order.down:
            continue  # it was on a page before
        room = limit - len(found)
        looks = (page(conn, one, limit=room, after=place) for one in lists[value])
        listed = sorted(chain(*looks), key=lambda placed: placed[0].seq, reverse=True)[:room]
        found += [(Place(seq=at.seq, value=value), run) for at, run in listed]
        if len(found) == limit:
            break
    return found


def _alike(conn: Connection, narrow: Filter, by: RunKey) -> Alike:
    """The lists that a list by such a key is made of. None where hardly anything is alike (names,
    durations), and where there would be too many."""
    lists: dict[Any, list[Filter]] = {}
    if by is RunKey.QUEUE:
        for row in conn.execute(select(queues.c.id, queues.c.name).limit(_MAX_BRANCHES + 1)):
            lists.setdefault(row.name, []).append(replace(narrow, queue_id=row.id))
    elif by is RunKey.STATE:
        lists = {state.value: [replace(narrow, states=(state,))] for state in RunState}
    elif by in (RunKey.PROJECT, RunKey.AUTHOR, RunKey.GPUS) and narrow.entities is not None:
        values = {value for one in narrow.entities for value in _values(conn, one, runs.c[by.value])}
        lists = {value: [replace(narrow, **{by.value: value})] for value in values}
    return lists if sum(map(len, lists.values())) <= _MAX_BRANCHES else {}


def _values(conn: Connection, entity: str, column: ColumnElement[Any]) -> Sequence[Any]:
    """What the runs of an entity have in a column, by one look into an index for each value. Not all of
    them, if there are too many."""

    def least(*beyond: ColumnElement[bool]) -> Select[Any]:
        return select(func.min(column).label("value")).where(runs.c.entity == entity, *beyond)

    found = least().cte("found", recursive=True)
    following = least(column > found.c.value).correlate(found).scalar_subquery()
    found = found.union_all(select(following).where(found.c.value.is_not(null())))
    known = select(found.c.value).where(found.c.value.is_not(null())).limit(_MAX_BRANCHES + 1)
    return conn.execute(known).scalars().all()


@dataclass(frozen=True, kw_only=True)
class _Cut:
    """A page of a list: what of it, and in what order. Of what is alike, the newest first."""

    order: RunOrder
    key: ColumnElement[Any] | None  #: None: the time, for which the numbers of runs stand
    after: Place | None
    limit: int

    def of(self, query: Select[Any]) -> Select[Any]:
        if self.order.by is RunKey.QUEUE and self.key is not None:  # whose name is not with the runs
            query = query.join(_queue, _queue.c.id == runs.c.queue_id)
        if self.after is not None:
            query = query.where(self._follows(self.after))
        seq = runs.c.seq
        first, *then = (seq,) if self.key is None else (self.key, seq.desc())
        return query.order_by(first.desc() if self.order.down else first.asc(), *then).limit(self.limit)

    def _follows(self, place: Place) -> ColumnElement[bool]:
        if self.key is None:
            return runs.c.seq < place.seq if self.order.down else runs.c.seq > place.seq
        reached = self.key <= place.value if self.order.down else self.key >= place.value
        return and_(reached, or_(self.key != place.value, runs.c.seq < place.seq))


def _key(by: RunKey, now: datetime | None) -> ColumnElement[Any] | None:
    match by:
        case RunKey.CREATED:
            return None
        case RunKey.NAME | RunKey.STATE | RunKey.PROJECT | RunKey.AUTHOR:
            return runs.c[by.value]
        case RunKey.QUEUE:
            return _queue.c.name
        case RunKey.GPUS:
            return type_coerce(runs.c.gpus, BigInteger)  # compared with whatever a client says
        case RunKey.DURATION:
            lasts = case((_not_started, _NO_TIME), (_goes_on, _until(now) - _started), else_=_took)
            return type_coerce(lasts, BigInteger)


# Written as the conditions and columns of `ix_runs_unstarted`, `ix_runs_going` and `ix_runs_lasted` are.
_not_started = runs.c.started_at.is_(null())
_goes_on = and_(runs.c.ended_at.is_(null()), runs.c.started_at.is_not(null()))
_lasted = and_(runs.c.ended_at.is_not(null()), runs.c.started_at.is_not(null()))
_started = type_coerce(runs.c.started_at, BigInteger)
_took = type_coerce(runs.c.ended_at, BigInteger) - _started
_NO_TIME = -1  #: less than any


def _until(now: datetime | None) -> ColumnElement[int]:
    return literal(micros(now) if now else None, BigInteger)


def _parts(narrow: Filter, cut: _Cut, now: datetime | None) -> list[tuple[_Cut, ColumnElement[bool]]]:
    """Runs of a list that have an index in its order, and what sorts them among themselves."""
    if cut.key is None:
        return [(cut, true())]
    if not narrow.whole:  # led to by an index of what it is narrowed to, and sorted
        return [(replace(cut, key=type_coerce(sifted(cut.key), cut.key.type)), true())]
    if cut.order.by is not RunKey.DURATION:
        return [(cut, true())]
    parts = [(replace(cut, key=_took), _lasted), (replace(cut, key=_until(now) - _started), _goes_on)]
    among = cut.after is None or cut.after.value == _NO_TIME
    if among or cut.order.down:  # else it has gone past them, who come first
        newest = replace(cut, order=NEWEST, key=None, after=cut.after if among else None)
        parts.append((newest, _not_started))
    return parts


def _page_statement(
    narrow: Filter, cut: _Cut, parts: Sequence[tuple[_Cut, ColumnElement[bool]]]
) -> Select[Any]:
    """For several entities or states, the first of each are looked up and merged: asked for all of
    them at once, the database would read and sort everything they have. Whole rows are read last, and
    only those of the page."""
    branches = [
        replace(narrow, entities=one, states=state)
        for one in _each(narrow.entities, otherwise=None)
        for state in _each(narrow.states, otherwise=())
    ]
    if narrow.group is not None or len(branches) * len(parts) > _MAX_BRANCHES:
        branches = [narrow]
    if cut.key is None and len(branches) == 1 and not narrow.mixed:
        return cut.of(_narrowed(SELECT_RUN, narrow))
    if narrow.text and may_start_id(narrow.text.lower()):  # names are sifted; ids have an index
        branches.append(replace(narrow, text=None, id_start=narrow.text.lower()))
    numbers = select(runs.c.seq)
    looks = [
        part.of(_narrowed(numbers, branch).where(holds)).subquery()
        for branch in branches
        for part, holds in parts
    ]
    seqs = union_all(*(select(look.c.seq) for look in looks))
    whole = SELECT_RUN if cut.key is None else SELECT_RUN.add_columns(cut.key.label("key"))
    return cut.of(whole.where(runs.c.seq.in_(seqs)))


def _each(values: tuple[T, ...] | None, *, otherwise: D) -> list[tuple[T, ...] | D]:
    """Each of the values alone; `otherwise` stands for no values."""
    return [(value,) for value in values] if values else [otherwise]


def _narrowed(query: Select[Any], narrow: Filter) -> Select[Any]:
    if narrow.group is not None:
        query = query.where(runs.c.group_id == narrow.group)
    if narrow.entities is not None:
        # A job, a queue, a group or the start of an id has few runs beside its entity's: its own index
        # leads to them, whatever is asked.
        few = narrow.job_id or narrow.group or narrow.id_start or (narrow.queue_id and not narrow.mixed)
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
    if narrow.gpus is not None:
        query = query.where(runs.c.gpus == narrow.gpus)
    if narrow.states:
        query = query.where(of(runs.c.state).in_([state.value for state in narrow.states]))
    if narrow.text:
        pattern = narrow.text.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
        escape = ("\\",) if pattern != narrow.text else ()  # SQLite is slower with one
        query = query.where(contains(sifted(runs.c.name), f"%{pattern}%", *escape))
    if narrow.id_start:  # nothing in an id comes after z, in any collation
        query = query.where(runs.c.id.between(narrow.id_start, narrow.id_start + "z" * ID_LENGTH))
    return query


class contains(FunctionElement[bool]):  # noqa: N801 - it is used as a function
    """Does a text match a pattern, whatever the case of its letters?"""

    inherit_cache = True


@compiles(contains)
def _contains(element: contains, compiler: SQLCompiler, **given: Any) -> str:
    column, pattern, *escape = (compiler.process(clause, **given) for clause in element.clauses)
    return " ".join((column, "LIKE", pattern, *(f"ESCAPE {mark}" for mark in escape)))


@compiles(contains, "postgresql")
def _contains_on_postgresql(element: contains, compiler: SQLCompiler, **given: Any) -> str:
    return _contains(element, compiler, **given).replace(" LIKE ", " ILIKE ", 1)


class sifted(FunctionElement[str]):  # noqa: N801 - it is used as a function
    """A column, but SQLite looks for no index of it. (PostgreSQL knows better than we which one to use.)"""

    inherit_cache = True
    type = String()


@compiles(sifted)
def _plain(element: FunctionElement[str], compiler: SQLCompiler, **given: Any) -> str:
    return compiler.process(next(iter(element.clauses)), **given)


@compiles(sifted, "sqlite")
def _with_a_plus(element: sifted, compiler: SQLCompiler, **given: Any) -> str:
    return f"+{_plain(element, compiler, **given)}"


def _indexed(column: ColumnElement[str]) -> ColumnElement[str]:
    return column
