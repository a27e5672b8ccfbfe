"""The file into which one member's output is copied, and how far each of its containers is in it."""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Mark:
    """How far one life of a container is in the file.

    The cluster sends lines from a given second on, always the same ones in the same order; so a place is
    a second and a number of bytes from there. Times alone would not do: two lines may bear the same one,
    and what is printed on stdout and stderr at once need not be in the order of its times.
    """

    first: str = ""  #: the time of the line from which is counted, the first one of its second
    size: int = 0  #: bytes from there that are in the file, as the cluster sends them
    last: str = ""  #: the time of the newest line, in case the cluster threw the first one away
    whole: bool = False  #: it is counted from the very first line, so lines of any second count

    @property
    def since(self) -> str:
        """What to ask the cluster for: it takes whole seconds."""
        return whole_seconds(self.first) if self.first and not self.whole else ""

    def data(self) -> list[str | int]:
        return [self.first, self.size, self.last, int(self.whole)]


@dataclass(kw_only=True)
class Spool:
    """The file of one member, and the marks of the places up to which it can be gone on from."""

    path: Path
    length: int = 0
    marks: dict[str, Mark] = field(default_factory=dict)  #: pod, container and life → how far
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
        return {who: _mark(*data) for who, data in given.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def _mark(first: object, size: int, last: object, whole: object = 0) -> Mark:
    return Mark(first=str(first), size=int(size), last=str(last), whole=bool(whole))


def whole_seconds(time: str) -> str:
    """Without the fraction, which may have any number of digits."""
    zone = "Z" if time.endswith("Z") else time[-6:]
    return time.removesuffix(zone).partition(".")[0] + zone
