"""What a cluster needs of the machine: root, and a few programs that Debian has packages of."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from cluster.errors import CannotBeHad, ClusterError

_PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "busybox": "busybox-static",
    "ip": "iproute2",
    "openssl": "openssl",
    "nsenter": "util-linux",
}


def require() -> None:
    if os.geteuid() != 0:
        raise CannotBeHad("a cluster needs root")
    if missing := _missing():
        raise CannotBeHad(f"these packages are missing: {' '.join(missing)}; make test-cluster installs them")


def install() -> None:
    """Install what is missing, where root may."""
    if os.geteuid() != 0:
        raise CannotBeHad("a cluster needs root")
    missing = _missing()
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise CannotBeHad(f"install what these packages of Debian have: {' '.join(missing)}")
    print(f"Installing {' '.join(missing)} …", file=sys.stderr, flush=True)
    # In run level 1 nothing that was installed is started: a cluster starts its own.
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for words in (["update"], ["install", "--yes", "--no-install-recommends", *missing]):
        done = subprocess.run(["apt-get", "-qq", *words], env=environment, capture_output=True, text=True)
        if done.returncode:
            raise ClusterError(
                f"apt-get {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}"
            )


def _missing() -> list[str]:
    return [package for program, package in _PACKAGES.items() if not _is_there(program)]


def _is_there(program: str) -> bool:
    return Path(program).exists() if program.startswith("/") else shutil.which(program) is not None
