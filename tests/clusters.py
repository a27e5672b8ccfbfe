"""Runs for a cluster, as the tests here need them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from muster.domain.observation import AttemptKey
from muster.domain.policy import Policy
from muster.domain.queue import Queue
from muster.engine.port import Work
from muster.service import queue
from muster.store import queues
from muster.store.database import Tx
from world import World

IMAGE = "acme/train:main"


def work(config: Mapping[str, Any], *command: str, **more: Any) -> Work:
    told = {
        "key": AttemptKey(run_id="r123456789", attempt=2),
        "run_name": "my-run",
        "project": "proj",
        "entity": "team",
        "queue": "gpu",
        "author": "ann",
        "image": IMAGE,
        **more,
    }
    return Work(config=config, command=command, **told)


def job(*containers: dict[str, Any], pod: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A Job of these containers; without any, of one that says nothing."""
    return {"spec": {"template": {"spec": {"containers": list(containers) or [{}], **(pod or {})}}, **spec}}


def cluster_queue(world: World, config: dict[str, Any], **rules: Any) -> Queue:
    """A queue `cluster` with these rules of its owner."""

    def work(tx: Tx) -> Queue:
        made = queue.create(
            tx,
            world.owner,
            name="cluster",
            resource="kubernetes",
            config=config,
            variables={},
            entity=None,
            now=world.now,
            random=world.random,
        )
        newer = replace(made, version=2, policy=Policy.parse(rules))
        queues.add_version(tx.conn, newer, at=world.now, by="ann")
        return newer

    return world.do(work)


def expanded(text: str) -> str:
    """What a container gets, by the rules of k8s.io/kubernetes/third_party/forked/golang/expansion."""
    done, place = "", 0
    while place < len(text):
        pair = text[place : place + 2]
        if pair == "$$":
            done, place = done + "$", place + 2
        elif pair == "$(" and ")" in text[place:]:
            end = text.index(")", place)
            done, place = f"{done}<{text[place + 2 : end]}>", end + 1
        else:
            done, place = done + text[place], place + 1
    return done
