"""Control groups: what this process may use at most, and a memory limit around a replica.

Both layouts are known: one hierarchy (v2), and one per controller (v1). A group is made only for a replica
that asks for memory: without one, moving a process into a group waits for the kernel's RCU (milliseconds),
and finding a replica's processes does not need it.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

_LEAF = "muster-agent"


@dataclass(frozen=True, kw_only=True)
class Own:
    """Where this process is in one hierarchy."""

    mount: Path
    path: Path  #: its own group; `mount` or below it
    version: int

    def upwards(self) -> list[Path]:
        """The own group and all above it that can be seen."""
        groups = [self.path]
        while groups[-1] != self.mount:
            groups.append(groups[-1].parent)
        return groups


def own(controller: str) -> Own | None:
    """The hierarchy that has this controller, if it is mounted."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text()
        groups = Path("/proc/self/cgroup").read_text()
    except OSError:
        return None
    return parse_own(controller, mounts=mounts, groups=groups)


def parse_own(controller: str, *, mounts: str, groups: str) -> Own | None:
    paths: dict[str, str] = {}
    for line in groups.splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            paths[name] = path
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        root, mount = left.split(" ")[3:5]
        if kind == "cgroup" and controller in paths and controller in options.split(","):
            return _locate(Path(mount), root, paths[controller], version=1)
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        root, mount = left.split(" ")[3:5]
        if right.startswith("cgroup2 ") and "" in paths and controller not in paths:
            return _locate(Path(mount), root, paths[""], version=2)
    return None


def _locate(mount: Path, root: str, path: str, *, version: int) -> Own:
    # In a container the mount may show only a part of the tree, and the path may lie outside of it.
    inside = os.path.relpath(path, root)
    return Own(mount=mount, path=mount if inside.startswith("..") else mount / inside, version=version)


def memory_limit() -> int | None:
    """The tightest memory limit on this process."""
    here = own("memory")
    if here is None:
        return None
    name = "memory.max" if here.version == 2 else "memory.limit_in_bytes"
    limits = [limit for group in here.upwards() if (limit := _number(group / name)) is not None]
    return min(limits, default=None)


def cpu_limit() -> float | None:
    """The tightest CPU quota on this process, in cores."""
    here = own("cpu")
    if here is None:
        return None
    quotas: list[float] = []
    for group in here.upwards():
        if here.version == 2:
            words = _read(group / "cpu.max").split()
        else:
            words = [_read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us")]
        if len(words) == 2 and words[0].isdigit() and words[1].isdigit():
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


class MemoryGroups:
    """Makes groups with a memory limit below the agent's own, where the host lets it."""

    def __init__(self) -> None:
        here = own("memory")
        self._parent = None if here is None else here.path
        if here is not None and here.path.name == _LEAF:  # moved there by an earlier one
            self._parent = here.path.parent
        self._version = 2 if here is None else here.version
        self._ready = False

    def make(self, name: str, limit: int) -> Path | None:
        """A new group with this limit; None where groups cannot be made."""
        if self._parent is None or not self._prepare(self._parent):
            return None
        group = self._parent / name
        try:
            group.mkdir(exist_ok=True)
            if self._version == 2:
                (group / "memory.max").write_text(str(limit))
                with contextlib.suppress(OSError):
                    (group / "memory.swap.max").write_text("0")
                with contextlib.suppress(OSError):
                    (group / "memory.oom.group").write_text("0")
            else:
                (group / "memory.limit_in_bytes").write_text(str(limit))
                with contextlib.suppress(OSError):
                    (group / "memory.memsw.limit_in_bytes").write_text(str(limit))
        except OSError:
            with contextlib.suppress(OSError):
                group.rmdir()
            return None
        return group

    def _prepare(self, parent: Path) -> bool:
        """On v2, hand the memory controller down; only a group without processes of its own may."""
        if self._ready or self._version == 1:
            return True
        if "memory" in _read(parent / "cgroup.subtree_control").split():
            self._ready = True
            return True
        if "memory" not in _read(parent / "cgroup.controllers").split():
            return False
        try:
            leaf = parent / _LEAF
            leaf.mkdir(exist_ok=True)
            (leaf / "cgroup.procs").write_text(str(os.getpid()))
            (parent / "cgroup.subtree_control").write_text("+memory")
        except OSError:  # not ours, or other programs share the group
            return False
        self._ready = True
        return True


def was_killed_for_memory(group: Path) -> bool:
    """Whether the kernel ended a process of this group for being over its limit."""
    for name in ("memory.events", "memory.oom_control"):
        match = re.search(r"^oom_kill (\d+)$", _read(group / name), re.MULTILINE)
        if match:
            return int(match[1]) > 0
    return False


def group_pids(group: Path) -> list[int]:
    """The processes in this group and below it."""
    found: list[int] = []
    for directory, _, _ in os.walk(group):
        found.extend(int(pid) for pid in _read(Path(directory) / "cgroup.procs").split())
    return found


def kill_group(group: Path) -> bool:
    """End every process of the group at once; False where the kernel cannot (v1, before 5.14)."""
    try:
        (group / "cgroup.kill").write_text("1")
    except OSError:
        return False
    return True


def remove_group(group: Path) -> None:
    """Remove an empty group and those below it."""
    with contextlib.suppress(OSError):
        for directory, _, _ in os.walk(group, topdown=False):
            os.rmdir(directory)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _read(path)
    return int(text) if text.isdigit() else None
