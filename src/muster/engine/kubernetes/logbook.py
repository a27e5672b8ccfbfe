"""The logs of all attempts that are watched: who follows which pod, into which file."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from muster.domain.observation import AttemptKey
from muster.engine.kubernetes.api import Api
from muster.engine.kubernetes.attempt import Attempt, LogProgress
from muster.engine.kubernetes.follow import Follower
from muster.engine.kubernetes.spool import Spool
from muster.engine.port import NO_LOGS, LogEnd


class Logbook:
    def __init__(self, api: Api, root: Path) -> None:
        self._api = api
        self._root = root
        self._ends: dict[AttemptKey, Mapping[int, LogEnd]] = {}
        self._spools: dict[tuple[AttemptKey, int], Spool] = {}
        self._followers: dict[str, Follower] = {}  #: pod uid → who copies its output

    def path(self, key: AttemptKey, rank: int) -> Path:
        return self._folder(key) / f"{rank}.log"

    def error_path(self, key: AttemptKey, rank: int) -> Path:
        return self._folder(key) / f"{rank}.error"

    def length(self, key: AttemptKey, rank: int) -> int:
        spool = self._spools.get((key, rank))
        return spool.length if spool else 0

    def mark(self, key: AttemptKey, rank: int, offset: int) -> LogEnd | None:
        spool = self._spools.get((key, rank))
        found = spool.mark_at(offset) if spool else None
        return LogEnd(length=found[0], mark=found[1]) if found else None

    def go_on(self, key: AttemptKey, ends: Mapping[int, LogEnd]) -> None:
        """What is safe already of an attempt that was taken over."""
        self._ends[key] = ends

    def follow(self, attempt: Attempt, *, on_end: Callable[[], None]) -> None:
        """Begin with whatever has begun to speak."""
        for rank, pods in attempt.ranked().items():
            for pod in pods:
                follower = self._followers.get(pod.uid)
                if follower is None and any(one.lives for one in pod.everyone):
                    spool = self._spool(attempt.key, rank)
                    follower = self._followers[pod.uid] = Follower(self._api, pod, spool, on_end=on_end)
                if follower is not None:
                    follower.see(pod)

    def progress(self, attempt: Attempt) -> dict[str, LogProgress]:
        """Pod uid → how much of its output is here."""
        return {uid: self._followers[uid].progress() for uid in attempt.pods if uid in self._followers}

    def keep_error(self, attempt: Attempt, rank: int) -> None:
        """What the launcher left as its root cause, where the cause is looked for."""
        pods = attempt.ranked().get(rank, [])
        said = [one.ended.message for pod in pods[-1:] for one in pod.containers if one.ended]
        if any(said) and (attempt.key, rank) in self._spools:
            with suppress(OSError):  # the folder may be gone: then nobody looks for it
                self.error_path(attempt.key, rank).write_text(next(filter(None, said)), "utf-8")

    def drop(self, attempt: Attempt) -> None:
        """Follow no more; the files stay."""
        self._ends.pop(attempt.key, None)
        for uid in attempt.pods:
            follower = self._followers.pop(uid, None)
            if follower is not None:
                follower.close()
        for rank in range(attempt.members):
            self._spools.pop((attempt.key, rank), None)

    def leftovers(self) -> list[AttemptKey]:
        """Attempts of which there are files."""
        if not self._root.is_dir():
            return []
        parts = [folder.name.rpartition(".") for folder in self._root.iterdir()]
        return [AttemptKey(run_id=run, attempt=int(nth)) for run, _, nth in parts if run and nth.isdecimal()]

    def remove(self, key: AttemptKey) -> None:
        shutil.rmtree(self._folder(key), ignore_errors=True)

    def close(self) -> None:
        for follower in self._followers.values():
            follower.close()

    def _spool(self, key: AttemptKey, rank: int) -> Spool:
        if (key, rank) not in self._spools:
            end = self._ends.get(key, NO_LOGS).get(rank, LogEnd(length=0))
            self._spools[key, rank] = Spool.open(self.path(key, rank), length=end.length, mark=end.mark)
        return self._spools[key, rank]

    def _folder(self, key: AttemptKey) -> Path:
        return self._root / f"{key.run_id}.{key.attempt}"
