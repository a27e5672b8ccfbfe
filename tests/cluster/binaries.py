"""The programs of a cluster: given, found on PATH, or built once through Go modules into a cache of the user.

`go/` holds one Go module for each group of programs. Its go.mod pins the versions and its go.sum the
checksums; nothing else names a version. What a project ships beside its programs, such as the definitions of
its resources, is kept with them.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cluster.errors import CannotBeHad, ClusterError

_MODULES = Path(__file__).with_name("go")


@dataclass(frozen=True, kw_only=True)
class Group:
    """Programs that go together: all of them come from one place, so that versions are not mixed."""

    name: str
    module: str  #: the folder with its go.mod
    packages: Mapping[str, str]  #: of each program
    on_path: bool = True  #: whether those on PATH will do
    keeps: tuple[str, ...] = ()  #: files and folders of its project that are needed too
    project: str = ""  #: the Go module that has them
    target: str = "test-cluster"  #: of make, which builds it

    @property
    def folder(self) -> Path:
        return _MODULES / self.module

    @property
    def cache(self) -> Path:
        """Another version, another folder."""
        files = [self.folder.joinpath(name) for name in ("go.mod", "go.sum", "main.go")]
        content = b"".join(path.read_bytes() for path in files if path.exists())
        key = hashlib.sha256(content + os.uname().machine.encode()).hexdigest()[:16]
        return _cache() / f"{self.name}-{key}"

    @property
    def needs(self) -> tuple[str, ...]:
        return (*self.packages, *(f"share/{self.name}/{path}" for path in self.keeps))


JOBSET = Group(
    name="jobset",
    module="jobset",
    packages={"jobset-controller": "sigs.k8s.io/jobset"},
    on_path=False,
    keeps=("config",),
    project="sigs.k8s.io/jobset",
)
GROUPS = (
    Group(
        name="kubernetes",
        module="kubernetes",
        packages={
            program: f"k8s.io/kubernetes/cmd/{program}"
            for program in (
                "kube-apiserver",
                "kube-controller-manager",
                "kube-scheduler",
                "kubelet",
                "kubectl",
            )
        },
    ),
    # Debian 12 has one that is too old to serve watches that begin with a list, which clients ask for by now.
    Group(name="etcd", module="kubernetes", packages={"etcd": "go.etcd.io/etcd/server/v3"}, on_path=False),
    Group(name="coredns", module="coredns", packages={"coredns": "."}),
    Group(name="kwok", module="kwok", packages={"kwok": "sigs.k8s.io/kwok/cmd/kwok"}),
    Group(
        name="metrics-server",
        module="metrics-server",
        packages={"metrics-server": "sigs.k8s.io/metrics-server/cmd/metrics-server"},
    ),
    JOBSET,
)

TRAINING_OPERATOR = Group(
    name="training-operator",
    module="training-operator",
    packages={"training-operator": "github.com/kubeflow/training-operator/cmd/training-operator.v1"},
    on_path=False,
    keeps=("manifests",),
    project="github.com/kubeflow/training-operator",
    target="test-training",
)
VOLCANO = Group(
    name="volcano",
    module="volcano",
    packages={
        f"vc-{program}": f"volcano.sh/volcano/cmd/{program}"
        for program in ("controller-manager", "scheduler", "webhook-manager")
    },
    on_path=False,
    keeps=("installer/volcano-development.yaml", "installer/helm/chart/volcano/config"),
    project="volcano.sh/volcano",
    target="test-training",
)
#: They bring a Kubernetes of their own, which takes minutes; only tests with the mark `training` need them.
TRAINING = (TRAINING_OPERATOR, VOLCANO)


def find(groups: Sequence[Group] = GROUPS) -> dict[str, Path]:
    """Where each program is, and what is kept with them."""
    found = [(group, _find(group)) for group in groups]
    if missing := [group for group, paths in found if not paths]:
        names = ", ".join(group.name for group in missing)
        raise CannotBeHad(f"not built yet: {names}; make {missing[0].target} builds them")
    return {name: path for _, paths in found for name, path in paths.items()}


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Of two who build at once, the second finds what the first has built."""
    _cache().mkdir(parents=True, exist_ok=True)
    with (_cache() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(groups: Sequence[Group] = GROUPS) -> None:
    """Build what cannot be found: some ten minutes, once."""
    if all(_find(group) for group in groups):
        return
    if shutil.which("go") is None:
        raise CannotBeHad("Go is not installed, and the programs of Kubernetes are not on PATH")
    for group in groups:
        if not _find(group):
            _build(group)


def _find(group: Group) -> dict[str, Path]:
    places = [group.cache]
    if group.on_path:
        places.insert(0, Path(shutil.which(next(iter(group.packages))) or "nowhere").parent)
    if given := os.environ.get("MUSTER_KUBE_BIN"):
        places.insert(0, Path(given))
    candidates = ({name: place / name for name in group.needs} for place in places)
    return next((found for found in candidates if all(map(Path.exists, found.values()))), {})


def _build(group: Group) -> None:
    started = time.monotonic()
    _say(f"Building {', '.join(group.packages)}: this is done once")
    if _go(group, "mod", "download"):
        raise CannotBeHad(f"Go cannot fetch the modules of {group.folder}; is its proxy reachable?")
    with tempfile.TemporaryDirectory(dir=_cache()) as scratch:
        target = Path(scratch) / "bin"
        # All at once: one is linked while another is compiled. And not with -trimpath: with it, Go compiles a
        # package again for every module that asked for another version of it, whatever `replace` says.
        if _go(group, "build", f"-ldflags={_flags(group)}", f"-o={target}/", *group.packages.values()):
            raise ClusterError(f"{group.name} cannot be built: go build failed in {group.folder}")
        for program, package in group.packages.items():
            (target / _name_by_go(group, package)).rename(target / program)
        _keep(group, target / "share" / group.name)
        target.rename(group.cache)
    _say(f"Built {', '.join(group.packages)} in {time.monotonic() - started:.0f} s")


def _name_by_go(group: Group, package: str) -> str:
    """What `go build` calls the program of a package: its last word that is no version."""
    words = (f"{group.folder}" if package == "." else package).split("/")
    return words[-2] if re.fullmatch(r"v[2-9]\d*", words[-1]) else words[-1]


def _keep(group: Group, target: Path) -> None:
    """Copies, because Go's cache of modules may be emptied at any time."""
    if not group.keeps:
        return
    shown = ["go", "list", "-m", "-f={{.Dir}}", group.project]
    source = Path(subprocess.check_output(shown, cwd=group.folder, env=_environment(), text=True).strip())
    kept = (file for path in group.keeps for file in (source / path, *(source / path).rglob("*")))
    for file in kept:
        if file.is_file():
            copy = target / file.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)


def _go(group: Group, *words: str) -> int:
    return subprocess.run(["go", *words], cwd=group.folder, env=_environment()).returncode


def _environment() -> dict[str, str]:
    settings = {
        "CGO_ENABLED": "0",
        "GOWORK": "off",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOGC": "400",  # of the compiler: memory for time
    }
    return os.environ | settings


def _flags(group: Group) -> str:
    """A program of Kubernetes knows its version from the linker."""
    flags = "-s -w"
    if match := re.search(r"k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)", (group.folder / "go.mod").read_text()):
        values = {"gitVersion": match[1], "gitMajor": match[2], "gitMinor": match[3]}
        flags += "".join(
            f" -X k8s.io/component-base/version.{name}={value}" for name, value in values.items()
        )
    return flags


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "muster" / "kube"


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
