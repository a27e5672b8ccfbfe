"""What the cluster says in Events about a run's objects."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from muster.domain.observation import AttemptKey
from muster.engine.kubernetes.api import Object
from muster.engine.kubernetes.pod import moment

MAX_WAITING = 2000  #: events about objects that are not known (yet)
MAX_KNOWN = 20_000
OWN_DOING = frozenset({"Suspended", "Resumed"})  #: how a run is put into the cluster
OLD = timedelta(seconds=30)  #: what happened before we came was told by whoever was here then


@dataclass(frozen=True, kw_only=True)
class Happening:
    about: str  #: such as "Pod train-0"
    reason: str
    message: str
    is_warning: bool

    @property
    def sentence(self) -> str:
        return f"{self.about}: {self.reason}: {' '.join(self.message.split())}"

    @property
    def refuses_pods(self) -> bool:
        """A controller could not even make a pod."""
        return self.reason == "FailedCreate"

    @property
    def is_quota(self) -> bool:
        return "exceeded quota" in self.message


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
        uid, reason, message = about.get("uid"), item.get("reason", ""), item.get("message", "")
        at = item.get("lastTimestamp") or item.get("eventTime") or item["metadata"]["creationTimestamp"]
        if reason in OWN_DOING or not uid or moment(at) < self._since or (uid, reason, message) in self._told:
            return
        self._told[uid, reason, message] = None
        if len(self._told) > MAX_KNOWN:
            self._told.popitem(last=False)
        happening = Happening(
            about=f"{about.get('kind', 'Object')} {about.get('name', '')}",
            reason=reason,
            message=message,
            is_warning=item.get("type") == "Warning",
        )
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
