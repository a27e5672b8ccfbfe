"""What this machine knows of a room: used to see that nothing is left of one."""

from __future__ import annotations

import os
from pathlib import Path


def namespace_of(pid: int) -> str:
    """The namespace of process ids that it is in."""
    return os.readlink(f"/proc/{pid}/ns/pid")


def processes_of(namespace: str) -> set[int]:
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "ns" / "pid") == namespace:
                found.add(int(process.name))
        except (FileNotFoundError, PermissionError):
            continue  # it has ended, or is none of ours
    return found


def traces(folder: Path) -> list[str]:
    """Files, control groups and mounts."""
    groups = Path("/sys/fs/cgroup").glob(f"**/{folder.name}")
    mounts = Path("/proc/mounts").read_text()
    return [str(path) for path in (folder, *groups) if path.exists()] + ["a mount"] * (folder.name in mounts)
