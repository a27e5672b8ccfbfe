"""Accounts of a cluster that may do what a test says, and an engine that works as one of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from cluster.cluster import Cluster
from cluster.images import BUSYBOX
from installation import until
from integration.engine.contract import Bench
from muster.domain.errors import MusterError
from muster.domain.policy import Security
from muster.engine.kubernetes.access import Right, rights
from muster.engine.kubernetes.api import Api
from muster.engine.kubernetes.connect import ClusterSettings, Connection, connect
from muster.engine.kubernetes.engine import KubernetesEngine
from muster.engine.kubernetes.render import render
from muster.engine.kubernetes.review import Verdict, review
from muster.engine.kubernetes.role import rules
from muster.engine.port import Rendered, Work

AGENT = "muster-agent"
QUICK = {"spec": {"containers": [{}], "terminationGracePeriodSeconds": 1}}
TEMPLATE: dict[str, Any] = {"kind": "Job", "template": QUICK}


def user_of(namespace: str) -> str:
    return f"system:serviceaccount:{namespace}:{AGENT}"


def account(cluster: Cluster, namespace: str, chosen: Sequence[Right]) -> Path:
    """The kubeconfig of one with these rights, once the API server has heard of them."""
    kubeconfig = cluster.kubeconfig_for(AGENT, namespace, rules(chosen))
    wanted = {(right.kind, verb) for right in chosen for verb in right.verbs}

    def holds() -> bool:
        verdicts = ask(kubeconfig, list(rights()))
        return {(one.right.kind, one.verb) for one in verdicts if one.allowed} == wanted

    until(holds, what="the role holds")
    return kubeconfig


def ask(kubeconfig: Path, about: Sequence[Right], namespaces: Sequence[str] = ()) -> list[Verdict]:
    """What the cluster says about these rights."""

    async def scenario() -> list[Verdict]:
        connection = connect(ClusterSettings(kubeconfig=kubeconfig))
        async with connection.http:
            return await review(Api(connection), about, namespaces or connection.namespaces)

    return asyncio.run(scenario())


@asynccontextmanager
async def engine_of(
    connection: Connection,
    folder: Path,
    *,
    config: dict[str, Any] = TEMPLATE,
    keep: float = 3600,
    security: Security = Security.BASELINE,
) -> AsyncIterator[Bench]:
    """An engine there, whose runs are of the image with a shell."""

    def written(work: Work) -> Rendered:
        return render(replace(work, image=BUSYBOX, security=security))

    # Connections that are there already: one that is being made when a test ends would be left open.
    await asyncio.gather(*(connection.http.get("/version") for _ in range(12)))
    engine = KubernetesEngine(connection, folder / "engine", agent="test", keep=timedelta(seconds=keep))
    bench = Bench(engine=engine, render=written, config=config, directory=folder)
    listening = asyncio.create_task(bench.listen())
    try:
        yield bench
    finally:
        listening.cancel()
        with suppress(asyncio.CancelledError, MusterError):
            await listening
        await engine.close()


def left_of(cluster: Cluster, namespace: str) -> str:
    """Names of all that Muster made there and that is there still."""
    kinds = "jobs,pods,secrets,services,configmaps"
    return cluster.kubectl(
        *("get", kinds, f"--namespace={namespace}", "--selector=muster.dev/run-id", "--output=name")
    )
