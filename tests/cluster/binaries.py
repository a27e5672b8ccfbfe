"""The programs of a cluster: given, found on PATH, or built once through Go modules into a cache of the user.

`go/` holds one Go module for each group of programs. Its go.mod pins the versions and its go.sum the
checksums; nothing else names a version.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from cluster.errors import CannotBeHad, ClusterError

_MODULES = Path(__file__).with_name("go")


@dataclass(frozen=True, kw_only=True)
class Module:
    name: str
    programs: tuple[str, ...]
    package: str  #: what `go build` is given; "tool" stands for all that go.mod lists as such

    @property
    def folder(self) -> Path:
        return _MODULES / self.name

    @property
    def cache(self) -> Path:
        """Another version, another folder."""
        content = b"".join(path.read_bytes() for path in sorted(self.folder.iterdir()))
        key = hashlib.sha256(content + os.uname().machine.encode()).hexdigest()[:16]
        return _cache() / f"{self.name}-{key}"


MODULES = (
    Module(
        name="kubernetes",
        programs=("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl"),
        package="tool",
    ),
    Module(name="coredns", programs=("coredns",), package="."),
    Module(name="kwok", programs=("kwok",), package="tool"),
)


def find() -> dict[str, Path]:
    """Where each program is. Those of one module come from one place: versions are not mixed."""
    found = {module.name: _find(module) for module in MODULES}
    if missing := [name for name, programs in found.items() if not programs]:
        raise CannotBeHad(
            f"the programs of {', '.join(missing)} are not built yet; make test-cluster does it"
        )
    return {name: path for programs in found.values() for name, path in programs.items()}


def build() -> None:
    """Build what cannot be found: ten minutes or more, once. Two who want it at once build it once."""
    if all(_find(module) for module in MODULES):
        return
    if shutil.which("go") is None:
        raise CannotBeHad("Go is not installed, and the programs of Kubernetes are not on PATH")
    _cache().mkdir(parents=True, exist_ok=True)
    with (_cache() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for module in MODULES:
            if not _find(module):
                _build(module)


def _find(module: Module) -> dict[str, Path]:
    places = [Path(given) for given in [os.environ.get("MUSTER_KUBE_BIN")] if given] + [module.cache]
    on_path = {name: shutil.which(name) for name in module.programs}
    candidates = [{name: place / name for name in module.programs} for place in places]
    if all(on_path.values()):
        candidates.insert(-1, {name: Path(path) for name, path in on_path.items() if path})
    return next((found for found in candidates if all(path.exists() for path in found.values())), {})


def _build(module: Module) -> None:
    _say(f"Building {', '.join(module.programs)} into {module.cache} …")
    started = time.monotonic()
    environment = os.environ | {
        "CGO_ENABLED": "0",
        "GOWORK": "off",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
    }
    if _go(["mod", "download"], module, environment).returncode:
        raise CannotBeHad(f"Go cannot fetch the modules of {module.folder}: is its module proxy reachable?")
    with tempfile.TemporaryDirectory(dir=_cache()) as scratch:
        target = Path(scratch) / "bin"
        target.mkdir()
        flags = f"-s -w {_version_flags(module)}"
        done = _go(
            ["build", "-trimpath", "-ldflags", flags, "-o", f"{target}/", module.package], module, environment
        )
        if done.returncode:
            raise ClusterError(f"go build in {module.folder} ended with {done.returncode}")
        target.rename(module.cache)
    _say(f"Built {', '.join(module.programs)} in {time.monotonic() - started:.0f} s")


def _go(words: list[str], module: Module, environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["go", *words], cwd=module.folder, env=environment)


def _version_flags(module: Module) -> str:
    """A program of Kubernetes knows its version from the linker."""
    match = re.search(r"k8s\.io/kubernetes v(\d+)\.(\d+)\.\S+", (module.folder / "go.mod").read_text())
    if match is None:
        return ""
    version = match[0].split()[1]
    values = {"gitVersion": version, "gitMajor": match[1], "gitMinor": match[2]}
    return " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "muster" / "kube"


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
