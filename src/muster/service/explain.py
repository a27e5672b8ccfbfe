"""Why: a sentence for every wait and every end, with what it rests on and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from muster.domain.agent import Agent
from muster.domain.observation import Failure
from muster.domain.queue import Queue
from muster.domain.resources import Resources
from muster.domain.run import LOST_AFTER, EventType, Run, RunState
from muster.service.place import limit_reached, place_of
from muster.store import agents, events, queues, runs

NAMED_AHEAD = 5  #: runs ahead that are named, the rest is counted
_ETA_SAMPLES = 20
_RECENT = 100  #: events looked through for the newest notes


@dataclass(frozen=True, kw_only=True)
class RunName:
    id: str
    name: str
    author: str
    state: str


@dataclass(frozen=True, kw_only=True)
class Explanation:
    summary: str  #: one sentence
    details: tuple[str, ...] = ()
    advice: str = ""
    place: int | None = None  #: 1 is next; set while it waits in the queue
    ahead: tuple[RunName, ...] = ()  #: the first of those before it
    holding: tuple[RunName, ...] = ()  #: the runs that hold what it waits for
    eta: datetime | None = None  #: an estimate, from how long this queue's last runs took
    failure: Failure | None = None


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
            return _live(conn, run, now)


def _failed(conn: Connection, run: Run) -> Explanation:
    failure = run.failure
    if failure is None:
        return Explanation(summary="It failed, and nothing says why.", advice="Read its log.")
    tries = f" (attempt {run.head.attempt})" if run.head.attempt > 1 else ""
    return Explanation(summary=f"{failure.summary}{tries}", advice=failure.advice, failure=failure)


def _live(conn: Connection, run: Run, now: datetime) -> Explanation:
    head = run.head
    if head.agent_id is None:
        left = (head.lease_expires_at or now) + LOST_AFTER - now
        others = [agent for agent in agents.of_queue(conn, head.queue_id) if agent.online(now)]
        then = (
            f"Unless an agent on its host returns, it is tried again elsewhere in {_span(left)}."
            if others
            else "No other machine serves its queue, so it waits for its host to return."
        )
        return Explanation(
            summary=f"It is {head.state}, but its agent is silent.",
            details=(then,),
            advice="Start the agent on that host again: it finds the run's processes.",
        )
    agent = agents.find(conn, head.agent_id)
    where = f" on {agent.host}" if agent else ""
    sentences = {
        RunState.CLAIMED: f"An agent{where} has just taken it.",
        RunState.PREPARING: f"Its code and environment are being prepared{where}.",
        RunState.PENDING: f"It waits for a place{where}.",
        RunState.STARTING: f"Its members are coming up{where}.",
        RunState.RUNNING: f"It is running{where}.",
        RunState.STOPPING: f"{head.stop_requested_by} asked it to stop; its processes are ending{where}.",
    }
    newest = events.of_run(conn, run.id, after=head.last_event - _RECENT)
    notes = [str(event.data["message"]) for event in newest if event.type is EventType.NOTE]
    return Explanation(summary=sentences[head.state], details=tuple(notes[-3:]))


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
        eta=_eta(conn, queue, len(live), count, now) if any(a.online(now) for a in serving) else None,
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
        wait.reasons.append(f"no agent of this queue is online (the last one spoke {_span(now - last)} ago)")
        wait.advice = wait.advice or f"Start one: muster agent --queue {queue.name}"
    if wait.reasons:
        return wait
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


def _eta(conn: Connection, queue: Queue, running: int, behind: int, now: datetime) -> datetime | None:
    durations = sorted(runs.recent_durations(conn, queue.id, limit=_ETA_SAMPLES))
    if len(durations) < 3:
        return None
    median = durations[len(durations) // 2]
    return now + timedelta(seconds=median * (behind + 1) / max(running, 1))


def _name(run: Run) -> RunName:
    return RunName(id=run.id, name=run.name, author=run.author, state=run.state.value)


def _took(run: Run) -> str:
    if run.head.started_at is None or run.ended_at is None:
        return ""
    return f" after {_span(run.ended_at - run.head.started_at)}"


def _span(span: timedelta) -> str:
    exact = max(0.0, span.total_seconds())
    if exact < 10:
        return f"{exact:.1f} s"
    seconds = int(exact)
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h"
