"""Following a pod's output into a file, so that it is here to the last line before the pod goes.

One stream per member: what its containers print, in the order it came; other containers than the first have
their name before each line. Each stretch of the file ends with a *mark*: for every container the time of
its last line that is in the file, how many lines bear that same time, and how much of a line not yet
ended. The server keeps the mark with the bytes; whoever goes on later, here or on another machine, asks
the cluster from there, so that nothing is missed and nothing comes twice.
"""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import structlog

from muster.engine.kubernetes.api import PODS, Api, ApiError, Unreachable
from muster.engine.kubernetes.attempt import LogProgress
from muster.engine.kubernetes.pod import Container, Pod

log = structlog.get_logger()
AGAIN: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  #: seconds between tries
SELDOM: tuple[float, ...] = (
    *AGAIN,
    10.0,
    20.0,
    40.0,
    60.0,
)  #: where the cluster says that it cannot be read
FLUSH = 64 * 1024  #: bytes of one line that are written before its end is seen
STATUS_WAIT = 5.0  #: seconds from the end of an output until the pod's status must tell of it
_STAMP = 40  #: characters a time has at most


@dataclass(frozen=True, kw_only=True)
class Mark:
    """How far one life of a container is in the file."""

    time: str = ""  #: of its newest line, as the cluster writes it
    lines: int = 0  #: that bear this time, an unfinished one included
    part: int = 0  #: bytes of the newest line, while it is not ended

    def data(self) -> list[str | int]:
        return [self.time, self.lines, self.part]


@dataclass(kw_only=True)
class Spool:
    """The file of one member, and the marks of the places up to which it can be gone on from."""

    path: Path
    length: int = 0
    marks: dict[str, Mark] = field(default_factory=dict)  #: container and life → how far
    _places: list[int] = field(default_factory=list)
    _texts: list[str] = field(default_factory=list)

    @classmethod
    def open(cls, path: Path, *, length: int = 0, mark: str = "") -> Spool:
        """From where the server is. Bytes before that are not kept here: the file has a hole."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.truncate(length)
        return cls(path=path, length=length, marks=_read_marks(mark))

    def add(self, data: bytes, who: str, mark: Mark) -> None:
        with self.path.open("r+b") as file:
            file.seek(self.length)
            file.write(data)
        self.length += len(data)
        self.marks[who] = mark
        self._places.append(self.length)
        self._texts.append(json.dumps({name: one.data() for name, one in self.marks.items()}))

    def mark_at(self, offset: int) -> tuple[int, str] | None:
        """The last marked place up to there. Asked as bytes are sent: what is before it is forgotten."""
        place = bisect_right(self._places, offset) - 1
        if place < 0:
            return None
        found = self._places[place], self._texts[place]
        del self._places[:place], self._texts[:place]
        return found


def _read_marks(text: str) -> dict[str, Mark]:
    try:
        given = json.loads(text) if text else {}
        return {name: Mark(time=str(t), lines=int(n), part=int(p)) for name, (t, n, p) in given.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


class Follower:
    """Follows every life of every container of one pod, until there is no more."""

    def __init__(self, api: Api, pod: Pod, spool: Spool, *, on_end: Callable[[], None]) -> None:
        self._api = api
        self._pod = pod
        self._spool = spool
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._done: set[str] = set()
        self._changed = asyncio.Event()
        self._on_end = on_end

    def see(self, pod: Pod) -> None:
        """The pod as it is now: begin with what has begun."""
        self._pod = pod
        self._changed.set()
        for container in (*pod.inits, *pod.containers):
            for life in range(max(0, container.restarts - 1), container.restarts + 1):
                current = life == container.restarts
                who = f"{container.name}/{life}"
                if who in self._tasks or not (container.begun if current else container.before):
                    continue
                self._tasks[who] = asyncio.create_task(self._follow(container, life, who))

    def progress(self) -> LogProgress:
        """Whole: everything that the pod said, as far as it was seen to speak, is in the file."""
        begun = {
            f"{one.name}/{one.restarts}" for one in (*self._pod.inits, *self._pod.containers) if one.begun
        }
        return LogProgress(length=self._spool.length, whole=self._done >= (begun | self._tasks.keys()))

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _follow(self, container: Container, life: int, who: str) -> None:
        """Tried until it is read to its end. What the cluster refused all along is not waited for then."""
        name, tries = container.name, 0
        while True:
            ended, pauses, mark = self._has_ended(name, life), AGAIN, self._spool.marks.get(who)
            try:
                await self._read(name, who, previous=life < self._restarts(name))
                if await self._ends_within(STATUS_WAIT, name, life):
                    break
            except ApiError as error:
                if error.status == 404 or (error.status == 400 and ended):
                    break  # the pod, or that life's log, is not there any more
                if ended and tries >= len(AGAIN):
                    log.warning("a log cannot be read", pod=self._pod.name, reason=error.message)
                    break
                pauses = SELDOM
            except Unreachable:
                pass
            except OSError as error:
                log.error("cannot write a log", path=str(self._spool.path), reason=str(error))
            tries = 1 if self._spool.marks.get(who) != mark else tries + 1
            await self._pause(pauses[min(tries, len(pauses)) - 1], name, life)
        self._done.add(who)
        self._on_end()

    async def _pause(self, seconds: float, name: str, life: int) -> None:
        """Until the next try. It comes at once when the container ends."""
        if self._has_ended(name, life):
            await asyncio.sleep(seconds)
        else:
            await self._ends_within(seconds, name, life)

    async def _ends_within(self, seconds: float, name: str, life: int) -> bool:
        """Where its output has ended, the pod's status says so a little later, or it was the connection."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._has_ended(name, life):
                    self._changed.clear()
                    await self._changed.wait()
        return self._has_ended(name, life)

    def _restarts(self, name: str) -> int:
        return next(
            (one.restarts for one in (*self._pod.inits, *self._pod.containers) if one.name == name), 0
        )

    def _has_ended(self, name: str, life: int) -> bool:
        for one in (*self._pod.inits, *self._pod.containers):
            if one.name == name:
                return one.restarts > life or one.ended is not None or self._pod.over
        return True

    async def _read(self, name: str, who: str, *, previous: bool) -> None:
        """Until the container's output ends, or the connection does."""
        mark = self._spool.marks.get(who, Mark())
        params = {"container": name, "timestamps": "true"}
        params |= {"previous": "true"} if previous else {"follow": "true"}
        if mark.time:
            params["sinceTime"] = _whole_seconds(mark.time)
        path = PODS.path(self._pod.namespace, self._pod.name, "log")
        main = self._pod.containers[0].name if self._pod.containers else name
        prefix = b"" if name == main else f"[{name}] ".encode()
        async with self._api.stream(path, params, endless=True) as chunks:
            await Copy(self._spool, who, mark, prefix).run(chunks)


