"""What a run becomes on its engine, without the engine: the same pure code the agent runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from muster.domain.observation import AttemptKey
from muster.domain.provenance import Origins, Sources
from muster.domain.run import Run
from muster.engine.kubernetes.render import render as render_kubernetes
from muster.engine.kubernetes.render import trace as trace_kubernetes
from muster.engine.port import Rendered, Work
from muster.engine.process.provenance import trace as trace_process
from muster.engine.process.render import render as render_process

RENDERERS: Mapping[str, Callable[[Work], Rendered]] = {
    "process": render_process,
    "kubernetes": render_kubernetes,
}
#: the same, with where each value came from
TRACERS: Mapping[str, Callable[[Work, Origins], tuple[Rendered, Sources]]] = {
    "process": trace_process,
    "kubernetes": trace_kubernetes,
}


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
        command=spec.whole_command,
        training=spec.training,
        env=spec.env,
        inputs=spec.inputs,
        image=spec.image,
        has_code=spec.snapshot is not None or spec.git is not None,
        security=spec.security,
    )


def render(engine: str, work: Work) -> Rendered:
    return RENDERERS[engine](work)
