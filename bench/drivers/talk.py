"""The driver's end of the line: orders come in on stdin, answers go out on what was stdout."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

_answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # from here on, libraries that print do not get between the answers


def serve(submit: Callable[[list[str], int], None], finish: Callable[[], None]) -> None:
    """Say that we are ready, then do as told until nobody asks any more."""
    _answer(time.monotonic_ns())
    for line in sys.stdin:
        order = json.loads(line)
        began = time.monotonic_ns()
        if order["do"] == "submit":
            submit(order["command"], order["times"])
        else:
            finish()
        _answer(began)


def _answer(began: int) -> None:
    print(json.dumps({"began": began}), file=_answers, flush=True)
