"""Reading /proc: which processes there are, and which replica each belongs to.

A process is a replica's if it is in the session its shim leads, or has the replica's directory as
`MUSTER_REPLICA_DIR` in its environment (it called `setsid` itself, as torchrun's workers and daemons do), or
descends from one that is.
Signals go through a pidfd that was checked against the start time, so a reused process id is never hit.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.domain.observation import AttemptKey

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
_DEAD = frozenset("ZXx")
_KTHREADD = 2  #: the parent of kernel threads


@dataclass(frozen=True, kw_only=True, order=True)
class Owner:
    """One replica of one attempt."""

    key: AttemptKey
    rank: int


@dataclass(frozen=True, slots=True)
class Process:
    """One line of /proc/<pid>/stat."""

    pid: int
    parent: int
    session: int
    started: int  #: clock ticks since boot: with the pid, this names a process for good
    alive: bool  #: not a zombie
    cpu: float  #: seconds used, by itself and by the children it has reaped
    memory: int  #: bytes resident


def read_process(pid: int) -> Process | None:
    """The process with this id now, zombies included; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            return parse_stat(file.read(2048))
    except (FileNotFoundError, ProcessLookupError):
        return None


def parse_stat(line: bytes) -> Process | None:
    """A stat line; None if it was cut short."""
    # The name in parentheses may hold anything, also spaces and parentheses.
    head, _, tail = line.rpartition(b")")
    fields = tail.split()
    if len(fields) < 22:
        return None
    return Process(
        pid=int(head.split(b" ", 1)[0]),
        parent=int(fields[1]),
        session=int(fields[3]),
        started=int(fields[19]),
        alive=fields[0].decode() not in _DEAD,
        cpu=sum(map(int, fields[11:15])) / TICKS,
        memory=int(fields[21]) * PAGE,
    )


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def last_pid() -> int:
    """The process id given out last; ids grow until they wrap."""
    with open("/proc/loadavg", "rb", buffering=0) as file:
        return int(file.read(128).split()[-1])


def boot_id() -> str:
    """Changes with every start of the machine; start times mean nothing across one."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return ""


_MARK = re.compile(rb"(?:^|\0)MUSTER_REPLICA_DIR=([^\0]*)")


def read_mark(pid: int) -> str | None:
    """The replica's directory as named in the environment of a process; None: none, or not ours to read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            match = _MARK.search(file.read())
    except OSError:
        return None
    return None if match is None else os.fsdecode(match[1])


def find_shims(marks: Mapping[str, Owner]) -> dict[Owner, Process]:
    """The live shims of these replicas: each leads a session, and has its mark as its first argument."""
    found: dict[Owner, Process] = {}
    for pid in all_pids():
        process = read_process(pid)
        if process is None or not process.alive or process.session != pid:
            continue
        words = _command_line(pid).split(b"\0", 3)
        if len(words) > 3 and words[0] == b"sh" and (owner := marks.get(os.fsdecode(words[2]))) is not None:
            found[owner] = process
    return found


def _command_line(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def members(
    marks: Mapping[str, Owner], *, sessions: Mapping[int, Owner], pids: Iterable[int] | None = None
) -> dict[Owner, list[Process]]:
    """The live processes of these replicas, in one pass over all processes (or over `pids`).

    `sessions` names a session only while its id cannot have been given to somebody else: while the shim
    that leads it is alive or not yet reaped.
    """
    found: dict[int, Owner] = {}
    seen: dict[int, Process] = {}
    for pid in all_pids() if pids is None else pids:
        process = read_process(pid)
        if process is None or not process.alive:
            continue
        seen[pid] = process
        owner = sessions.get(process.session)
        if owner is None and process.parent != _KTHREADD and (mark := read_mark(pid)) is not None:
            owner = marks.get(mark)
        if owner is not None:
            found[pid] = owner
    _add_descendants(found, seen)
    result: dict[Owner, list[Process]] = {}
    for pid, owner in found.items():
        result.setdefault(owner, []).append(seen[pid])
    return result


def holders(path: str) -> list[Process]:
    """The other processes that have this file open. Slow: looks at every descriptor of every process."""
    found: list[Process] = []
    for pid in set(all_pids()) - {os.getpid()}:
        with contextlib.suppress(OSError):
            links = (os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))
            if path in links and (process := read_process(pid)) is not None:
                found.append(process)
    return found


def _add_descendants(found: dict[int, Owner], seen: Mapping[int, Process]) -> None:
    """Children of a member are members, whatever they did to their session and environment."""
    children: dict[int, list[int]] = {}
    for process in seen.values():
        children.setdefault(process.parent, []).append(process.pid)
    waiting = list(found)
    while waiting:
        parent = waiting.pop()
        for child in children.get(parent, ()):
            if child not in found:
                found[child] = found[parent]
                waiting.append(child)


def is_running(process: Process | None) -> bool:
    """Whether exactly this process lives."""
    now = None if process is None else read_process(process.pid)
    return now is not None and process is not None and now.started == process.started and now.alive


def open_pidfd(process: Process) -> int | None:
    """A handle on exactly this process; None if it is gone or a zombie."""
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    if is_running(process):
        return fd
    os.close(fd)
    return None


def send(process: Process, signum: signal.Signals) -> bool:
    """Signal exactly this process. False: it is gone, or not ours to signal."""
    fd = open_pidfd(process)
    if fd is None:
        return False
    try:
        signal.pidfd_send_signal(fd, signum)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(fd)
    return True
