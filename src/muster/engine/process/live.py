"""One replica being watched: finding its processes, killing them, and reading how it ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from muster._failpoint import failpoint
from muster.domain.observation import Replica, ReplicaState
from muster.engine.process import cgroup, proc
from muster.engine.process.attempt import Member
from muster.engine.process.proc import Owner, Process

_YOUNG = 2.0  #: seconds
_FEW = 200


@dataclass(eq=False, kw_only=True)
class Live:
    """A replica and its shim."""

    owner: Owner
    mark: str  #: its directory; by this its processes are known
    member: Member
    seen: Replica  #: as last told
    since: float  #: monotonic seconds at which it began
    pid: int | None = None  #: the shim, and the session it leads; None: it was dead before we came
    shim: Process | None = None  #: the shim as it was found, if another agent started it
    pidfd: int | None = None
    is_child: bool = False  #: ours to reap; until then its id is not given to anybody else
    gone: bool = False  #: the shim has ended

    @property
    def rank(self) -> int:
        return self.owner.rank


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a command ended by itself."""

    state: ReplicaState
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""


def find_processes(lives: Iterable[Live], *, pids: Iterable[int] | None = None) -> dict[Owner, list[Process]]:
    """All live processes of these replicas, shims included, in one pass over /proc (or over `pids`)."""
    found: dict[Owner, list[Process]] = {}
    ungrouped: list[Live] = []
    for live in lives:
        if not live.member.cgroup:
            ungrouped.append(live)
            continue
        processes = map(proc.read_process, cgroup.group_pids(Path(live.member.cgroup)))
        if alive := [process for process in processes if process is not None and process.alive]:
            found[live.owner] = alive
    if ungrouped:
        marks = {live.mark: live.owner for live in ungrouped}
        sessions = {live.pid: live.owner for live in ungrouped if live.pid is not None}
        found |= proc.members(marks, sessions=sessions, pids=pids)
    return found


def find_strays(ended: Sequence[Live]) -> dict[Owner, list[Process]]:
    """What shims that have just ended left behind."""
    return find_processes(ended, pids=_ids_since(ended))


def _ids_since(ended: Sequence[Live]) -> range | None:
    """The process ids that can belong to members this young; None: any.

    Ids are given out in ascending order, so a member that began a moment ago has only ids that came since.
    This spares short runs a pass over all processes of the machine. Should the ids have wrapped, they seem
    to be none or too many, and all are looked at.
    """
    now = time.monotonic()
    first: int | None = None
    for live in ended:
        if live.pid is None or not live.is_child or now - live.since > _YOUNG:
            return None
        first = live.pid if first is None else min(first, live.pid)
    if first is None:
        return None
    last = proc.last_pid()
    return range(first + 1, last + 1) if 0 <= last - first <= _FEW else None


def kill_processes(lives: Sequence[Live], *, spare_shims: bool) -> bool:
    """SIGKILL to all there are now; whether there were any.

    A spared shim lives to write the status of its killed command.
    """
    shims = {live.pid for live in lives}
    for live in lives:
        if live.member.cgroup and not spare_shims:
            cgroup.kill_group(Path(live.member.cgroup))
    found = find_processes(lives)
    for processes in found.values():
        for process in processes:
            if not (spare_shims and process.pid in shims):
                proc.send(process, signal.SIGKILL)
    return bool(found)


def terminate_group(live: Live) -> None:
    """SIGTERM to the shim's process group, if the shim is still the one it was."""
    if live.pid is None or not (live.is_child or proc.is_running(live.shim)):
        return
    failpoint("signal.before")
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(live.pid, signal.SIGTERM)
    failpoint("signal.after")


def read_ending(live: Live, status: int | None) -> Ending:
    """From the status the shim wrote, or from the shim's own end if it did not live to write one."""
    if status is None and live.is_child and live.pidfd is not None:
        shim = os.waitid(os.P_PIDFD, live.pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if shim is not None and shim.si_code != os.CLD_EXITED:
            reason = f"its shim was ended by {signal_name(shim.si_status)}"
            return Ending(state=ReplicaState.FAILED, signal=shim.si_status, reason=reason)
        if shim is not None:
            status = shim.si_status  # no room on disk for the file
    if status is None:
        return Ending(state=ReplicaState.LOST, reason="it is gone and left no exit status")
    if status == 0:
        return Ending(state=ReplicaState.SUCCEEDED, exit_code=0)
    if 128 < status <= 192:
        reason = f"ended by {signal_name(status - 128)}"
        return Ending(state=ReplicaState.FAILED, signal=status - 128, reason=reason)
    return Ending(state=ReplicaState.FAILED, exit_code=status)


def reap(live: Live) -> None:
    """Let the kernel forget the shim; from here on its id may be somebody else's."""
    live.gone = True
    if live.pidfd is None:
        return
    if live.is_child:
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PIDFD, live.pidfd, os.WEXITED | os.WNOHANG)
    os.close(live.pidfd)
    live.pidfd = None


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
