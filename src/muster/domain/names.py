"""Ids that are legal everywhere, and names that people choose."""

from __future__ import annotations

import re
import string
from collections.abc import Callable

from muster.domain.errors import BadName

_LETTERS = string.ascii_lowercase
_ALNUM = string.ascii_lowercase + string.digits
ID_LENGTH = 10
_ID = re.compile(r"[a-z][a-z0-9]{9}")
_ID_START = re.compile(r"[a-z][a-z0-9]{0,9}")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_RULE = "Use 1 … 64 letters, digits, '.', '_' and '-', with a letter or digit at both ends."

RandomBytes = Callable[[int], bytes]  #: os.urandom, or a seeded stand-in


def new_id(random: RandomBytes) -> str:
    """Ten characters, `[a-z][a-z0-9]{9}`: a DNS-1035 label, so fit for any engine's object names."""
    raw = int.from_bytes(random(8), "big")
    first, raw = _LETTERS[raw % 26], raw // 26
    rest = []
    for _ in range(9):
        raw, digit = divmod(raw, 36)
        rest.append(_ALNUM[digit])
    return first + "".join(rest)


def is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def may_start_id(text: str) -> bool:
    return _ID_START.fullmatch(text) is not None


def checked_name(text: str, *, what: str) -> str:
    """`text`, if it may name a queue, a project, an entity or a user."""
    if _NAME.fullmatch(text) is None:
        raise BadName(text, what=what, rule=_RULE)
    return text


_ADJECTIVES = (
    "amber brave brisk calm clear crisp deft eager early fair fleet fond gentle glad golden keen kind lively "
    "lucid lunar mellow merry mild neat noble plain proud quick quiet rapid ready robust rosy sharp sleek "
    "smooth solar solid spry stark steady still stout sunny sure swift tidy vivid warm wise young"
).split()
_NOUNS = (
    "anchor arbor aspen badge banner beacon birch bridge brook canyon cedar cliff comet coral crane creek "
    "delta dune ember falcon fern field finch fjord forge garden glade grove harbor hazel heron hill island "
    "lake lark ledge maple marsh meadow mesa otter pine plover prairie quarry raven reef ridge river robin "
    "sail shore spruce stone summit swan thicket tide trail valley willow wren"
).split()


def friendly_name(random: RandomBytes) -> str:
    """A name for a run that was given none: `swift-heron-42`."""
    raw = int.from_bytes(random(6), "big")
    raw, adjective = divmod(raw, len(_ADJECTIVES))
    raw, noun = divmod(raw, len(_NOUNS))
    return f"{_ADJECTIVES[adjective]}-{_NOUNS[noun]}-{raw % 1000}"
