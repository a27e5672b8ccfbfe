"""Why: a sentence for every wait and every end, with what it rests on and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from muster.domain.agent import Agent
from muster.domain.queue import Queue
from muster.domain.resources import Resources
from muster.domain.run import Run, RunState
from muster.service.explanation import Explanation, RunName, in_words
from muster.service.live import explain_live
from muster.service.place import limit_reached, place_of
from muster.store import agents, queues, runs

NAMED_AHEAD = 5  #: runs ahead that are named, the rest is counted
_ETA_SAMPLES = 20


@dataclass(kw_only=True)
class _Wait:
    """Reasons found so far, the weightiest first."""

    reasons: list[str] = field(default_factory=list)
    advice: str = ""
    holding: list[Run] = field(default_factory=list)


def explain(conn: Connection, run: Run, *, now: datetime) -> Explanation:
    match run.state:
        case RunState.QUEUED:
            return _queued(conn, run, now)
        case RunState.SUCCEEDED:
            return Explanation(summary=f"It succeeded{_took(run)}.")
        case RunState.STOPPED:
            return Explanation(summary=f"It was stopped by {run.head.stop_requested_by or 'somebody'}.")
        case RunState.FAILED:
            return _failed(conn, run)
        case _:
            return explain_live(conn, run, now=now)


def _failed(conn: Connection, run: Run) -> Explanation:
    failure = run.failure
    if failure is None:
        return Explanation(summary="It failed, and nothing says why.", advice="Read its log.")
    tries = f" (attempt {run.head.attempt})" if run.head.attempt > 1 else ""
    return Explanation(summary=f"{failure.summary}{tries}", advice=failure.advice, failure=failure)


def _queued(conn: Connection, run: Run, now: datetime) -> Explanation:
    queue = queues.find_by_id(conn, run.head.queue_id)
    if queue is None:
        return Explanation(summary="Its queue is gone.", advice="Stop it and launch it elsewhere.")
    found = place_of(conn, queue, run, now=now, named=NAMED_AHEAD)
    count = found.ahead
    by_id = runs.find_many(conn, found.first)
    ahead = [by_id[run_id] for run_id in found.first if run_id in by_id]
    serving = agents.of_queue(conn, queue.id)
    live = runs.live_in_queue(conn, queue.id)
    limit = limit_reached(conn, queue, run)
    wait = _reasons(run, queue, serving, live, behind=count, limit=limit, now=now)
    about = "" if found.exact else "about "
    place = f"It is {about}number {count + 1} in queue {queue.name!r}"
    details = []
    if run.head.attempt:
        details.append(
            f"Attempt {run.head.attempt} ended early; it waits for attempt {run.head.attempt + 1}."
        )
    if run.queue_version != queue.version:
        details.append(
            f"It keeps version {run.queue_version} of the queue, with which it was launched; "
            f"the newest is version {queue.version}."
        )
    if count > len(ahead) > 0:
        details.append(f"{count - len(ahead)} more runs are ahead of it.")
    return Explanation(
        summary=f"{place}: {'; '.join(wait.reasons)}.",
        details=tuple(details),
        advice=wait.advice,
        place=count + 1,
        ahead=tuple(_name(other) for other in ahead),
        holding=tuple(_name(other) for other in wait.holding),
        eta=_eta(conn, queue, live, count, now) if any(a.online(now) for a in serving) else None,
    )


def _reasons(
    run: Run,
    queue: Queue,
    serving: Sequence[Agent],
    live: Sequence[Run],
    *,
    behind: int,
    limit: str | None,
    now: datetime,
) -> _Wait:
    wait = _Wait()
    online = [agent for agent in serving if agent.online(now)]
    if queue.paused_at is not None:
        wait.reasons.append("the queue is paused")
        wait.advice = f"Resume it: muster queue resume {queue.name}"
    if not serving:
        wait.reasons.append("no agent serves this queue")
        wait.advice = wait.advice or f"Start one: muster agent --queue {queue.name}"
    elif not online:
        last = max(agent.seen_at for agent in serving)
        wait.reasons.append(
            f"no agent of this queue is online (the last one spoke {in_words(now - last)} ago)"
        )
        wait.advice = wait.advice or f"Start one: muster agent --queue {queue.name}"
    elif all(agent.paused_at for agent in online):
        wait.reasons.append(f"every agent that is online is paused ({', '.join(a.name for a in online)})")
        wait.advice = wait.advice or "Let one take runs again: the page Agents of the web app."
    if wait.reasons:
        return wait
    online = [agent for agent in online if agent.paused_at is None]
    if limit is not None:
        wait.reasons.append(limit)
        wait.advice = "Wait until one of these ends, or ask the queue's owner for more."
        return wait
    full = [agent for agent in online if _jobs(agent, live) >= agent.max_jobs]
    if len(full) == len(online):
        jobs = sum(agent.max_jobs for agent in online)
        wait.reasons.append(f"its agents run as many runs as they may ({jobs})")
        wait.advice = "Wait, or let an agent run more: --max-jobs."
        wait.holding = list(live)
        return wait
    needs = run.spec.resources
    short = min((needs.short_of(agent.free or Resources(), word="free") for agent in online), key=len)
    if short:
        wait.holding = [other for other in live if _holds(other, needs)]
        by = ", ".join(f"{other.name} of {other.author}" for other in wait.holding[:3])
        wait.reasons.append(f"it needs {' and '.join(short)}" + (f", in use by {by}" if by else ""))
    elif behind:
        wait.reasons.append("runs ahead of it come first")
    else:
        wait.reasons.append("it is next, an agent will take it in a moment")
    return wait


def _jobs(agent: Agent, live: Sequence[Run]) -> int:
    return sum(1 for other in live if other.head.agent_id == agent.id)


def _holds(other: Run, needs: Resources) -> bool:
    has = other.spec.resources
    return bool(
        (needs.gpus and has.gpus) or (needs.millicpus and has.millicpus) or (needs.memory and has.memory)
    )


def _eta(conn: Connection, queue: Queue, live: Sequence[Run], behind: int, now: datetime) -> datetime | None:
    """When the first of those that run is likely to end, and then one after the other of those ahead."""
    durations = sorted(runs.recent_durations(conn, queue.id, limit=_ETA_SAMPLES))
    if len(durations) < 3:
        return None
    median = durations[len(durations) // 2]
    first = min((_left(run, median, now) for run in live), default=median)
    return now + timedelta(seconds=first + median * behind / max(len(live), 1))


def _left(run: Run, median: float, now: datetime) -> float:
    """Seconds. Whatever has outlived most others is likely to go on for as long again."""
    began = run.head.started_at or now
    elapsed = max(0.0, (now - began).total_seconds())
    return median - elapsed if elapsed < median else elapsed


def _name(run: Run) -> RunName:
    return RunName(id=run.id, name=run.name, author=run.author, state=run.state.value)


def _took(run: Run) -> str:
    if run.head.started_at is None or run.ended_at is None:
        return ""
    return f" after {in_words(run.ended_at - run.head.started_at)}"