@dataclass(kw_only=True)
class _Line:
    """The line being read."""

    time: str = ""
    seen: int = 0  #: bytes of it that came
    known: int = 0  #: bytes of it that the file has already
    open: bool = False


class Copy:
    """Takes lines that begin with a time, and writes those that are not in the file yet."""

    def __init__(self, spool: Spool, who: str, mark: Mark, prefix: bytes) -> None:
        self._spool = spool
        self._who = who
        self._from = mark
        self._prefix = prefix
        self._at_from = 0  #: lines read that bear the time of the mark
        self._mark = mark
        self._line = _Line()
        self._out = bytearray()

    async def run(self, chunks: AsyncIterator[bytes]) -> None:
        rest = b""
        async for chunk in chunks:
            rest = self._take(rest + chunk)
            self._flush()
        if rest:
            self._take(rest, last=True)
        self._flush()

    def _take(self, data: bytes, *, last: bool = False) -> bytes:
        """Returns what cannot be read without more."""
        position = 0
        while position < len(data):
            if not self._line.open:
                space = data.find(b" ", position, position + _STAMP)
                if space < 0:
                    if len(data) - position < _STAMP and not last:
                        return data[position:]
                    space = position - 1
                time = data[position : max(space, position)].decode("ascii", "replace")
                if not _is_time(time):  # the kubelet's own words, such as a failed read
                    time, space = "", position - 1
                self._begin(time)
                position = space + 1
            end = data.find(b"\n", position)
            stop = len(data) if end < 0 else end + 1
            self._continue(data[position:stop], ended=end >= 0)
            position = stop
        return b""

    def _begin(self, time: str) -> None:
        known = 0
        if time and self._from.time and _before(time, self._from.time):
            known = -1  # all of it
        elif time and time == self._from.time:
            self._at_from += 1
            if self._at_from < self._from.lines or (
                self._at_from == self._from.lines and not self._from.part
            ):
                known = -1
            elif self._at_from == self._from.lines:
                known = self._from.part
        self._line = _Line(time=time, known=known, open=True)
        if known == 0 and self._prefix:
            self._out += self._prefix

    def _continue(self, data: bytes, *, ended: bool) -> None:
        line = self._line
        fresh = b""
        if line.known >= 0:
            fresh = data[max(0, line.known - line.seen) :]
        line.seen += len(data)
        line.open = not ended
        if line.known < 0:
            return
        self._out += fresh
        self._advance(0 if ended else line.seen)
        if len(self._out) >= FLUSH:
            self._flush()

    def _advance(self, part: int) -> None:
        time, mark = self._line.time, self._mark
        if not time:
            return
        if time != mark.time:
            self._mark = Mark(time=time, lines=1, part=part)
        elif mark.part:  # more of the same line
            self._mark = Mark(time=time, lines=mark.lines, part=part)
        else:
            self._mark = Mark(time=time, lines=mark.lines + 1, part=part)

    def _flush(self) -> None:
        if self._out:
            self._spool.add(bytes(self._out), self._who, self._mark)
            self._out.clear()


def _is_time(text: str) -> bool:
    return len(text) >= 20 and text[:4].isdecimal() and text[10] == "T"


def _split(time: str) -> tuple[str, str, str]:
    """Seconds, fraction, zone; the fraction may have any number of digits."""
    zone = "Z" if time.endswith("Z") else time[-6:]
    seconds, _, fraction = time.removesuffix(zone).partition(".")
    return seconds, fraction, zone


def _whole_seconds(time: str) -> str:
    """The cluster takes no fractions; lines it sends again are known by their time."""
    seconds, _, zone = _split(time)
    return seconds + zone


def _before(one: str, other: str) -> bool:
    return _moment(one) < _moment(other)


def _moment(time: str) -> tuple[float, str]:
    seconds, fraction, zone = _split(time)
    return datetime.fromisoformat(seconds + zone).timestamp(), fraction.ljust(9, "0")
