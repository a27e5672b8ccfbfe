"""Where the next page of a list of runs begins, as one word for clients to hand back."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from muster.domain.errors import BadInput
from muster.domain.runorder import NEWEST, RunKey, RunOrder
from muster.store.runlist import Place
from muster.store.schema import micros, moment

MAX_CHARS = 4096
_NUMBERS = {RunKey.GPUS, RunKey.DURATION}
_LIMIT = 2**56  #: more runs than there are, and as microseconds the year 4253


@dataclass(frozen=True, kw_only=True)
class Cursor:
    order: RunOrder
    place: Place
    now: datetime  #: when the first page was asked for

    def __str__(self) -> str:
        if self.order == NEWEST:
            return str(self.place.seq)
        data = [str(self.order), micros(self.now), self.place.seq, self.place.value]
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        return urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, word: str, order: RunOrder, *, now: datetime) -> Self:
        if order == NEWEST:
            place = Place(seq=cursor_number(word))
            return cls(order=order, place=place, now=now)
        try:
            of, asked, seq, value = json.loads(urlsafe_b64decode(word[:MAX_CHARS] + "=" * (-len(word) % 4)))
        except (ValueError, TypeError, RecursionError):
            raise not_a_cursor(word) from None
        numbers = [asked, seq, value] if order.by in _NUMBERS else [asked, seq]
        fits = value is None if order.by is RunKey.CREATED else order.by in _NUMBERS or _is_name(value)
        if of != str(order) or not fits or not all(map(_is_number, numbers)):
            raise not_a_cursor(word)
        return cls(order=order, place=Place(seq=seq, value=value), now=moment(asked))


def cursor_number(cursor: str) -> int:
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 18:
        raise not_a_cursor(cursor)
    return int(cursor)


def not_a_cursor(word: str) -> BadInput:
    return BadInput(
        f"{word[:40]!r} is not a cursor of this list.",
        hint="Pass `next` of the page before as it is, and ask for the same list.",
    )


def _is_number(value: object) -> bool:
    return type(value) is int and -2 < value < _LIMIT


def _is_name(value: object) -> bool:
    """Anything that a database takes."""
    return isinstance(value, str) and "\0" not in value and value.encode(errors="ignore").decode() == value
