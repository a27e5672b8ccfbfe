"""Drives Prefect: `with_prefect.py FOLDER-OF-FLOW`. Makes the work pool and the deployment."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.deployments import run_deployment
from prefect.flows import Flow

from talk import serve

runs: list[Any] = []


async def prepare(folder: str, *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    async with get_client() as client:
        while not await healthy(client):
            if time.monotonic() > deadline:
                raise TimeoutError("the server did not answer")
            await asyncio.sleep(0.2)
        await client.create_work_pool(WorkPoolCreate(name="bench", type="process"))
    flow: Any = await Flow.from_source(source=folder, entrypoint="prefect_flow.py:command")
    await flow.deploy(name="bench", work_pool_name="bench", build=False, push=False, print_next_steps=False)


async def healthy(client: Any) -> bool:
    try:
        return await client.api_healthcheck() is None
    except httpx.HTTPError:
        return False


def submit(command: list[str], times: int) -> None:
    words = {"words": command}
    runs.extend(run_deployment("command/bench", parameters=words, timeout=0) for _ in range(times))


def finish() -> None:
    with get_client(sync_client=True) as client:
        while runs:
            state = client.read_flow_run(runs[-1].id).state
            if state.is_completed():
                runs.pop()
            elif state.is_final():
                raise RuntimeError(f"a flow run is {state}")
            else:
                time.sleep(0.05)


asyncio.run(prepare(sys.argv[1], seconds=120))
serve(submit, finish)
