"""What the cluster says in Events about a run's objects."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from muster.domain.observation import AttemptKey
from muster.engine.kubernetes.api import Object
from muster.engine.kubernetes.pod import moment

_GROUP = "PodGroup"
_NAMED_AFTER = re.compile(r"-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$")
MAX_WAITING = 2000  #: events about objects that are not known (yet)
MAX_KNOWN = 20_000
OWN_DOING = frozenset({"Suspended", "Resumed"})  #: how a run is put into the cluster
OLD = timedelta(seconds=30)  #: what happened before we came was told by whoever was here then


#: A pod cannot come up for want of something outside of it: a volume, a network.
TROUBLE = frozenset(
    "FailedMount FailedAttachVolume FailedMapVolume FailedCreatePodSandBox NetworkNotReady".split()
)
PROGRESS = frozenset("Pulling Pulled Created Started".split())  #: what it needed was there then
_PREAMBLE = re.compile(r'^Error creating: (?:pods? "[^"]*" is (?=forbidden|invalid))?(?:forbidden: )?')
#: The API server's final no; anything else, such as a webhook that does not answer, may pass.
_FINAL = re.compile(r"\bis (?:forbidden|invalid)\b|denied the request")


@dataclass(frozen=True, kw_only=True)
class Happening:
    uid: str  #: of what it is about
    about: str  #: such as "Pod train-0"
    reason: str
    message: str
    is_warning: bool

    @property
    def sentence(self) -> str:
        return f"{self.about}: {self.reason}: {self.words}"

    @property
    def words(self) -> str:
        """Without the name of a pod that was never made: it is another one at each try."""
        return " ".join(_PREAMBLE.sub("", self.message).split())

    @property
    def refuses_pods(self) -> bool:
        """A controller could not even make a pod."""
        return self.reason == "FailedCreate"

    @property
    def holds_group(self) -> bool:
        """A scheduler that places all members or none has no room for all."""
        return self.reason == "Unschedulable" and self.about.startswith(_GROUP)

    @property
    def is_final(self) -> bool:
        return _FINAL.search(self.message) is not None and "exceeded quota" not in self.message

    @property
    def trouble(self) -> str | None:
        """What a pod needs that is not there; nothing, if it is there; None: it is not about that."""
        if self.reason in TROUBLE:
            return self.sentence
        return "" if self.reason in PROGRESS else None


def group_id(namespace: str, name: str) -> str:
    """What a PodGroup is known by: the Job that it is of, which Volcano names it after; else its name."""
    return match[1] if (match := _NAMED_AFTER.search(name)) else f"{namespace}/{name}"


class Happenings:
    """Brings events and the runs they are about together, whichever is heard of first."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._since = clock() - OLD
        self._owner: OrderedDict[str, AttemptKey] = OrderedDict()  #: uid of an object → its run
        self._waiting: OrderedDict[str, list[Happening]] = OrderedDict()
        self._ready: set[str] = set()  #: uids in `_waiting` whose run is known
        self._told: OrderedDict[tuple[str, str, str], None] = OrderedDict()

    def knows(self, uid: str, key: AttemptKey) -> None:
        self._owner[uid] = key
        if uid in self._waiting:
            self._ready.add(uid)
        if len(self._owner) > MAX_KNOWN:
            self._owner.popitem(last=False)

    def see(self, item: Object) -> None:
        about = item.get("involvedObject") or {}
        at = item.get("lastTimestamp") or item.get("eventTime") or item["metadata"]["creationTimestamp"]
        uid = about.get("uid", "")
        if about.get("kind") == _GROUP:
            uid = group_id(about.get("namespace", ""), about.get("name", ""))
        happening = Happening(
            uid=uid,
            about=f"{about.get('kind', 'Object')} {about.get('name', '')}",
            reason=item.get("reason", ""),
            message=item.get("message", ""),
            is_warning=item.get("type") == "Warning",
        )
        uid, told = happening.uid, (happening.uid, happening.reason, happening.words)
        if happening.reason in OWN_DOING or not uid or moment(at) < self._since or told in self._told:
            return
        self._told[told] = None
        if len(self._told) > MAX_KNOWN:
            self._told.popitem(last=False)
        self._waiting.setdefault(uid, []).append(happening)
        if uid in self._owner:
            self._ready.add(uid)
        if len(self._waiting) > MAX_WAITING:
            self._ready.discard(self._waiting.popitem(last=False)[0])

    def take(self, tracked: Container[AttemptKey]) -> Iterator[tuple[AttemptKey, Happening]]:
        """Those about runs that are tracked, each once."""
        for uid in [uid for uid in self._ready if self._owner[uid] in tracked]:
            self._ready.discard(uid)
            for happening in self._waiting.pop(uid):
                yield self._owner[uid], happening
