"""What a benchmark asks of anything that can start a command."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol, Self

from bench.processes import Processes


class Peer(Protocol):
    """Something that starts commands. Entered, it is up and idle; left, nothing of it is there."""

    name: str
    about: str  #: how it is set up, and what it keeps if the power fails
    starts: int  #: single starts worth waiting for in one round
    burst: int  #: runs of a burst worth waiting for in one round

    def __init__(self, folder: Path) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *raised: object) -> None: ...

    def submit(self, command: Sequence[str], times: int) -> int:
        """Submit the command so many times; the monotonic clock just before, in nanoseconds."""
        ...

    def finish(self) -> None:
        """Return when all that was submitted is known to have succeeded."""
        ...


class Service:
    """A peer made of processes of its own, below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stack = ExitStack()  #: whatever is to be undone at the end; the processes go first

    def __enter__(self) -> Self:
        with self.stack:
            self.processes = self.stack.enter_context(Processes(self.folder))
            self.start()
            self.stack = self.stack.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        self.stack.close()

    def start(self) -> None:
        """Until it is up and idle."""
        raise NotImplementedError
