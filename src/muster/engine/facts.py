"""What every engine tells a run about itself, in macros and in its environment."""

from __future__ import annotations

import json

from muster.engine.port import Work


def run_macros(work: Work) -> dict[str, str]:
    """What the run itself fills in of a queue's template."""
    return {
        "run_id": work.key.run_id,
        "run_name": work.run_name,
        "project_name": work.project,
        "entity_name": work.entity,
        "author": work.author,
        "queue_name": work.queue,
        "attempt": str(work.key.attempt),
        **({"image_uri": work.image} if work.image else {}),
    }


def run_env(work: Work) -> dict[str, str]:
    return {
        "MUSTER_RUN_ID": work.key.run_id,
        "MUSTER_RUN_NAME": work.run_name,
        "MUSTER_PROJECT": work.project,
        "MUSTER_ENTITY": work.entity,
        "MUSTER_QUEUE": work.queue,
        "MUSTER_ATTEMPT": str(work.key.attempt),
        "MUSTER_CONFIG": json.dumps(dict(work.inputs), separators=(",", ":")),
    }
