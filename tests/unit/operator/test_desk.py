"""What is known of a job, whichever way and in whichever order it was heard."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster.operator.desk import Desk, is_newer
from muster.operator.pod import owner_of, read_pod
from unit.operator.world import job_of, spec_of


def pod(version: int, phase: str = "Pending", **metadata: Any) -> dict[str, Any]:
    labels = {
        "tensorstack.dev/replica-type": "worker",
        "tensorstack.dev/replica-index": "0",
        "muster.dev/replica-life": "0",
    }
    owner = {"kind": "PyTorchTrainingJob", "uid": "job", "controller": True}
    return {
        "metadata": {
            "name": "mnist-worker-0",
            "uid": "pod",
            "resourceVersion": str(version),
            "labels": labels,
            "ownerReferences": [owner],
            **metadata,
        },
        "spec": {"containers": [{"name": "proxy"}, {"name": "python"}]},
        "status": {"phase": phase},
    }


@pytest.mark.parametrize(
    ("version", "known", "newer"),
    [("2", None, True), ("10", "9", True), ("9", "10", False), ("9", "9", False), ("b", "a", True)],
)
def test_versions_are_compared_as_numbers(version: str, known: str | None, newer: bool) -> None:
    assert is_newer(version, known) is newer


def test_an_answer_that_comes_after_later_news_changes_nothing() -> None:
    desk = Desk()
    assert desk.take_pod(pod(7, "Running"))
    assert not desk.take_pod(pod(5, "Pending"))
    assert desk.pods["pod"].phase == "Running"


def test_a_change_that_is_of_no_concern_is_no_reason_to_look() -> None:
    desk = Desk()
    assert desk.take_pod(pod(1))
    assert not desk.take_pod(pod(2, annotations={"scheduler": "was here"}))
    assert desk.take_pod(pod(3, deletionTimestamp="2026-01-01T00:00:00Z"))


def test_a_pod_that_is_gone_does_not_come_back() -> None:
    desk = Desk()
    desk.lose_pod("pod")
    assert not desk.take_pod(pod(9))
    assert not desk.pods


def test_an_older_job_does_not_replace_a_newer_one() -> None:
    desk, job = Desk(), job_of(spec_of())
    assert desk.take_job(replace(job, version="5"))
    assert not desk.take_job(replace(job, version="4"))
    assert not desk.take_job(replace(job, version="5")), "its own word comes back by the watch"


def test_the_exit_code_is_that_of_the_training_not_of_what_stands_beside_it() -> None:
    item = pod(1, "Failed")
    item["status"]["containerStatuses"] = [
        {"name": "python", "state": {"terminated": {"exitCode": 137}}},
        {"name": "proxy", "state": {"terminated": {"exitCode": 0}}},
    ]
    read = read_pod(item)
    assert read is not None
    assert read.exit_code == 137


@pytest.mark.parametrize("owners", [[], [{"kind": "Job", "uid": "u", "controller": True}], None])
def test_a_pod_of_somebody_else_is_not_ours(owners: list[dict[str, Any]] | None) -> None:
    assert owner_of(pod(1, ownerReferences=owners)) is None


def test_a_pod_whose_labels_were_changed_is_not_counted() -> None:
    assert read_pod(pod(1, labels={"tensorstack.dev/replica-type": "worker"})) is None
