"""What a stream said, line by line, each with the time it came."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from threading import Condition, Thread
from typing import Self, TypeVar

import httpx

from bench.harness import CannotMeasure

T = TypeVar("T")


class Recording:
    """A thread that takes down an answer that goes on. It looks at the clock and nothing else: whoever reads
    the lines does so when there is time for it, so that reading delays no later line.
    """

    def __init__(self, client: httpx.Client, path: str, **params: str) -> None:
        self._client = client
        self._path = path
        self._params = params
        self._more = Condition()
        self._read = 0  #: lines that `find` has seen
        self.lines: list[tuple[int, bytes]] = []  #: monotonic nanoseconds, a line

    def __enter__(self) -> Self:
        """Begun when this returns: nothing that happens later is missed."""
        request = self._client.build_request("GET", self._path, params=self._params, timeout=None)
        self._answer = self._client.send(request, stream=True)
        self._answer.raise_for_status()
        self._thread = Thread(target=self._record, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        stream = self._answer.extensions.get("network_stream")
        if stream is not None:  # wakes the thread, which waits for more
            with suppress(OSError):
                stream.get_extra_info("socket").shutdown(2)
        self._thread.join(10)
        self._answer.close()

    def find(self, look: Callable[[int, bytes], T | None], *, seconds: float, what: str) -> T:
        """What `look` says of the first line, after those it has seen already, of which it says anything."""
        deadline = time.monotonic() + seconds
        while True:
            with self._more:
                while self._read == len(self.lines):
                    if not self._more.wait(deadline - time.monotonic()):
                        raise CannotMeasure(f"{what}: not within {seconds:.0f} s")
                fresh, self._read = self.lines[self._read :], len(self.lines)
            for place, (at, line) in enumerate(fresh):
                found = look(at, line)
                if found is not None:
                    self._read -= len(fresh) - place - 1
                    return found

    def _record(self) -> None:
        rest = b""
        with suppress(httpx.HTTPError, OSError):
            for piece in self._answer.iter_raw():
                at = time.monotonic_ns()
                *lines, rest = (rest + piece).split(b"\n")
                with self._more:
                    self.lines += [(at, line) for line in lines if line]
                    self._more.notify_all()
