"""The last Python traceback in some lines: which error, with what words, at which line of whose code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MAX_MESSAGE_LINES = 20

_HEADER = "Traceback (most recent call last):"
_ORIGINAL = f"Original {_HEADER}"
_FRAME = re.compile(r' {2}File "(?P<file>[^"]{1,1000})", line (?P<line>\d{1,9})', re.ASCII)
_ERROR = re.compile(r"(?P<type>[A-Za-z_][\w.]{0,300})(?:: ?(?P<message>.*))?$")
_LIBRARY = re.compile(r"site-packages/|dist-packages/|/lib/python\d|<frozen |/bin/torchrun")
_OTHER_RECORD = re.compile(r"\[?[IWEF]\d{4} \d\d:|muster: |Exception ignored in")
# Python prints these too, and goes on: an error in a finaliser or in a log call ends nothing.
_IGNORED = ("Exception ignored in", "--- Logging error ---")
_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"


@dataclass(frozen=True, kw_only=True)
class Traceback:
    text: str  #: as Python printed it, with the errors that led to it
    said: str  #: the error and its direct causes, without the frames
    error: str  #: its type, without the module
    message: str  #: the first line of its words
    where: str  #: the last frame in the user's code, as `train.py:42`


@dataclass(frozen=True, kw_only=True)
class _Block:
    """From one header to the end of the error's message; `lines` are without prefix."""

    start: int
    error_at: int  #: index in `lines`
    lines: tuple[str, ...]

    @property
    def said(self) -> tuple[str, ...]:
        return self.lines[self.error_at :]


def last_traceback(lines: Sequence[str]) -> Traceback | None:
    """The last whole traceback that was not ignored, with those it is chained to."""
    blocks: list[_Block] = []
    at = 0
    while at < len(lines):
        block, at = _block(lines, at)
        if block is not None:
            blocks.append(block)
    while blocks and _line_before(lines, blocks[-1].start).startswith(_IGNORED):
        blocks.pop()
    return _chain(lines, blocks) if blocks else None


def _chain(lines: Sequence[str], blocks: Sequence[_Block]) -> Traceback:
    last = blocks[-1]
    text, said = list(last.lines), list(last.said)
    direct = True
    for before, after in zip(blocks[-2::-1], blocks[:0:-1], strict=True):
        link = _line_before(lines, after.start)
        # A DataLoader worker's traceback is printed as part of the message of the error it led to.
        original = after.lines[0] == _ORIGINAL
        if link not in (_CAUSE, _CONTEXT) and not original:
            break
        direct = direct and link != _CONTEXT
        text[:0] = [*before.lines] if original else [*before.lines, "", link, ""]
        if direct:
            said[:0] = before.said
    match = _ERROR.match(last.said[0])
    return Traceback(
        text="\n".join(text).rstrip(),
        said="\n".join(said),
        error=match["type"].rpartition(".")[2] if match else "an error",
        message=((match["message"] or "") if match else last.said[0]).strip(),
        where=_where(last),
    )


def _block(lines: Sequence[str], at: int) -> tuple[_Block | None, int]:
    """The traceback that begins at this line, if one does, and where to look on."""
    before, header, after = lines[at].partition(_HEADER)
    begins = header and not after.strip()
    if not begins and not _FRAME.match(lines[at]):  # a syntax error in the script itself has no header
        return None, at + 1
    prefix = _prefix(before, lines, at) if begins else ""
    found = [_ORIGINAL if before == "Original " else header] if begins else [lines[at]]
    end = at + 1
    while end < len(lines) and (body := lines[end].removeprefix(prefix)).startswith(" "):
        found.append(body)
        end += 1
    error_at = len(found)
    while end < len(lines) and len(found) - error_at < MAX_MESSAGE_LINES:
        body = lines[end].removeprefix(prefix)
        if not body.strip() or _HEADER in body or _OTHER_RECORD.match(body) or _FRAME.match(body):
            break
        found.append(body)
        end += 1
    if error_at == 1 or len(found) == error_at:
        return None, end
    return _Block(start=at, error_at=error_at, lines=tuple(found)), end


def _prefix(before: str, lines: Sequence[str], at: int) -> str:
    """What a logger or an exception group put before every line; a progress bar is before one only."""
    follows = at + 1 < len(lines) and lines[at + 1].startswith(before + "  File ")
    return before if follows else ""


def _line_before(lines: Sequence[str], at: int) -> str:
    for line in reversed(lines[max(at - 3, 0) : at]):
        if line.strip():
            return line.strip()
    return ""


def _where(block: _Block) -> str:
    frames = [match for line in block.lines[: block.error_at] if (match := _FRAME.match(line))]
    own = [frame for frame in frames if not _LIBRARY.search(frame["file"])]
    if not frames:
        return ""
    frame = (own or frames)[-1]
    return f"{frame['file'].rpartition('/')[2]}:{frame['line']}"
