"""Why a run that an agent has is where it is: what its members wait for, in the engine's own words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from muster.domain.agent import Agent
from muster.domain.observation import AttemptKey, Replica, ReplicaState
from muster.domain.run import LOST_AFTER, Event, EventType, Run, RunHead, RunState
from muster.service.explanation import Explanation, in_words
from muster.store import agents, attempts, events

NOTES = 3  #: the newest that are told
_RECENT = 100  #: events looked through for them
#: The scheduler adds at length that nothing could be gained by evicting others.
_PREEMPTION = re.compile(r"(?:no new claims to deallocate, )?preemption: .*?\.(?:\s+|$)")


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The words for where an engine's runs are, and for what they are made of."""

    where: str  #: goes after "It is running"
    agents: str  #: goes after "an agent", of those that can see its runs
    parts: str  #: what a run is there
    preparing: str = "It is being made ready"


HOST = Scene(
    where="on {host}",
    agents="on its host",
    parts="processes",
    preparing="Its code and environment are being prepared",
)
CLUSTER = Scene(where="in the cluster at {host}", agents="of its cluster", parts="pods")
SCENES: Mapping[str, Scene] = {"kubernetes": CLUSTER}

#: Words of a scheduler, a quota, a kubelet → what to do. The first row whose words are there counts.
ADVICE: Sequence[tuple[tuple[str, ...], str]] = (
    (
        ("exceeded quota",),
        "Wait for other pods of the namespace to end, ask for less, or ask its owner for more quota.",
    ),
    (
        ("open to it has",),
        "It cannot start as it is: launch it with less on each node, or on another queue.",
    ),
    (
        ("room, but",),
        "Wait, launch it with less on each node, or ask the cluster's owner to open the one with room.",
    ),
    (("/gpu", "GPU"), "Wait until other runs end, or launch it with fewer GPUs on each node."),
    (("Insufficient", "Too many pods"), "Wait until other runs end, or launch it with less on each node."),
    (
        ("No node is open", "untolerated taint", "affinity", "unschedulable"),
        "Ask the queue's owner which nodes its template may use, or the cluster's owner to open one.",
    ),
    (
        ("ImagePull", "ErrImage", "InvalidImageName", "RegistryUnavailable"),
        "Check the name of the image, and that the cluster may pull it.",
    ),
    (
        ("CreateContainerConfigError",),
        "Ask the queue's owner: its template names something that the namespace does not have.",
    ),
    (("persistentvolumeclaim", "volume"), "Ask the queue's owner about the volumes in its template."),
)


def explain_live(conn: Connection, run: Run, *, now: datetime) -> Explanation:
    head = run.head
    if head.agent_id is None:
        return _silent(conn, head, now)
    key = AttemptKey(run_id=run.id, attempt=head.attempt)
    coming = head.state in (RunState.PENDING, RunState.STARTING)
    members = attempts.replicas_of(conn, key) if coming else []
    groups = _groups(members)
    total = max(head.nodes, len(members))
    newest = events.of_run(conn, run.id, after=head.last_event - _RECENT)
    told = [_told(group, total) for group in groups] or _why_pending(head, newest)
    details = [_stopped(words) for words in told[1:]]
    if groups and (up := sum(one.state is ReplicaState.RUNNING for one in members)):
        details.append(f"{up} of {total} members {_is(up)} up already.")
    return Explanation(
        summary=_stopped(": ".join([_sentence(head, agents.find(conn, head.agent_id), groups), *told[:1]])),
        details=(*details, *_notes(newest, told=[group[0].reason for group in groups])),
        advice=next((advice for group in groups if (advice := _advice(group[0].reason))), ""),
    )


def _silent(conn: Connection, head: RunHead, now: datetime) -> Explanation:
    known = attempts.of_run(conn, head.id)
    scene = _scene(agents.find(conn, known[-1].agent_id) if known else None)
    left = (head.lease_expires_at or now) + LOST_AFTER - now
    others = [agent for agent in agents.of_queue(conn, head.queue_id) if agent.online(now)]
    then = (
        f"Unless an agent {scene.agents} returns, it is tried again elsewhere in {in_words(left)}."
        if others
        else f"No other agent serves its queue, so it waits for one {scene.agents} to return."
    )
    return Explanation(
        summary=f"It is {head.state}, but its agent is silent.",
        details=(then,),
        advice=f"Start an agent {scene.agents} again: it finds the run's {scene.parts}.",
    )


def _sentence(head: RunHead, agent: Agent | None, groups: Sequence[Sequence[Replica]]) -> str:
    """Where it is, without the full stop."""
    scene = _scene(agent)
    where = f" {scene.where.format(host=agent.host)}" if agent else ""
    if groups and groups[0][0].state is ReplicaState.PENDING:  # though others may be there already
        return f"It waits for a place{where}"
    sentences = {
        RunState.CLAIMED: f"An agent{where} has just taken it",
        RunState.PREPARING: f"{scene.preparing}{where}",
        RunState.PENDING: f"It waits for a place{where}",
        RunState.STARTING: f"Its members are coming up{where}",
        RunState.RUNNING: f"It is running{where}",
        RunState.STOPPING: f"{head.stop_requested_by} asked it to stop; its {scene.parts} are ending{where}",
    }
    return sentences[head.state]


def _scene(agent: Agent | None) -> Scene:
    return SCENES.get(agent.engine, HOST) if agent else HOST


def _groups(members: Sequence[Replica]) -> list[list[Replica]]:
    """Members that are not up, together where their reasons are alike; those without a place first."""
    found: dict[tuple[ReplicaState, str], list[Replica]] = {}
    for member in members:
        if member.reason and member.state in (ReplicaState.PENDING, ReplicaState.STARTING):
            found.setdefault((member.state, member.reason), []).append(member)
    return sorted(found.values(), key=lambda group: (group[0].state is not ReplicaState.PENDING, -len(group)))


def _told(group: Sequence[Replica], total: int) -> str:
    count, reason = len(group), _PREEMPTION.sub("", group[0].reason).strip()
    if total == 1:
        return reason
    has_none = f"{'has' if count == 1 else 'have'} none"
    lack = has_none if group[0].state is ReplicaState.PENDING else f"{_is(count)} not up yet"
    return f"{count} of {total} members {lack}: {reason}"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _why_pending(head: RunHead, newest: Sequence[Event]) -> list[str]:
    """What its agent said, where there are no members that could say it."""
    if head.state is not RunState.PENDING:
        return []
    moves = [event.data for event in newest if event.type is EventType.STATE]
    return [str(moves[-1]["reason"])] if moves and moves[-1].get("reason") else []


def _notes(newest: Sequence[Event], *, told: Sequence[str]) -> list[str]:
    """The newest, but for those that a member's reason says again."""
    notes = [str(event.data["message"]) for event in newest if event.type is EventType.NOTE]
    return [note for note in notes if not any(_core(note) in reason for reason in told)][-NOTES:]


def _core(note: str) -> str:
    """Of `Pod train-0: FailedScheduling: 0/3 nodes …` the scheduler's words."""
    return note.split(": ", 2)[-1].rstrip(".")


def _advice(reason: str) -> str:
    return next((advice for words, advice in ADVICE if any(word in reason for word in words)), "")


def _stopped(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
