"""A run becomes the processes to start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain.errors import BadCommand, BadTraining
from muster.domain.observation import AttemptKey
from muster.domain.resources import Resources
from muster.domain.template import fill
from muster.domain.training import Launcher, Training
from muster.engine.port import Rendered, Work
from muster.engine.process.render import MACROS, render

KNOWN = {name: f"<{name}>" for name in MACROS}
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])) | st.sampled_from(
    ["${workdir}", "$${workdir}", "$$${devices}", "${HOME}", "$", "${", "{{x}}", "a${master_port}b"]
)


def work(*command: str, config: Mapping[str, Any] | None = None, **more: Any) -> Work:
    return Work(
        key=AttemptKey(run_id="r123456789", attempt=2),
        run_name=more.pop("run_name", "my run"),
        project="proj",
        entity="team",
        queue="local",
        author="ann",
        config=config or {},
        command=command,
        **more,
    )


def only(rendered: Rendered) -> Mapping[str, Any]:
    (replica,) = rendered.manifest["replicas"]
    found: Mapping[str, Any] = replica
    return found


def test_a_plain_command_becomes_one_process() -> None:
    rendered = render(work("echo", "hello"))
    assert rendered.engine == "process"
    assert rendered.replicas == 1
    assert rendered.resources == Resources()
    assert rendered.manifest == {
        "engine": "process",
        "stop_grace": 30,
        "python": "${python}",
        "replicas": [
            {
                "rank": 0,
                "command": ["echo", "hello"],
                "env": {
                    "PYTHONUNBUFFERED": "1",
                    "MUSTER_RUN_ID": "r123456789",
                    "MUSTER_RUN_NAME": "my run",
                    "MUSTER_PROJECT": "proj",
                    "MUSTER_ENTITY": "team",
                    "MUSTER_QUEUE": "local",
                    "MUSTER_ATTEMPT": "2",
                    "MUSTER_CONFIG": "{}",
                    "MUSTER_OUTPUT_DIR": "${output_dir}",
                    "CUDA_VISIBLE_DEVICES": "${devices}",
                },
                "workdir": "${workdir}",
                "resources": {"cpus": "0", "memory": "0", "gpus": 0},
            }
        ],
    }


def test_the_manifest_is_plain_json() -> None:
    rendered = render(work("train.py", config={"resources": {"memory": "2Gi"}}, training=Training(nodes=2)))
    assert json.loads(json.dumps(rendered.manifest)) == rendered.manifest


@pytest.mark.parametrize(
    ("python", "command", "rendered"),
    [
        (None, ("train.py", "--lr", "1"), ["${python}", "train.py", "--lr", "1"]),
        ("/opt/python", ("train.py",), ["/opt/python", "train.py"]),
        ("/opt/python", ("./run.sh",), ["./run.sh"]),
    ],
)
def test_a_script_is_run_with_python(
    python: str | None, command: tuple[str, ...], rendered: list[str]
) -> None:
    assert only(render(work(*command, config={"python": python})))["command"] == rendered


def test_a_training_run_starts_with_the_launcher_on_every_node() -> None:
    rendered = render(
        work(
            "train.py",
            config={"resources": {"cpus": 2, "memory": "1Gi", "gpus": 4}},
            training=Training(nodes=2, procs_per_node="gpu", max_restarts=1, rdzv_timeout=60),
        )
    )
    assert rendered.replicas == 2
    assert rendered.resources == Resources(millicpus=4000, memory=2 * 2**30, gpus=8)
    for rank, replica in enumerate(rendered.manifest["replicas"]):
        assert replica["rank"] == rank
        assert replica["command"] == ["sh", "${launcher}", "train.py"]
        assert replica["resources"] == {"cpus": "2", "memory": "1Gi", "gpus": 4}
        expected = {
            "NNODES": "2",
            "NODE_RANK": str(rank),
            "NPROC_PER_NODE": "4",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "${master_port}",
            "MUSTER_LAUNCHER": "torchrun",
            "MUSTER_MAX_RESTARTS": "1",
            "MUSTER_RDZV_TIMEOUT": "60",
            "MUSTER_ERROR_DIR": "${error_dir}",
        }
        assert replica["env"].items() >= expected.items()


def test_which_launcher_is_said() -> None:
    for training, command, launcher in [
        (Training(), "train.py", "torchrun"),
        (Training(), "./train", "plain"),
        (Training(launcher=Launcher.PLAIN), "train.py", "plain"),
    ]:
        assert only(render(work(command, training=training)))["env"]["MUSTER_LAUNCHER"] == launcher


def test_a_process_a_gpu_needs_gpus() -> None:
    with pytest.raises(BadTraining):
        render(work("train.py", training=Training(procs_per_node="gpu")))


def test_the_launch_overrides_the_queue_and_muster_both() -> None:
    env = only(
        render(
            work(
                "true",
                config={"env": {"A": "queue", "B": "queue", "MUSTER_RUN_ID": "forged"}},
                env={"B": "launch", "PYTHONUNBUFFERED": "0", "CUDA_VISIBLE_DEVICES": "7"},
            )
        )
    )["env"]
    assert (env["A"], env["B"], env["PYTHONUNBUFFERED"]) == ("queue", "launch", "0")
    assert env["MUSTER_RUN_ID"] == "r123456789"
    assert env["CUDA_VISIBLE_DEVICES"] == "${devices}"


@pytest.mark.parametrize(
    ("workdir", "rendered"),
    [
        (None, "${workdir}"),
        ("src/model", "${workdir}/src/model"),
        ("/data/${run_id}", "/data/r123456789"),
        ("${output_dir}", "${output_dir}"),
    ],
)
def test_the_queue_may_choose_the_working_directory(workdir: str | None, rendered: str) -> None:
    assert only(render(work("true", config={"workdir": workdir})))["workdir"] == rendered


def test_the_queue_may_use_the_runs_macros() -> None:
    config = {"env": {"WHO": "${author} of ${entity_name}/${project_name}: ${run_name} ${attempt}"}}
    replica = only(render(work("true", config=config, run_name="${workdir}")))
    assert fill(replica["env"], KNOWN)["WHO"] == "ann of team/proj: ${workdir} 2"


@pytest.mark.parametrize("command", [(), ("",)])
def test_no_command_is_refused(command: tuple[str, ...]) -> None:
    with pytest.raises(BadCommand):
        render(work(*command))


@given(words=st.lists(TEXT), value=TEXT, name=TEXT, inputs=st.dictionaries(TEXT, TEXT))
def test_what_the_launch_brought_reaches_the_program_as_it_was_typed(
    words: list[str], value: str, name: str, inputs: dict[str, str]
) -> None:
    rendered = render(work("echo", *words, env={"X": value}, run_name=name, inputs=inputs))
    assert rendered.macros <= MACROS
    replica = fill(only(rendered), KNOWN)
    assert replica["command"] == ["echo", *words]
    assert replica["env"]["X"] == value
    assert replica["env"]["MUSTER_RUN_NAME"] == name
    assert json.loads(replica["env"]["MUSTER_CONFIG"]) == inputs
    assert replica["env"]["MUSTER_OUTPUT_DIR"] == "<output_dir>"
