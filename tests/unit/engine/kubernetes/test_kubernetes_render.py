"""A run becomes objects of a cluster: what is filled in, what is added, what stands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from clusters import IMAGE, expanded, job, work
from muster.domain.errors import BadCommand, BadInput, BadTemplate, BadTraining, MusterError
from muster.domain.provenance import Origins, pointers, uniform
from muster.domain.resources import Resources
from muster.domain.training import Launcher, Training
from muster.engine.kubernetes.names import secret_name
from muster.engine.kubernetes.render import render, trace

SAFE = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
SHM = {"name": "muster-shm", "mountPath": "/dev/shm"}


def manifest(config: Mapping[str, Any], *command: str, **more: Any) -> Any:
    return render(work(config, *command, **more)).manifest


def pod(rendered: Any) -> Any:
    return rendered["spec"]["template"]["spec"]


def env_of(container: Mapping[str, Any]) -> dict[str, Any]:
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in container["env"]}


def test_the_least_config_becomes_a_whole_job() -> None:
    made = manifest(job(), "train.py", "--epochs", "3", inputs={"lr": 0.1})
    labels = {
        "muster.dev/run-id": "r123456789",
        "muster.dev/attempt": "2",
        "muster.dev/queue": "gpu",
        "muster.dev/project": "proj",
        "muster.dev/entity": "team",
    }
    notes = {"muster.dev/run-name": "my-run", "muster.dev/author": "ann"}
    (container,) = pod(made)["containers"]
    env = env_of(container)
    assert list(made) == ["apiVersion", "kind", "metadata", "spec"]
    assert (made["apiVersion"], made["kind"]) == ("batch/v1", "Job")
    assert made["metadata"] == {"name": "muster-r123456789-2", "labels": labels, "annotations": notes}
    assert made["spec"]["template"]["metadata"] == {"labels": labels, "annotations": notes}
    assert (made["spec"]["backoffLimit"], made["spec"]["ttlSecondsAfterFinished"]) == (0, 86400)
    assert pod(made)["restartPolicy"] == "Never"
    assert pod(made)["volumes"] == [
        {"name": "muster-shm", "emptyDir": {"medium": "Memory"}},
        {"name": "muster-output", "emptyDir": {}},
    ]
    assert container["name"] == "launch0"
    assert container["image"] == IMAGE
    assert container["command"] == ["python", "train.py", "--epochs", "3"]
    assert container["securityContext"] == SAFE
    assert container["volumeMounts"] == [SHM, {"name": "muster-output", "mountPath": "/muster/output"}]
    assert json.loads(env.pop("MUSTER_CONFIG")) == {"lr": 0.1}
    assert env == {
        "MUSTER_RUN_ID": "r123456789",
        "MUSTER_RUN_NAME": "my-run",
        "MUSTER_PROJECT": "proj",
        "MUSTER_ENTITY": "team",
        "MUSTER_QUEUE": "gpu",
        "MUSTER_ATTEMPT": "2",
        "MUSTER_OUTPUT_DIR": "/muster/output",
        "MUSTER_URL": {"secretKeyRef": {"name": "muster-r123456789-2", "key": "MUSTER_URL"}},
        "MUSTER_API_KEY": {"secretKeyRef": {"name": "muster-r123456789-2", "key": "MUSTER_API_KEY"}},
    }


def test_what_the_owner_wrote_stands() -> None:
    mine = {
        "name": "main",
        "image": "mine:${attempt}",
        "securityContext": {"allowPrivilegeEscalation": True, "capabilities": {"add": ["NET_ADMIN"]}},
        "volumeMounts": [{"name": "big", "mountPath": "/dev/shm/"}],
    }
    config = {
        "metadata": {"name": "fixed", "namespace": "lab", "labels": {"team": "vision"}},
        **job(mine, pod={"restartPolicy": "OnFailure"}, backoffLimit=3, ttlSecondsAfterFinished=60),
    }
    made = manifest(config, image=None)
    container = pod(made)["containers"][0]
    assert made["metadata"]["name"] == "fixed"
    assert made["metadata"]["labels"]["team"] == "vision"
    assert (made["spec"]["backoffLimit"], made["spec"]["ttlSecondsAfterFinished"]) == (3, 60)
    assert pod(made)["restartPolicy"] == "OnFailure"
    assert "muster-shm" not in {volume["name"] for volume in pod(made)["volumes"]}
    assert container["name"] == "main"
    assert container["image"] == "mine:2"
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": True,
        "capabilities": {"add": ["NET_ADMIN"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert "command" not in container


CLAIM = {"name": "kept", "persistentVolumeClaim": {"claimName": "kept"}}


@pytest.mark.parametrize(
    ("container", "volume", "folder"),
    [
        ({"env": [{"name": "MUSTER_OUTPUT_DIR", "value": "/kept/${run_id}"}]}, CLAIM, "/kept/r123456789"),
        ({"volumeMounts": [{"name": "kept", "mountPath": "/muster/output/"}]}, CLAIM, "/muster/output"),
        ({}, {**CLAIM, "name": "muster-output"}, "/muster/output"),
    ],
    ids=["named", "mounted", "volume"],
)
def test_an_owner_says_where_outputs_are_kept(
    container: dict[str, Any], volume: dict[str, Any], folder: str
) -> None:
    made = manifest(job(container, pod={"volumes": [volume]}))
    assert env_of(pod(made)["containers"][0])["MUSTER_OUTPUT_DIR"] == folder
    assert [one for one in pod(made)["volumes"] if one["name"] != "muster-shm"] == [volume]


def test_every_container_and_init_container_is_secured() -> None:
    made = manifest(
        job(
            {}, {"image": "side"}, pod={"initContainers": [{"image": "prepare"}, {"image": "p", "name": "x"}]}
        )
    )
    both = [*pod(made)["containers"], *pod(made)["initContainers"]]
    assert [one["name"] for one in both] == ["launch0", "launch1", "init0", "x"]
    assert all(one["securityContext"] == SAFE for one in both)


@pytest.mark.parametrize(
    ("context", "wanted"),
    [
        ({"privileged": True}, {"privileged": True}),
        ({"capabilities": {}}, {**SAFE, "capabilities": {}}),
        (
            {"capabilities": {"add": ["SYS_ADMIN"]}},
            {"capabilities": {"add": ["SYS_ADMIN"]}, "seccompProfile": SAFE["seccompProfile"]},
        ),
        ({"runAsUser": 7}, {**SAFE, "runAsUser": 7}),
    ],
)
def test_nothing_is_added_that_a_cluster_would_refuse(context: Any, wanted: Any) -> None:
    assert pod(manifest(job({"securityContext": context})))["containers"][0]["securityContext"] == wanted


def test_a_profile_of_the_pod_is_not_repeated_in_its_containers() -> None:
    whole = {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "x"}}}
    made = manifest(job(pod=whole))
    assert "seccompProfile" not in pod(made)["containers"][0]["securityContext"]


def test_a_windows_pod_is_left_alone() -> None:
    made = manifest(job(pod={"os": {"name": "windows"}}))
    assert "securityContext" not in pod(made)["containers"][0]


def test_muster_names_itself_in_all_containers_and_the_launch_only_where_its_image_runs() -> None:
    owner = [{"name": "MUSTER_RUN_ID", "value": "fake"}, {"name": "TOKEN", "valueFrom": {"x": 1}}]
    made = manifest(
        job({"env": owner}, {"image": "sidecar", "env": owner}, {"image": "${image_uri}"}),
        env={"TOKEN": "launch", "HTTP_PROXY": "p"},
    )
    main, sidecar, twin = (env_of(one) for one in pod(made)["containers"])
    assert (main["TOKEN"], main["HTTP_PROXY"], main["MUSTER_RUN_ID"]) == ("launch", "p", "r123456789")
    assert (sidecar["TOKEN"], sidecar["MUSTER_RUN_ID"]) == ({"x": 1}, "r123456789")
    assert "HTTP_PROXY" not in sidecar
    assert twin["HTTP_PROXY"] == "p"


def test_secrets_are_references_where_the_program_runs_and_an_owner_may_set_others() -> None:
    mine = {"name": "MUSTER_URL", "value": "http://elsewhere"}
    made = manifest(job({"env": [mine]}, {"image": "sidecar"}, {"image": "${image_uri}"}))
    main, sidecar, twin = (env_of(one) for one in pod(made)["containers"])
    ref = {"secretKeyRef": {"name": secret_name(work(job()).key), "key": "MUSTER_API_KEY"}}
    assert (main["MUSTER_URL"], main["MUSTER_API_KEY"]) == ("http://elsewhere", ref)
    assert not {"MUSTER_URL", "MUSTER_API_KEY"} & set(sidecar)
    assert twin["MUSTER_API_KEY"] == ref


def test_a_trainer_that_is_described_elsewhere_gets_its_secrets_too() -> None:
    made = manifest(
        {"kind": "TrainJob", "apiVersion": "trainer.kubeflow.org/v1alpha1", "spec": {"trainer": {}}}, "true"
    )
    assert "secretKeyRef" in env_of(made["spec"]["trainer"])["MUSTER_API_KEY"]


def test_what_a_launch_brings_is_text_for_kubernetes_too() -> None:
    # Kubernetes reads `$(NAME)` and `$$` in commands and environments: each must come out as it went in.
    texts = ["$(MUSTER_RUN_ID)", "$$", "$$(A)", "$HOME", "${run_id}", "{{x}}", "a$", "$(", "$$$(B)"]
    made = manifest(job(), "echo", *texts, env={"A": "$(HOME) $$"}, inputs={"a": "$(X)"})
    container = pod(made)["containers"][0]
    assert [expanded(word) for word in container["command"]] == ["echo", *texts]
    assert expanded(env_of(container)["A"]) == "$(HOME) $$"
    assert json.loads(expanded(env_of(container)["MUSTER_CONFIG"])) == {"a": "$(X)"}


@pytest.mark.parametrize(
    ("container", "words", "field", "wanted"),
    [
        ({}, ["nvidia-smi", "-L"], "command", ["nvidia-smi", "-L"]),
        ({}, ["train.py"], "command", ["python", "train.py"]),
        ({"command": ["nice", "-n", "5"]}, ["a", "b"], "args", ["a", "b"]),
    ],
)
def test_a_command_goes_where_the_owner_left_room(
    container: dict[str, Any], words: list[str], field: str, wanted: list[str]
) -> None:
    made = pod(manifest(job(dict(container)), *words))["containers"][0]
    assert made[field] == wanted
    assert made.get("command", wanted) == container.get("command", wanted)


BAD: list[tuple[dict[str, Any], dict[str, Any], type[MusterError], str]] = [
    (job(), {"image": None}, BadInput, "names none"),
    (job({"image": "pinned"}), {}, BadInput, "no place for 'acme/train:main'"),
    (job({"args": ["--x"]}), {"command": ("a",)}, BadCommand, "says itself what container 'launch0' runs"),
    (job(), {"training": Training(nodes=2)}, BadTraining, "says itself how many pods"),
    (job(), {"training": Training(procs_per_node=2)}, BadTraining, "says itself how many pods"),
    (job(), {"training": Training(max_restarts=1)}, BadTraining, "says itself how its program is started"),
    (job(), {"training": Training(launcher=Launcher.TORCHRUN)}, BadTraining, "how its program is started"),
    (
        job({"resources": {"limits": {"memory": "4Gi"}}}),
        {"training": Training(shm="5Gi")},
        BadTraining,
        "shm=5Gi is more than the memory of each node, 4Gi",
    ),
    (
        job({"volumeMounts": [{"name": "big", "mountPath": "/dev/shm"}]}),
        {"training": Training(shm="1Gi")},
        BadTraining,
        "mounts its own /dev/shm",
    ),
    ({"kind": "Dance", "apiVersion": "a/v1"}, {"command": ("a",), "image": None}, BadCommand, "no container"),
]


@pytest.mark.parametrize(("config", "more", "kind", "told"), BAD)
def test_a_launch_that_cannot_be_is_refused(
    config: dict[str, Any], more: dict[str, Any], kind: type[MusterError], told: str
) -> None:
    with pytest.raises(kind, match=told):
        manifest(config, *more.pop("command", ()), **more)


def test_a_training_of_one_process_is_a_plain_run() -> None:
    assert manifest(job(), training=Training()) == manifest(job())
    volume, _ = pod(manifest(job(), training=Training(shm="2Gi")))["volumes"]
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": "2Gi"}


GPUS = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 2, "cpu": "500m"}}}]}}


@pytest.mark.parametrize(
    ("config", "replicas", "gpus"),
    [
        ({"kind": "Pod", **GPUS}, 1, 2),
        ({"spec": {"template": GPUS}}, 1, 2),
        ({"spec": {"template": GPUS, "parallelism": 3}}, 3, 6),
        ({"spec": {"template": GPUS, "parallelism": 5, "completions": 2}}, 2, 4),
        ({"spec": {"template": GPUS, "parallelism": 2, "completions": 10}}, 10, 4),
        ({"spec": {"template": GPUS, "completions": 3}}, 3, 2),
        (
            {
                "kind": "Job",
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "spec": {"tasks": [{"replicas": 1, "template": GPUS}, {"replicas": 3, "template": GPUS}]},
            },
            4,
            8,
        ),
        (
            {
                "kind": "PyTorchJob",
                "spec": {
                    "pytorchReplicaSpecs": {
                        "Master": {"template": GPUS},
                        "Worker": {"replicas": 2, "template": GPUS},
                    }
                },
            },
            3,
            6,
        ),
        (
            {
                "kind": "PyTorchTrainingJob",
                "spec": {"replicaSpecs": [{"type": "node", "replicas": 2, "template": GPUS}]},
            },
            2,
            4,
        ),
        (
            {
                "kind": "JobSet",
                "spec": {
                    "replicatedJobs": [
                        {"replicas": 2, "template": {"spec": {"parallelism": 2, "template": GPUS}}}
                    ]
                },
            },
            4,
            8,
        ),
        (
            {
                "kind": "JobSet",
                "spec": {
                    "replicatedJobs": [
                        {
                            "replicas": 2,
                            "template": {"spec": {"parallelism": 2, "completions": 3, "template": GPUS}},
                        }
                    ]
                },
            },
            6,
            8,
        ),
        (
            {
                "kind": "TrainJob",
                "apiVersion": "trainer.kubeflow.org/v1alpha1",
                "spec": {"trainer": {"numNodes": 3, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 1}}}},
            },
            3,
            3,
        ),
        (
            {
                "kind": "Odd",
                "apiVersion": "x/v1",
                "spec": {"deep": [{"down": {"template": GPUS, "replicas": 2}}]},
            },
            2,
            4,
        ),
    ],
    ids=lambda value: value.get("kind", "Job") if isinstance(value, dict) else None,
)
def test_pods_are_found_and_counted_wherever_a_kind_has_them(
    config: dict[str, Any], replicas: int, gpus: int
) -> None:
    rendered = render(work(config, "sleep", "1"))
    text = json.dumps(rendered.manifest)
    assert (rendered.replicas, rendered.resources.gpus) == (replicas, gpus)
    assert IMAGE in text
    assert '["sleep", "1"]' in text
    assert "MUSTER_RUN_ID" in text


def test_resources_are_those_of_all_pods_by_requests_then_limits_with_the_biggest_init_container() -> None:
    config = job(
        {"resources": {"limits": {"cpu": 4, "memory": "2Gi"}, "requests": {"cpu": "500m"}}},
        {"image": "x", "resources": {"limits": {"amd.com/gpu": "1", "memory": "1Gi"}}},
        pod={"initContainers": [{"image": "x", "resources": {"requests": {"cpu": 2}}}]},
        parallelism=2,
    )
    assert render(work(config)).resources == Resources(millicpus=2000, memory=3 * 2**30, gpus=1) * 2


def test_the_kinds_of_kubeflow_and_t9k_get_their_policy_where_they_look_for_it() -> None:
    replica: dict[str, Any] = {"Master": {"template": {"spec": {"containers": [{}]}}}}
    made = manifest({"kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": replica}})
    assert made["apiVersion"] == "kubeflow.org/v1"
    assert made["spec"]["runPolicy"] == {"backoffLimit": 0, "ttlSecondsAfterFinished": 86400}
    master = made["spec"]["pytorchReplicaSpecs"]["Master"]
    assert master["restartPolicy"] == "Never"
    assert "restartPolicy" not in master["template"]["spec"]
    assert master["template"]["spec"]["containers"][0]["name"] == "pytorch"


def test_t9k_starts_torchrun_itself_so_a_command_becomes_arguments() -> None:
    spec = {
        "torchrunConfig": {"enabled": True},
        "replicaSpecs": [
            {
                "template": {
                    "spec": {"containers": [{"image": "side"}, {"name": "python", "image": "${image_uri}"}]}
                }
            }
        ],
    }
    made = manifest({"kind": "PyTorchTrainingJob", "spec": spec}, "train.py", "--x")
    side, main = made["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"]
    assert main["args"] == ["train.py", "--x"]
    assert "command" not in main
    assert "args" not in side


def test_an_unknown_kind_gets_what_is_right_for_every_pod_and_no_field_it_may_not_have() -> None:
    made = manifest(
        {"kind": "Odd", "apiVersion": "x/v1", "spec": {"template": {"spec": {"containers": [{}]}}}}
    )
    assert set(made["spec"]) == {"template"}
    assert set(pod(made)) == {"containers", "volumes"}
    assert pod(made)["containers"][0]["securityContext"] == SAFE


def test_several_objects_stay_together_and_all_carry_the_run() -> None:
    service = {"kind": "Service", "spec": {"selector": {"run": "${run_id}"}}}
    tensorboard = {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "tb", "image": "tb"}]}}},
    }
    rendered = render(work({"kind": "List", "apiVersion": "v1", "items": [service, job(), tensorboard]}, "a"))
    made: Any = rendered.manifest
    first, workload, last = made["items"]
    assert (made["apiVersion"], made["kind"]) == ("v1", "List")
    assert rendered.replicas == 1
    assert [item["metadata"]["name"] for item in (first, workload, last)] == [
        "muster-r123456789-2",
        "muster-r123456789-2",
        "muster-r123456789-2-1",
    ]
    assert all(item["metadata"]["labels"]["muster.dev/attempt"] == "2" for item in made["items"])
    container = pod(last)["containers"][0]
    assert container["securityContext"] == SAFE
    assert "command" not in container
    assert "env" not in container
    assert "restartPolicy" not in pod(last)


def test_a_generated_name_becomes_one_that_can_be_found_again() -> None:
    made = manifest({"metadata": {"generateName": "train-${author}-"}, **job()})
    assert made["metadata"]["name"] == "train-ann-r123456789-2"
    assert "generateName" not in made["metadata"]


def test_a_macro_in_a_name_or_label_is_made_legal_there_and_stands_elsewhere() -> None:
    config = {
        "metadata": {
            "name": "x-${run_name}",
            "labels": {"who": "${author}", "own": "not legal"},
            "annotations": {"who": "${author}"},
        },
        **job({"env": [{"name": "WHO", "value": "${author}"}]}, pod={"subdomain": "${run_name}"}),
    }
    made = manifest(config, run_name="My_Run", author="Ann Lee")
    assert made["metadata"]["name"].startswith("x-my-run-")
    assert made["metadata"]["labels"]["who"].startswith("Ann-Lee-")
    assert made["metadata"]["labels"]["own"] == "not legal"
    assert made["metadata"]["annotations"]["who"] == "Ann Lee"
    assert env_of(pod(made)["containers"][0])["WHO"] == "Ann Lee"
    assert pod(made)["subdomain"].startswith("my-run-")


def test_macros_only_the_agent_knows_stay_and_doubled_dollars_are_text() -> None:
    config = {"metadata": {"annotations": {"a": "${TEAM_BUCKET}", "b": "$${run_id}"}}, **job()}
    made = manifest(config)
    assert made["metadata"]["annotations"]["a"] == "${TEAM_BUCKET}"
    assert made["metadata"]["annotations"]["b"] == "${run_id}"


def test_a_preview_is_what_a_launch_renders() -> None:
    given = work(job({}, {"image": "x"}), "train.py", env={"A": "b"})
    told = uniform(given.config, "queue v1")
    rendered, tree = trace(given, Origins(config=told, image="job", env={"A": "job"}))
    sources = pointers(tree)
    base = "/spec/template/spec/containers/0"
    assert rendered == render(given)
    assert sources[f"{base}/image"] == "job"
    assert (sources[f"{base}/command/0"], sources[f"{base}/command/1"]) == ("injected", "launch")
    assert (sources[f"{base}/env/0/value"], sources[f"{base}/env/1/value"]) == ("job", "injected")
    assert sources["/spec/backoffLimit"] == "injected"


def test_what_takes_the_place_of_what_was_taken_out_is_not_credited_to_it() -> None:
    """What is dropped on the way, such as `valueFrom`, must not give its id and its source to a new node."""

    def item(name: str) -> dict[str, Any]:
        return {"name": name, "valueFrom": {"many": [["a"] for _ in range(20)]}}

    names = [f"A{number}" for number in range(20)]
    first = job({"env": [item(name) for name in names]})
    beside = [{"apiVersion": "apps/v1", "kind": "Deployment", **job({"image": "y"})} for _ in range(5)]
    given = work({"kind": "List", "items": [first, *beside]}, env=dict.fromkeys(names, "b"))
    rendered, tree = trace(given, Origins(config=uniform(given.config, "queue v1")))
    assert rendered == render(given)
    told = pointers(tree)
    ours = [place for place in told if "securityContext" in place]
    assert len(ours) > 10
    assert {told[place] for place in ours} == {"injected"}


def test_a_name_that_is_a_number_is_refused() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "None"}}
    both = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [{**job({"image": "x"}), "metadata": {"name": 7}}, service],
    }
    with pytest.raises(BadTemplate, match=r"metadata\.name is 7, which is not text"):
        render(work(both))
