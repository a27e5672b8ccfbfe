"""Drives submitit: `with_submitit.py FOLDER`."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import submitit

from talk import serve

executor = submitit.LocalExecutor(folder=sys.argv[1])
executor.update_parameters(timeout_min=10)
jobs: list[Any] = []


def submit(command: list[str], times: int) -> None:
    jobs.extend(executor.submit(subprocess.check_call, command) for _ in range(times))


def finish() -> None:
    while jobs:
        jobs.pop().result()


serve(submit, finish)
