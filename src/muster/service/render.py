"""What a run becomes on its engine, without the engine: the same pure code the agent runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from muster.domain.observation import AttemptKey
from muster.domain.run import Run
from muster.engine.port import Rendered, Work
from muster.engine.process.render import render as render_process

RENDERERS: Mapping[str, Callable[[Work], Rendered]] = {"process": render_process}


def work_of(run: Run) -> Work:
    """The run as an engine sees it."""
    spec = run.spec
    return Work(
        key=AttemptKey(run_id=run.id, attempt=max(run.head.attempt, 1)),
        run_name=run.name,
        project=run.project,
        entity=run.entity,
        queue=run.queue,
        author=run.author,
        config=spec.config,
        command=spec.command,
        training=spec.training,
        env=spec.env,
        inputs=spec.inputs,
        image=spec.image,
        has_code=spec.snapshot is not None or spec.git is not None,
    )


def render(engine: str, work: Work) -> Rendered:
    return RENDERERS[engine](work)
