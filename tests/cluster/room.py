"""A room for processes: their own process ids, mounts and network, that vanish with the first process of it.

Nothing outside can be left behind by a crash: when the owner dies, the kernel kills that first process, and
with it every process, mount, bridge and route of the room. Only the folder and the control groups are files;
they are swept by the next owner, who finds their lock free.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Self

from cluster.errors import CannotBeHad, ClusterError

_PREFIX = "muster-cluster-"
#: Says that it lives, then waits for ever. Orphans of the room become its children: ignored means reaped.
_FIRST = """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print(flush=True)
while True:
    signal.pause()
"""
_CONTROL_GROUPS = Path("/sys/fs/cgroup")


class Room:
    def __init__(self, folder: Path, *, first: int) -> None:
        self.folder = folder
        self.logs = folder / "logs"
        self.pid = first  #: the first process, as seen from outside
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @classmethod
    def open(cls, *, stays: bool = False) -> Self:
        """A new one. It goes when this process does, unless it `stays`."""
        with _all_rooms():
            _sweep()
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
            lock = _lock_of(folder).open("w")
            fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / "logs").mkdir()
        try:
            for path in _control_group_folders(folder.name):
                path.mkdir(exist_ok=True)
            _delegate(folder.name)
        except OSError as error:
            lock.close()
            _remove(folder)
            raise CannotBeHad(f"this machine gives nobody control groups of their own ({error})") from error
        with lock:  # from here on the two processes hold it that make the room
            outer = _unshare(folder, lock, dies_with_us=not stays)
        if outer is None:
            said = (folder / "logs" / "room.log").read_text().strip()
            _remove(folder)
            raise CannotBeHad(f"this machine gives no process a room of its own ({said})")
        room = cls(folder, first=_only_child(outer.pid))
        room._processes["room"] = outer
        (folder / "first").write_text(str(room.pid))
        return room

    @classmethod
    def existing(cls, folder: Path) -> Self | None:
        """The one with this folder, if it lives."""
        if not folder.is_dir() or _is_free(folder):
            return None
        return cls(folder, first=int((folder / "first").read_text()))

    @property
    def control_group(self) -> str:
        return "/" + self.folder.name

    def run(self, *command: str, env: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(
            [*self._enter(), *command], capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL
        )
        if done.returncode:
            raise ClusterError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def start(self, name: str, *command: str, env: Mapping[str, str] | None = None) -> None:
        """Start a process under this name; it writes to a log of the same name."""
        with (self.logs / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*self._enter(), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env,
                start_new_session=True,
            )

    def wait_for(self, name: str, ready: Callable[[], bool], *, seconds: float = 120.0) -> None:
        deadline = time.monotonic() + seconds
        while not ready():
            status = self._processes[name].poll()
            if status is not None:
                raise ClusterError(f"{name} ended with {status}:\n{self._last_words(name)}")
            if time.monotonic() > deadline:
                raise ClusterError(f"{name} was not ready within {seconds:g} s:\n{self._last_words(name)}")
            time.sleep(0.05)

    def stop(self, name: str, *, how: signal.Signals = signal.SIGTERM, seconds: float = 15.0) -> None:
        """Stop that process, and wait until it is gone. What it started lives on."""
        process = self._processes.pop(name)
        with suppress(ProcessLookupError, StopIteration):
            os.kill(_only_child(process.pid), how)  # `nsenter` stands between, and passes no signal on
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.kill(_only_child(process.pid), signal.SIGKILL)
            process.wait(seconds)

    def close(self) -> None:
        """End every process in it, and remove what is left of it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        for process in self._processes.values():
            process.wait(30)
        self._processes.clear()
        deadline = time.monotonic() + 30
        while not _is_free(self.folder):
            if time.monotonic() > deadline:
                raise ClusterError(f"The processes of {self.folder} do not end.")
            time.sleep(0.02)
        _remove(self.folder)

    def _enter(self) -> list[str]:
        return ["nsenter", f"--target={self.pid}", "--pid", "--mount", "--net", "--"]

    def _last_words(self, name: str) -> str:
        lines = (self.logs / f"{name}.log").read_text(errors="replace").splitlines()
        return "\n".join(line[:400] for line in lines[-20:])


def _unshare(folder: Path, lock: IO[str], *, dies_with_us: bool) -> subprocess.Popen[bytes] | None:
    """The process that waits for the first one of the room, once that lives."""
    guard = ["setpriv", "--pdeathsig", "KILL"] if dies_with_us else []
    apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--net"]
    with (folder / "logs" / "room.log").open("wb") as log:
        outer = subprocess.Popen(
            [*guard, *apart, sys.executable, "-I", "-S", "-c", _FIRST],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            pass_fds=[lock.fileno()],
            start_new_session=True,
        )
    assert outer.stdout is not None
    with outer.stdout as said:
        if said.read(1):
            return outer
    outer.wait()
    return None


def sweep() -> None:
    """Remove what rooms left whose processes are gone."""
    with _all_rooms():
        _sweep()


def _sweep() -> None:
    top = Path(tempfile.gettempdir())
    names = {path.name for place in (top, *_hierarchies()) for path in place.glob(_PREFIX + "*")}
    for name in names:
        if _is_free(top / name):
            _remove(top / name)


@contextmanager
def _all_rooms() -> Iterator[None]:
    """Nobody sweeps between the making of a folder and the taking of its lock."""
    top = os.open(tempfile.gettempdir(), os.O_RDONLY | os.O_DIRECTORY)  # no file of its own, that would stay
    try:
        fcntl.flock(top, fcntl.LOCK_EX)
        yield
    finally:
        os.close(top)


def _lock_of(folder: Path) -> Path:
    return folder / "lock"


def _is_free(folder: Path) -> bool:
    try:
        with _lock_of(folder).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False
    return True


def _only_child(pid: int) -> int:
    return int(next(iter(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())))


def _control_group_folders(name: str) -> list[Path]:
    return [hierarchy / name for hierarchy in _hierarchies()]


def _hierarchies() -> list[Path]:
    """Those of version 1, or the one of version 2."""
    if (_CONTROL_GROUPS / "cgroup.controllers").exists():
        return [_CONTROL_GROUPS]
    return [path for path in _CONTROL_GROUPS.iterdir() if path.is_dir() and not path.is_symlink()]


def _delegate(name: str) -> None:
    """Version 2 gives a group no controller that its parent does not hand down."""
    available = _CONTROL_GROUPS / "cgroup.controllers"
    if available.exists():
        words = " ".join(f"+{controller}" for controller in available.read_text().split())
        for group in (_CONTROL_GROUPS, _CONTROL_GROUPS / name):
            (group / "cgroup.subtree_control").write_text(words)


def _remove(folder: Path) -> None:
    for group in _control_group_folders(folder.name):
        for path in sorted(group.glob("**/"), key=lambda path: len(path.parts), reverse=True):
            _remove_group(path)
        _remove_group(group)
    shutil.rmtree(folder, ignore_errors=True)


def _remove_group(group: Path) -> None:
    """A process that was killed a moment ago still counts as a member."""
    deadline = time.monotonic() + 10
    while group.exists():
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
