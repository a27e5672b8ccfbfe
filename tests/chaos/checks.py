"""Was anything lost, or done twice? Asked of the store, and of the marks the runs left on disk.

Each check gives the problems it found as sentences; a sound drill has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from chaos.orders import Kind, Order
from chaos.record import Record
from muster.client.sync import Client
from muster.domain.run import AttemptEnd, EventType, RunState

_AT_ONCE = 8  #: runs whose logs are read at the same time
_END = {
    RunState.SUCCEEDED: AttemptEnd.SUCCEEDED,
    RunState.FAILED: AttemptEnd.FAILED,
    RunState.STOPPED: AttemptEnd.STOPPED,
}


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A line a run's own process wrote."""

    word: str
    attempt: int
    rank: int
    pid: int
    uptime: float  #: seconds since boot, by a clock that only goes forward


def read_marks(folder: Path, run_id: str) -> list[Mark]:
    try:
        lines = (folder / f"{run_id}.marks").read_text().splitlines()
    except FileNotFoundError:
        return []
    words = [line.split() for line in lines]
    return [
        Mark(word=word, attempt=int(attempt), rank=int(rank), pid=int(pid), uptime=float(uptime))
        for word, attempt, rank, pid, uptime in words
    ]


def problems(
    records: Mapping[str, Record], orders: Mapping[str, Order], marks: Path, client: Client
) -> Iterator[str]:
    lost, unknown = orders.keys() - records.keys(), records.keys() - orders.keys()
    if lost or unknown:
        yield f"{len(lost)} launched runs are lost, {len(unknown)} runs were never launched"

    def of(run_id: str) -> list[str]:
        order, record, left = orders[run_id], records[run_id], read_marks(marks, run_id)
        found = (
            *committed_once(record, order),
            *lived_alone(record, order, left),
            *log_is_whole(record, order, left, client),
        )
        return [f"{run_id} ({order.kind}): {problem}" for problem in found]

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for found in pool.map(of, orders.keys() & records.keys()):
            yield from found


def committed_once(record: Record, order: Order) -> Iterator[str]:
    """One end, the right one, told once; every attempt before it ended too, and did not count."""
    if record.state is not order.end:
        yield f"is {record.state}, not {order.end}"
        return
    moves = [event for event in record.events if event.type is EventType.STATE]
    final = [event for event in moves if RunState(event.data["to"]).terminal]
    if len(final) != 1 or final[0] is not moves[-1]:
        yield f"has {len(final)} terminal events"
    if [event.seq for event in record.events] != list(range(1, len(record.events) + 1)):
        yield "has a gap in its events"
    if sorted(record.ends) != list(range(1, record.attempt + 1)):
        yield f"has the attempts {sorted(record.ends)}, and is at {record.attempt}"
    told = Counter(event.attempt for event in record.events if event.type is EventType.ATTEMPT)
    if told != Counter(record.ends.keys()):
        yield f"told the ends of attempts {dict(told)}"
    if record.attempt == 0:
        if order.kind is not Kind.WITHDRAWN:
            yield "was never tried"
        return
    *earlier, last = (record.ends[attempt] for attempt in sorted(record.ends))
    if last is not _END[order.end]:
        yield f"ended, but its last attempt is {last}"
    counted = [end for end in earlier if end is not AttemptEnd.LOST]
    if counted != [AttemptEnd.FAILED] * (order.kind is Kind.ONCE):
        yield f"has the earlier attempts {earlier}"


def lived_alone(record: Record, order: Order, left: list[Mark]) -> Iterator[str]:
    """Never two processes of one member, never two attempts at once; and what counts was really done."""
    by_word: dict[str, Counter[tuple[int, int]]] = {}
    for mark in left:
        by_word.setdefault(mark.word, Counter())[mark.attempt, mark.rank] += 1
    if "OVERLAP" in by_word:
        yield f"overlapped: {left}"
    for word, seen in by_word.items():
        if max(seen.values()) > 1:
            yield f"has more than one {word} in one attempt: {seen}"
    began, ended = by_word.get("begin", Counter()), by_word.get("end", Counter())
    failed = by_word.get("fail", Counter())
    if any(attempt > record.attempt for attempt, _ in began):
        yield f"ran an attempt that the store does not know: {began}"
    for attempt, end in record.ends.items():
        if end is AttemptEnd.LOST and all((attempt, rank) in began for rank in range(order.members)):
            yield f"has attempt {attempt} as lost, but it ran: {left}"
    done = [a for a in record.ends if all((a, rank) in ended for rank in range(order.members))]
    if order.end is RunState.SUCCEEDED and done != [record.attempt]:
        yield f"succeeded in attempt {record.attempt}, but all its members came to their end in {done}"
    if order.end is not RunState.SUCCEEDED and ended:
        yield f"must not come to its end, and did: {dict(ended)}"
    if order.kind is Kind.STOPPED and (record.attempt, 0) not in by_word.get("term", Counter()):
        yield "was ended without being told to"
    if len(failed) != (order.kind in (Kind.ONCE, Kind.FAILS)):
        yield f"failed {len(failed)} times"


def log_is_whole(record: Record, order: Order, left: list[Mark], client: Client) -> Iterator[str]:
    """The server has every byte that every member wrote, once, and knows how many they are."""
    words: dict[tuple[int, int], set[str]] = {}
    for mark in left:
        words.setdefault((mark.attempt, mark.rank), set()).add(mark.word)
    for attempt in record.ends:
        for rank in range(order.members):
            said = words.get((attempt, rank), set())
            log = client.read_log(record.id, attempt=attempt, rank=rank)
            if "begin" not in said:
                if order.end is not RunState.STOPPED and log:
                    yield f"has a log of attempt {attempt}, which never ran: {log!r}"
                continue
            lines = 20 if said & {"end", "fail"} else 10
            wanted = expected_log(record.id, attempt, rank, lines)
            if log != wanted:
                yield f"has the log {log!r} of attempt {attempt} rank {rank}, not the first {lines} lines"
            if record.log_bytes.get((attempt, rank)) != len(log):
                yield f"counted {record.log_bytes.get((attempt, rank))} of {len(log)} bytes"


def expected_log(run_id: str, attempt: int, rank: int, lines: int) -> bytes:
    return "".join(
        f"run {run_id} attempt {attempt} rank {rank} line {line} of 20\n" for line in range(1, lines + 1)
    ).encode()
