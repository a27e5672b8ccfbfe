"""The tutorial's PyTorchJob on Kubeflow's own training operator: a queue's template, filled and started."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.cluster import Cluster
from cluster.field import Field
from cluster.images import BUSYBOX
from installation import text_of
from muster.domain import document
from muster.domain.run import RunState

pytestmark = pytest.mark.training
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "queues" / "pytorchjob.yaml"
MEET = (
    'if [ "$RANK" = 0 ]; then for i in $(seq 2 $WORLD_SIZE); do nc -l -p $MASTER_PORT; done; '
    "echo all of $WORLD_SIZE; else "
    "until echo rank $RANK | nc -w 2 $MASTER_ADDR $MASTER_PORT; do sleep 0.2; done; echo told; fi"
)


def test_the_tutorials_template_runs_as_it_is_written(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """But for one word: an image that is in no registry cannot be pulled always."""
    cluster.start_training_operator()
    config = document.parse(EXAMPLE.read_text().replace("Always", "IfNotPresent"), name=EXAMPLE.name)
    assert isinstance(config, dict)
    field = Field(tmp_path, cluster, namespace)
    try:
        field.queue("pytorch", config)
        field.start_agent("pytorch")
        run = field.launch("pytorch", ["sh", "-c", MEET], image=BUSYBOX)
        assert run.wait(180) is RunState.SUCCEEDED, run.why().summary
        told = field.client.list_replicas(run.id).items
        assert [(one.state, one.exit_code) for one in told] == [("succeeded", 0)] * 3
        assert {one.handle for one in told} == {
            f"{run.id}-pytorch-job-{member}" for member in ("master-0", "worker-0", "worker-1")
        }
        assert sorted(text_of(run, 0).splitlines()) == ["all of 3", "rank 1", "rank 2"]
        for rank in (1, 2):  # the operator has them wait for the master first
            *waits, last = text_of(run, rank).splitlines()
            assert last == "told"
            assert all(line.startswith("[init-pytorch] ") for line in waits)
    finally:
        field.close()
