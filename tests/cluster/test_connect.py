"""How an agent comes into a cluster: from a pod, with a kubeconfig, into several namespaces; and how not."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster.accounts import AGENT, TEMPLATE, account, engine_of
from cluster.cluster import Cluster
from cluster.images import PYTHON
from installation import MUSTER, until
from integration.engine.contract import KEY
from muster.domain.errors import BadTemplate, CannotPlace
from muster.engine.kubernetes import connect as module
from muster.engine.kubernetes import view
from muster.engine.kubernetes.access import rights
from muster.engine.kubernetes.connect import ClusterSettings, connect
from muster.engine.kubernetes.engine import KubernetesEngine

ROOT = Path(__file__).resolve().parents[2]


def muster(folder: Path, *words: str, config: Any = None, **env: str) -> subprocess.CompletedProcess[str]:
    """A command, with this as its agent.yaml."""
    (folder / "agent.yaml").write_text(json.dumps(config or {}))
    return subprocess.run(
        [*MUSTER, "agent", *words, "--config", str(folder / "agent.yaml")],
        env={**os.environ, "NO_COLOR": "1", "HOME": str(folder), **env},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_printed_role_is_enough_in_every_namespace_that_is_named(
    cluster: Cluster, namespace: str, second: str, tmp_path: Path
) -> None:
    config = {"engine": "kubernetes", "kubernetes": {"namespace": namespace, "namespaces": [second]}}
    role = muster(tmp_path, "role", config=config)
    assert role.returncode == 0, role.stderr
    cluster.kubectl("apply", "--filename=-", input=role.stdout)
    kubeconfig = until(lambda: named(cluster, namespace, tmp_path))
    config["kubernetes"] |= {"kubeconfig": str(kubeconfig)}  # type: ignore[operator]
    said = until(lambda: passes(tmp_path, config), what="all rights are there")
    verdicts = json.loads(said)["items"]
    allowed = {one["namespace"] for one in verdicts if one["required"] and one["allowed"]}
    assert allowed == {namespace, second}
    assert not [one for one in verdicts if one["required"] and not one["allowed"]]
    assert not [one for one in verdicts if not one["required"] and one["allowed"]]


def named(cluster: Cluster, namespace: str, folder: Path) -> Path:
    """A kubeconfig of the account that the role names."""
    token = cluster.kubectl("create", "token", AGENT, f"--namespace={namespace}").strip()
    return with_token(cluster, folder, token)


def with_token(cluster: Cluster, folder: Path, token: str) -> Path:
    """The admin's kubeconfig, with another user."""
    content = json.loads(cluster.kubeconfig.read_text())
    content["users"][0]["user"] = {"token": token}
    path = folder / "kubeconfig"
    path.write_text(json.dumps(content))
    return path


def passes(folder: Path, config: Any) -> str | None:
    done = muster(folder, "check", "--json", config=config)
    return done.stdout if done.returncode == 0 else None


def test_what_is_missing_is_named_with_what_it_means(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    chosen = [right for right in rights() if right.kind.plural not in ("pods/log", "services")]
    kubeconfig = account(cluster, namespace, chosen)
    done = muster(
        tmp_path, "check", config={"engine": "kubernetes", "kubernetes": {"kubeconfig": str(kubeconfig)}}
    )
    assert done.returncode == 1
    assert f"✘ fail  may not get pods/log in {namespace}: logs cannot be read" in done.stdout
    assert f"✘ fail  may not create services in {namespace}: " in done.stdout
    assert "muster agent role" in done.stdout


def test_runs_go_where_their_template_says_if_the_agent_serves_it(
    cluster: Cluster, namespace: str, second: str, tmp_path: Path
) -> None:
    elsewhere = {**TEMPLATE, "metadata": {"namespace": second}}
    settings = ClusterSettings(kubeconfig=cluster.kubeconfig, namespace=namespace, namespaces=(second,))

    async def scenario() -> None:
        async with engine_of(connect(settings), tmp_path, config=elsewhere) as bench:
            await bench.shell("echo here")
            await bench.only()
            assert bench.log() == b"here\n"
            await bench.engine.discard(KEY)
        alone = ClusterSettings(kubeconfig=cluster.kubeconfig, namespace=namespace)
        async with engine_of(connect(alone), tmp_path, config=elsewhere) as bench:
            with pytest.raises(BadTemplate, match=f"this agent serves {namespace}"):
                await bench.shell("echo here")

    asyncio.run(scenario())


def test_a_context_is_chosen_by_name(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    content = json.loads(cluster.kubeconfig.read_text())
    [context] = content["contexts"]
    other = {"name": "other", "context": {**context["context"], "namespace": namespace}}
    content["contexts"].append(other)
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(content))
    settings = {"engine": "kubernetes", "kubernetes": {"kubeconfig": str(path), "context": "other"}}
    done = muster(tmp_path, "check", config=settings)
    assert done.returncode == 0, done.stderr
    assert f"namespaces {namespace}\n" in done.stdout
    settings["kubernetes"] = {"kubeconfig": str(path), "context": "another"}
    done = muster(tmp_path, "check", config=settings)
    assert done.returncode == 2
    assert "has no context 'another'" in done.stderr
    assert "There is: muster, other." in done.stderr


def test_an_agent_in_a_pod_uses_its_service_account(cluster: Cluster, namespace: str) -> None:
    """The whole program, in a container, with nothing set but its queue's engine."""
    account(cluster, namespace, list(rights()))
    check = "muster agent check --json --config /tmp/agent.yaml"
    script = f"echo 'engine: kubernetes' > /tmp/agent.yaml; exec {check}"
    places = [sys.prefix, str(ROOT / "src")]
    mounts = [{"name": f"place-{i}", "mountPath": path} for i, path in enumerate(places)]
    volumes = [{"name": f"place-{i}", "hostPath": {"path": path}} for i, path in enumerate(places)]
    env = {"HOME": "/tmp", "PATH": f"{sys.prefix}/bin:/bin:/usr/bin"}
    container = {
        "name": "agent",
        "image": PYTHON,
        "command": ["sh", "-c", script],
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "volumeMounts": mounts,
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "agent"},
        "spec": {
            "serviceAccountName": AGENT,
            "restartPolicy": "Never",
            "containers": [container],
            "volumes": volumes,
        },
    }
    cluster.apply(pod, namespace=namespace)
    place = f"/api/v1/namespaces/{namespace}/pods/agent"

    def phase() -> str:
        return str(cluster.api.get(place).raise_for_status().json()["status"]["phase"])

    until(lambda: phase() in ("Succeeded", "Failed"), seconds=90, what="the pod ends")
    said = cluster.api.get(f"{place}/log").raise_for_status().text
    assert phase() == "Succeeded", said
    verdicts = json.loads(said)["items"]
    assert {one["namespace"] for one in verdicts if one["required"]} == {namespace}
    assert all(one["allowed"] for one in verdicts if one["required"])


