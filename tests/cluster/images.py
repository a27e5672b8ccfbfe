"""Container images made of files of this machine; nothing is pulled.

`BUSYBOX` has a shell and the usual commands; `PYTHON` has these and the Python that runs this, at the path it
has here. A virtual environment of this machine mounted into it at its own path therefore works there too.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from cluster.errors import ClusterError

BUSYBOX = "muster.test/busybox:1"
PYTHON = "muster.test/python:1"
PAUSE = "muster.test/pause:1"

_UNNEEDED = re.compile(
    r"/(test|tests|idlelib|lib2to3|turtledemo|tkinter|ensurepip|site-packages|dist-packages)$"
)
_PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n"
_SHELL_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def write_images(archive: Path) -> None:
    """All of them, as one archive in the layout of the Open Container Initiative."""
    layout = _Layout(archive)
    shell = layout.layer(_busybox)
    python = layout.layer(_python)
    layout.image(BUSYBOX, [shell], command=["sh"])
    layout.image(PYTHON, [shell, python], command=["python3"])
    # What holds the namespaces of a pod does nothing. It is killed at the end, so it needs to heed no signal.
    layout.image(PAUSE, [shell], command=["sleep", "infinity"])
    layout.finish()


class _Layout:
    def __init__(self, archive: Path) -> None:
        self._tar = tarfile.open(archive, "w")  # noqa: SIM115 — closed by finish()
        self._manifests: list[dict[str, Any]] = []

    def layer(self, fill: Any) -> dict[str, Any]:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            fill(_Files(tar))
        return self._blob("application/vnd.oci.image.layer.v1.tar", buffer.getvalue())

    def image(self, name: str, layers: Sequence[dict[str, Any]], *, command: Sequence[str]) -> None:
        config = {
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine],
            "os": "linux",
            "config": {"Env": [_SHELL_PATH], "Cmd": command, "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": self._blob("application/vnd.oci.image.config.v1+json", _bytes(config)),
            "layers": layers,
        }
        named = self._blob(manifest["mediaType"], _bytes(manifest))
        self._manifests.append(named | {"annotations": {"io.containerd.image.name": name}})

    def finish(self) -> None:
        self._add("oci-layout", _bytes({"imageLayoutVersion": "1.0.0"}))
        self._add("index.json", _bytes({"schemaVersion": 2, "manifests": self._manifests}))
        self._tar.close()

    def _blob(self, kind: Any, content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        self._add(f"blobs/sha256/{digest}", content)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}

    def _add(self, name: str, content: bytes) -> None:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        self._tar.addfile(entry, io.BytesIO(content))


class _Files:
    """The files of one layer. Everybody may read them: pods run as any account."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._made: set[str] = set()

    def copy(self, path: Path, to: str | None = None) -> None:
        entry = self._entry(to or str(path))
        if entry is None:
            return
        content = path.read_bytes()
        entry.size = len(content)
        entry.mode = 0o755 if os.access(path, os.X_OK) else 0o644
        self._tar.addfile(entry, io.BytesIO(content))

    def text(self, name: str, content: str) -> None:
        if entry := self._entry(name):
            entry.size = len(content.encode())
            self._tar.addfile(entry, io.BytesIO(content.encode()))

    def link(self, name: str, to: str) -> None:
        if entry := self._entry(name):
            entry.type = tarfile.SYMTYPE
            entry.linkname = to
            self._tar.addfile(entry)

    def folder(self, name: str, *, mode: int = 0o755) -> None:
        if entry := self._entry(name):
            entry.type = tarfile.DIRTYPE
            entry.mode = mode
            self._tar.addfile(entry)

    def _entry(self, name: str) -> tarfile.TarInfo | None:
        name = name.strip("/")
        if name in self._made:
            return None
        self._made.add(name)
        if "/" in name:
            self.folder(name.rpartition("/")[0])
        return tarfile.TarInfo(name)


def _busybox(files: _Files) -> None:
    for folder in ("root", "etc", "bin", "usr/bin"):
        files.folder(folder)
    for folder in ("tmp", "var/tmp"):
        files.folder(folder, mode=0o1777)
    files.text("etc/passwd", _PASSWD)
    files.text("etc/group", "root:x:0:\nnogroup:x:65534:\n")
    files.text("etc/nsswitch.conf", "hosts: files dns\n")
    binary = busybox()
    files.copy(binary, "/bin/busybox")
    for name in subprocess.check_output([binary, "--list"], text=True).split():
        files.link(f"/bin/{name}", "busybox")


def busybox() -> Path:
    """The static one: images of it need no library."""
    found = shutil.which("busybox")
    if found is None:
        raise ClusterError("busybox is missing. Install it: apt-get install busybox-static.")
    return Path(found).resolve()


def _python(files: _Files) -> None:
    executable = Path(sys.executable).resolve()
    library = Path(sysconfig.get_path("stdlib"))
    loaded = [executable]
    for path in _tree(library):
        files.copy(path)
        if path.suffix == ".so":
            loaded.append(path)
    files.copy(executable)
    for name in ("python", "python3", executable.name):  # virtual environments link to any of them
        for folder in (executable.parent, Path("/usr/bin")):
            files.link(f"{folder}/{name}", str(executable))
    for path in _libraries(loaded + _wanted_by_wheels()):
        files.copy(path.resolve(), str(path))


def _wanted_by_wheels() -> list[Path]:
    """What compiled packages of a mounted environment may count on, whether this Python needs it or not."""
    names = ("stdc++", "gcc_s", "m", "dl", "rt", "pthread", "util", "resolv", "z")
    places = (Path("/lib"), Path("/usr/lib"))
    return [
        found for name in names for place in places for found in place.glob(f"*-linux-gnu/lib{name}.so.[0-9]")
    ]


def _tree(top: Path) -> Iterator[Path]:
    for folder, names, files in os.walk(top):
        names[:] = [name for name in names if name != "__pycache__" and not _UNNEEDED.search(f"/{name}")]
        yield from (Path(folder, name) for name in files if not name.endswith((".a", ".pyc")))


def _libraries(loaded: Iterable[Path]) -> list[Path]:
    """The loader and the shared libraries of these, and of the libraries themselves."""
    said = subprocess.run(["ldd", *map(str, loaded)], capture_output=True, text=True).stdout
    found = set(re.findall(r"(?:=> |^\s+)(/\S+) \(0x", said, re.MULTILINE))
    return sorted(map(Path, found | {str(path) for path in loaded if ".so." in path.name}))


def _bytes(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()
