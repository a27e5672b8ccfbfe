"""The cluster that the other tests here stand on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster import images
from cluster.cluster import GPUS, Cluster
from cluster.errors import ClusterError
from cluster.nodes import SELECTOR, TOLERATION
from cluster.traces import namespace_of, processes_of, traces
from installation import until


def pod(name: str, *command: str, image: str = images.BUSYBOX, gpus: int = 0, **spec: Any) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": gpus} if gpus else {}
    container = {"name": "main", "image": image, "command": command, "resources": {"limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            **spec,
        },
    }


def job(name: str, *command: str, pods: int, image: str = images.BUSYBOX) -> list[dict[str, Any]]:
    """An Indexed Job and its headless Service: pod `i` is `NAME-i.NAME`."""
    template = {"spec": pod("", *command, image=image, subdomain=name)["spec"]}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"job-name": name}},
        },
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {
                "completionMode": "Indexed",
                "completions": pods,
                "parallelism": pods,
                "template": template,
            },
        },
    ]


def phase(cluster: Cluster, namespace: str, name: str) -> str:
    answer = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    return str(answer.raise_for_status().json()["status"]["phase"])


def log(cluster: Cluster, namespace: str, name: str) -> str:
    return cluster.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}/log").raise_for_status().text


def run(cluster: Cluster, namespace: str, what: dict[str, Any]) -> str:
    """Its log, once it has ended well."""
    cluster.apply(what, namespace=namespace)
    name = what["metadata"]["name"]
    ended = until(lambda: {"Succeeded", "Failed"} & {phase(cluster, namespace, name)}, what=f"{name} ends")
    said = log(cluster, namespace, name)
    assert ended == {"Succeeded"}, said
    return said


def test_a_pod_runs_and_its_log_is_read_through_the_api_server(cluster: Cluster, namespace: str) -> None:
    assert run(cluster, namespace, pod("hello", "echo", "hello")) == "hello\n"


def test_a_pod_runs_the_python_of_this_machine(cluster: Cluster, namespace: str) -> None:
    program = "import json, sqlite3, ssl, sys; print(*sys.version_info[:2])"
    said = run(cluster, namespace, pod("python", "python3", "-c", program, image=images.PYTHON))
    assert said.split() == [str(part) for part in sys.version_info[:2]]


def test_a_virtual_environment_works_in_a_pod_at_its_own_path(cluster: Cluster, namespace: str) -> None:
    environment = sys.prefix
    mounted = pod(
        "environment",
        *(f"{environment}/bin/python", "-c", "import pydantic_core; print('found')"),
        image=images.PYTHON,
        volumes=[{"name": "environment", "hostPath": {"path": environment}}],
    )
    mounted["spec"]["containers"][0]["volumeMounts"] = [{"name": "environment", "mountPath": environment}]
    assert run(cluster, namespace, mounted) == "found\n"


def test_pods_of_a_job_find_each_other_by_name(cluster: Cluster, namespace: str) -> None:
    meet = """
        if [ $JOB_COMPLETION_INDEX = 0 ]; then echo met | nc -l -p 5000
        else until nc meeting-0.meeting 5000; do sleep 0.2; done; fi
    """
    cluster.apply(*job("meeting", "sh", "-c", meet, pods=2), namespace=namespace)
    cluster.kubectl(
        "wait", f"--namespace={namespace}", "--for=condition=complete", "job/meeting", "--timeout=60s"
    )
    said = cluster.kubectl(
        "logs", f"--namespace={namespace}", "--selector=batch.kubernetes.io/job-completion-index=1"
    )
    assert said.splitlines()[-1] == "met"


def test_a_pod_reaches_a_server_on_this_machine(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    (tmp_path / "greeting").write_text("from outside\n")
    serve = [
        sys.executable,
        "-u",
        "-m",
        "http.server",
        "--bind",
        cluster.host_address,
        "--directory",
        str(tmp_path),
        "0",
    ]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            port = server.stdout.readline().split()[5]
            url = f"http://{cluster.host_address}:{port}/greeting"
            assert run(cluster, namespace, pod("visitor", "wget", "-q", "-O-", url)) == "from outside\n"
        finally:
            server.terminate()


def test_a_service_account_in_a_pod_reaches_the_api_server(cluster: Cluster, namespace: str) -> None:
    ask = """if True:
        import os, ssl, urllib.request
        here = "/var/run/secrets/kubernetes.io/serviceaccount/"
        url = "https://%(KUBERNETES_SERVICE_HOST)s:%(KUBERNETES_SERVICE_PORT)s/api" % os.environ
        token = "Bearer " + open(here + "token").read()
        request = urllib.request.Request(url, headers={"Authorization": token})
        context = ssl.create_default_context(cafile=here + "ca.crt")
        print(urllib.request.urlopen(request, context=context).status)
    """
    assert run(cluster, namespace, pod("client", "python3", "-c", ask, image=images.PYTHON)) == "200\n"


def test_gpus_are_counted(cluster: Cluster, namespace: str) -> None:
    cluster.apply(pod("fits", "true", gpus=1), pod("too-many", "true", gpus=GPUS + 1), namespace=namespace)
    until(lambda: phase(cluster, namespace, "fits") == "Succeeded", what="the pod with one GPU runs")
    answer = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods/too-many").json()
    [condition] = answer["status"]["conditions"]
    assert answer["status"]["phase"] == "Pending"
    assert "Insufficient nvidia.com/gpu" in condition["message"]


def test_simulated_nodes_take_pods_that_tolerate_them(cluster: Cluster, namespace: str) -> None:
    nodes = cluster.add_nodes(3, gpus=8)
    try:
        there: dict[str, Any] = {"nodeSelector": SELECTOR, "tolerations": [TOLERATION]}
        cluster.apply(*(pod(f"pod-{i}", "train", gpus=8, **there) for i in range(3)), namespace=namespace)
        for i in range(3):
            until(lambda name=f"pod-{i}": phase(cluster, namespace, name) == "Running", what=f"pod-{i} runs")  # type: ignore[misc]
        pods = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods").json()["items"]
        assert {one["spec"]["nodeName"] for one in pods} == set(nodes)
    finally:
        cluster.remove_nodes(nodes)


def test_simulated_pods_of_a_job_end_as_their_annotations_say(cluster: Cluster, namespace: str) -> None:
    nodes = cluster.add_nodes(1)
    try:
        [_, fails] = job("fails", "train", pods=1)
        fails["spec"] |= {"backoffLimit": 0}
        fails["spec"]["template"]["metadata"] = {
            "annotations": {"muster.test/exit-code": "3", "muster.test/runs-for": "100ms"}
        }
        fails["spec"]["template"]["spec"] |= {"nodeSelector": SELECTOR, "tolerations": [TOLERATION]}
        cluster.apply(fails, namespace=namespace)
        cluster.kubectl(
            "wait", f"--namespace={namespace}", "--for=condition=failed", "job/fails", "--timeout=30s"
        )
        [one] = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods").json()["items"]
        assert one["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    finally:
        cluster.remove_nodes(nodes)


@pytest.mark.slow
def test_the_metrics_api_says_what_a_pod_uses(cluster: Cluster, namespace: str) -> None:
    cluster.apply(pod("busy", "sh", "-c", "while true; do true; done"), namespace=namespace)
    cluster.start_metrics()
    busy = f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods/busy"
    until(lambda: cluster.api.get(busy).status_code == 200, seconds=60, what="the pod is measured")
    [container] = cluster.api.get(busy).json()["containers"]
    assert set(container["usage"]) == {"cpu", "memory"}


def test_pod_security_is_enforced_where_a_namespace_asks_for_it(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    with pytest.raises(ClusterError, match="violates PodSecurity"):
        cluster.apply(pod("careless", "true"), namespace=namespace)


def test_an_account_may_do_what_its_rules_say_and_its_requests_are_counted(
    cluster: Cluster, namespace: str
) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    kubeconfig = cluster.kubeconfig_for("reader", namespace, rules)

    cluster.kubectl("get", "pods", kubeconfig=kubeconfig)
    with pytest.raises(ClusterError, match="cannot list resource"):
        cluster.kubectl("get", "secrets", kubeconfig=kubeconfig)

    asked = cluster.requests(user=f"system:serviceaccount:{namespace}:reader", user_agent="kubectl")
    about = [(one.verb, one.resource, one.code) for one in asked if one.resource]
    assert about == [("list", "pods", 200), ("list", "secrets", 403)]


def test_the_api_server_comes_back_with_all_that_it_knew(cluster: Cluster, namespace: str) -> None:
    cluster.apply(pod("stays", "sleep", "1000"), namespace=namespace)
    until(lambda: phase(cluster, namespace, "stays") == "Running", what="the pod runs")
    cluster.restart_apiserver()
    assert phase(cluster, namespace, "stays") == "Running"
    assert run(cluster, namespace, pod("after", "echo", "after")) == "after\n"


@pytest.mark.slow
def test_a_lost_node_is_seen_and_comes_back_with_its_gpus(cluster: Cluster, namespace: str) -> None:
    cluster.apply(pod("there", "sleep", "1000", terminationGracePeriodSeconds=1), namespace=namespace)
    until(lambda: phase(cluster, namespace, "there") == "Running", what="the pod runs")

    cluster.stop_kubelet()
    try:
        there = f"/api/v1/namespaces/{namespace}/pods/there"
        until(
            lambda: "deletionTimestamp" in cluster.api.get(there).json()["metadata"],
            seconds=60,
            what="the pod of the lost node is evicted",
        )
    finally:
        cluster.start_kubelet()

    def heartbeat() -> str:
        return str(cluster.api.get(node).json()["status"]["conditions"][0]["lastHeartbeatTime"])

    node = f"/api/v1/nodes/{cluster.node}"
    until(lambda: cluster.api.get(there).status_code == 404, what="the pod goes")
    first = heartbeat()
    until(lambda: heartbeat() != first, what="the kubelet has written its status again")
    status = cluster.api.get(node).json()["status"]
    assert status["capacity"]["nvidia.com/gpu"] == status["allocatable"]["nvidia.com/gpu"] == str(GPUS)


@pytest.mark.slow
def test_a_second_cluster_runs_beside_it_and_leaves_no_trace(cluster: Cluster) -> None:
    with Cluster.up() as beside:
        beside.apply(pod("there", "sleep", "1000"))
        until(lambda: phase(beside, "default", "there") == "Running", what="the pod runs")
        inside = namespace_of(beside.room.pid)
        assert len(processes_of(inside)) > 8

    assert processes_of(inside) == set()
    assert traces(beside.folder) == []
    assert cluster.api.get("/readyz").status_code == 200