def test_a_token_in_a_file_is_read_again_when_it_is_not_accepted_any_more(
    cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a pod has it, where the kubelet writes a new one in time."""
    account(cluster, namespace, list(rights()))
    token = cluster.kubectl("create", "token", AGENT, f"--namespace={namespace}").strip()
    content = json.loads(cluster.kubeconfig.read_text())
    authority = Path(content["clusters"][0]["cluster"]["certificate-authority"]).read_text()
    for name, text in {"token": "not.yet.valid", "namespace": namespace, "ca.crt": authority}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(module, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", cluster.server.removeprefix("https://"))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    connection = connect(ClusterSettings())
    assert connection.cluster == connect(ClusterSettings(kubeconfig=cluster.kubeconfig)).cluster

    async def scenario() -> None:
        async with connection.http as http:
            place = f"/api/v1/namespaces/{namespace}/pods"
            assert (await http.get(place)).status_code == 401
            (tmp_path / "token").write_text(token)
            assert (await http.get(place)).status_code == 200

    asyncio.run(scenario())


def expired(cluster: Cluster, namespace: str) -> str:
    """A token of a service account that is not there any more: as good as one whose time is over."""
    cluster.kubectl("create", "serviceaccount", "gone", f"--namespace={namespace}")
    token = cluster.kubectl("create", "token", "gone", f"--namespace={namespace}").strip()
    cluster.kubectl("delete", "serviceaccount", "gone", f"--namespace={namespace}")
    return token


def test_credentials_that_have_expired_are_named_and_no_run_fails_for_them(
    cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "SYNC_WAIT", 3600.0)  # nobody waits for a refusal to pass
    token = expired(cluster, namespace)
    kubeconfig = with_token(cluster, tmp_path, token)
    config = {"engine": "kubernetes", "kubernetes": {"kubeconfig": str(kubeconfig)}}
    done = until(lambda: refused(tmp_path, config), what="the token is refused")
    assert "credentials of this agent are not accepted" in done
    assert "Make a new token" in done
    assert token not in done

    async def scenario() -> None:
        engine = KubernetesEngine(
            connect(ClusterSettings(kubeconfig=kubeconfig, namespace=namespace)), tmp_path, agent="test"
        )
        try:
            with pytest.raises(CannotPlace, match="credentials of this agent are not accepted"):
                await engine.leftovers()
        finally:
            await engine.close()

    asyncio.run(scenario())


def refused(folder: Path, config: Any) -> str | None:
    done = muster(folder, "check", config=config)
    return done.stderr if done.returncode == 3 else None


def test_a_cluster_that_does_not_answer_is_named(tmp_path: Path, cluster: Cluster) -> None:
    content = json.loads(cluster.kubeconfig.read_text())
    content["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(content))
    done = muster(tmp_path, "check", config={"kubernetes": {"kubeconfig": str(path)}})
    assert done.returncode == 3
    assert "The cluster at https://127.0.0.1:9 does not answer" in done.stderr
