"""What an agent may do in a cluster: the role that Muster writes is enough, and no more."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from cluster.accounts import AGENT, account, ask, engine_of, left_of, user_of
from cluster.cluster import Cluster
from cluster.errors import ClusterError
from cluster.images import BUSYBOX
from installation import until
from integration.engine.contract import KEY, Bench
from muster.domain.observation import AttemptKey, ReplicaState
from muster.domain.training import Launcher, Training
from muster.engine.kubernetes.access import Right, rights
from muster.engine.kubernetes.connect import ClusterSettings, connect

EVERY = [(right.kind.plural, verb) for right in rights() for verb in right.verbs]
PAIR = Training(nodes=2, launcher=Launcher.PLAIN)
ORPHAN = AttemptKey(run_id="r987654321", attempt=1)


def without(resource: str, verb: str) -> list[Right]:
    """The whole role but for this verb."""
    left = []
    for right in rights():
        taken = verb if right.kind.plural == resource else ""
        verbs = {one: why for one, why in right.verbs.items() if one != taken}
        if verbs:  # a role must not have an empty list of them
            left.append(replace(right, verbs=verbs))
    return left


def asked(cluster: Cluster, namespace: str, *, refused: bool = False) -> set[tuple[str, str]]:
    """What the API server wrote down of that agent: (resource, verb)."""
    found = cluster.requests(user=user_of(namespace))
    own = {(one.resource, one.verb) for one in found if not refused or one.code == 403}
    return {(resource, verb) for resource, verb in own if resource and "accessreviews" not in resource}


async def live(bench: Bench, cluster: Cluster, namespace: str) -> None:
    """A life in which everything is asked for that is ever asked for."""
    place = f"/api/v1/namespaces/{namespace}"
    # a pod without its workload, as somebody leaves it who deletes a Job with --cascade=orphan
    labels = {"muster.dev/run-id": ORPHAN.run_id, "muster.dev/attempt": str(ORPHAN.attempt)}
    pod = {
        "metadata": {"name": "orphan", "labels": labels},
        "spec": {
            "containers": [{"name": "main", "image": BUSYBOX}],
            "schedulingGates": [{"name": "muster.test/never"}],
        },
    }
    cluster.api.post(f"{place}/pods", json=pod).raise_for_status()
    assert await bench.engine.leftovers() == [ORPHAN]
    await bench.engine.discard(ORPHAN)
    # what an earlier start of this attempt left, whose workload is gone
    labels = {"muster.dev/run-id": KEY.run_id, "muster.dev/attempt": str(KEY.attempt)}
    for kind, what, spec in (("services", "nodes", {"clusterIP": "None"}), ("configmaps", "launcher", None)):
        name = f"muster-{KEY.run_id}-{KEY.attempt}-{what}"
        body = {"metadata": {"name": name, "labels": labels}, **({"spec": spec} if spec else {})}
        cluster.api.post(f"{place}/{kind}", json=body).raise_for_status()
    await bench.shell("echo up; exec sleep 60", training=PAIR)
    await bench.says(b"up")
    await bench.shell("echo up; exec sleep 60", training=PAIR, epoch=2)  # again, by its next owner
    await bench.engine.stop(KEY)
    await bench.ended(members=2)


def test_a_life_of_a_run_asks_for_all_that_the_role_has_and_for_nothing_else(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    kubeconfig = account(cluster, namespace, list(rights()))

    async def scenario() -> None:
        async with engine_of(connect(ClusterSettings(kubeconfig=kubeconfig)), tmp_path) as bench:
            await live(bench, cluster, namespace)

    asyncio.run(scenario())
    assert asked(cluster, namespace, refused=True) == set()
    assert asked(cluster, namespace) == set(EVERY)


@pytest.mark.parametrize(("resource", "verb"), EVERY)
def test_each_verb_of_the_role_is_needed(
    cluster: Cluster, namespace: str, tmp_path: Path, resource: str, verb: str
) -> None:
    kubeconfig = account(cluster, namespace, without(resource, verb))
    missing = [one for one in ask(kubeconfig, list(rights())) if not one.allowed]
    assert [(one.right.kind.plural, one.verb) for one in missing] == [(resource, verb)]

    async def scenario() -> None:
        forbidden = asyncio.Event()

        async def look(response: httpx2.Response) -> None:
            if response.status_code == 403:
                forbidden.set()

        connection = connect(ClusterSettings(kubeconfig=kubeconfig))
        connection.http.event_hooks["response"].append(look)
        async with engine_of(connection, tmp_path) as bench:
            life = asyncio.create_task(live(bench, cluster, namespace))
            first = asyncio.create_task(forbidden.wait())
            async with asyncio.timeout(30):
                await asyncio.wait({life, first}, return_when=asyncio.FIRST_COMPLETED)
                await first
            life.cancel()
            await asyncio.gather(life, return_exceptions=True)

    asyncio.run(scenario())
    refused = until(lambda: asked(cluster, namespace, refused=True), what="it is in the API server's log")
    assert refused == {(resource, verb)}


@pytest.mark.parametrize("nodes", [1, 2])
def test_the_role_takes_a_training_from_submission_to_clean_up(
    cluster: Cluster, namespace: str, tmp_path: Path, nodes: int
) -> None:
    kubeconfig = account(cluster, namespace, list(rights()))
    training = Training(nodes=nodes, launcher=Launcher.PLAIN)

    async def scenario() -> None:
        connection = connect(ClusterSettings(kubeconfig=kubeconfig))
        async with engine_of(connection, tmp_path, keep=0) as bench:
            await bench.shell("echo $RANK of $WORLD_SIZE at $MASTER_ADDR", training=training)
            ended = await bench.ended(members=nodes)
            assert {one.state for one in ended.values()} == {ReplicaState.SUCCEEDED}
            for rank in range(nodes):
                assert bench.log(rank=rank).startswith(f"{rank} of {nodes} at ".encode())
            await bench.engine.clean(KEY)
            await bench.until(lambda: left_of(cluster, namespace) == "", "nothing is left")

    asyncio.run(scenario())
    assert asked(cluster, namespace, refused=True) == set()


def test_an_agent_reads_no_secret(cluster: Cluster, namespace: str) -> None:
    account(cluster, namespace, list(rights()))
    who = (f"--as={user_of(namespace)}", f"--namespace={namespace}")
    assert cluster.kubectl("auth", "can-i", "create", "secrets", *who) == "yes\n"
    for verb in ("get", "list", "watch", "update", "patch", "deletecollection"):
        with pytest.raises(ClusterError, match=f"can-i {verb} secrets .* ended with 1"):
            cluster.kubectl("auth", "can-i", verb, "secrets", *who)
    for what in ("pods/exec", "pods", "roles.rbac.authorization.k8s.io", "serviceaccounts/token"):
        with pytest.raises(ClusterError, match=f"can-i create {what} .* ended with 1"):
            cluster.kubectl("auth", "can-i", "create", what, *who)


def test_the_role_ends_where_its_namespace_ends(cluster: Cluster, namespace: str) -> None:
    kubeconfig = account(cluster, namespace, list(rights()))
    verdicts = ask(kubeconfig, list(rights()), ["default"])
    assert [one.sentence for one in verdicts if one.allowed] == []


def test_an_account_of_that_name_is_who_the_audit_names(cluster: Cluster, namespace: str) -> None:
    """The tests above look for it there."""
    kubeconfig = account(cluster, namespace, list(rights()))
    said = json.loads(cluster.kubectl("auth", "whoami", "--output=json", kubeconfig=kubeconfig))
    assert said["status"]["userInfo"]["username"] == user_of(namespace)
    assert AGENT in user_of(namespace)
