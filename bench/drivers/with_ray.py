"""Drives Ray Jobs: `with_ray.py URL`. Ready when the dashboard takes jobs."""

from __future__ import annotations

import shlex
import sys
import time

from ray.job_submission import JobStatus, JobSubmissionClient

from talk import serve


def connect(url: str, *, seconds: float) -> JobSubmissionClient:
    deadline = time.monotonic() + seconds
    while True:
        try:
            client = JobSubmissionClient(url)
            client.list_jobs()
        except (ConnectionError, RuntimeError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return client


client = connect(sys.argv[1], seconds=120)
jobs: list[str] = []


def submit(command: list[str], times: int) -> None:
    jobs.extend(client.submit_job(entrypoint=shlex.join(command)) for _ in range(times))


def finish() -> None:
    while jobs:
        status = client.get_job_status(jobs[-1])
        if status is JobStatus.SUCCEEDED:
            jobs.pop()
        elif status.is_terminal():
            raise RuntimeError(f"a job {status}: {client.get_job_logs(jobs[-1])[-500:]}")
        else:
            time.sleep(0.05)


serve(submit, finish)
