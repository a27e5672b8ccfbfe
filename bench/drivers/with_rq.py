"""Drives RQ: `with_rq.py SOCKET WORKERS`. Ready when so many workers are."""

from __future__ import annotations

import sys
import time
from typing import Any

from redis import Redis
from rq import Queue, Worker
from rq.job import JobStatus

from talk import serve

redis = Redis(unix_socket_path=sys.argv[1])
queue = Queue(connection=redis)
jobs: list[Any] = []


def submit(command: list[str], times: int) -> None:
    jobs.extend(queue.enqueue("subprocess.check_output", command) for _ in range(times))


def finish() -> None:
    while jobs:
        status = jobs[-1].get_status(refresh=True)
        if status is JobStatus.FINISHED:
            jobs.pop()
        elif status is JobStatus.FAILED:
            raise RuntimeError(f"a job failed: {jobs[-1].latest_result().exc_string}")
        else:
            time.sleep(0.005)


while len(Worker.all(connection=redis)) < int(sys.argv[2]):
    time.sleep(0.05)
serve(submit, finish)
