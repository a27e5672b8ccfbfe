"""Where the values of a run's manifest came from: what a preview tells, for a run that was launched."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection

from muster.domain.path import Location, at, locate, parse
from muster.domain.provenance import JOB, LAUNCH, OVERRIDE, Origins, config_sources, pointers
from muster.domain.queue import Queue
from muster.domain.run import Run
from muster.service.customize import ROOTS
from muster.service.render import TRACERS, work_of
from muster.store import queues


def sources_of(conn: Connection, run: Run, queue: Queue) -> Mapping[str, str]:
    """JSON pointer in the manifest → source."""
    version = queues.find_version(conn, queue.id, run.queue_version)
    if version is None:
        return {}
    spec, label = run.spec, f"queue v{run.queue_version}"
    changed = {change.what.partition(".")[0] for change in spec.changed}

    def recorded(what: str) -> str:
        return LAUNCH if run.job is None or what in changed else JOB

    origins = Origins(
        config=config_sources(version.config, spec.config, _overridden(run, queue), queue=label),
        image=recorded("image") if spec.image else label,
        command=[recorded("entrypoint" if place == 0 else "arguments") for place in range(len(spec.command))],
        inputs=recorded("config"),
    )
    _, sources = TRACERS[queue.engine](work_of(run), origins)
    return pointers(sources)


def _overridden(run: Run, queue: Queue) -> list[tuple[Location, str]]:
    config = run.spec.config
    root = ROOTS[queue.engine](config) if queue.engine in ROOTS else ()
    base = at(config, root)
    return [(root + locate(base, parse(text), text), OVERRIDE) for text in run.spec.overrides]
