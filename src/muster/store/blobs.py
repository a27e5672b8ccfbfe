"""Code on disk: files by the hash of their content, one pool per entity.

No name from a client becomes a path: hashes are checked to be hashes, entities to be names.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from muster._failpoint import failpoint
from muster.domain.errors import BadInput
from muster.domain.names import checked_name

_SHA256 = re.compile(r"[0-9a-f]{64}")


class BlobPool:
    """Content-addressed files. A file is there whole or not at all."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, entity: str, sha256: str) -> Path:
        if _SHA256.fullmatch(sha256) is None:
            raise BadInput(f"{sha256[:80]!r} is not a SHA-256 hash.")
        return self._root / checked_name(entity, what="entity") / sha256[:2] / sha256

    def missing(self, entity: str, hashes: Iterable[str]) -> list[str]:
        """Those of `hashes` that are not here, each once, in order."""
        return [sha for sha in dict.fromkeys(hashes) if not self.path(entity, sha).exists()]

    def receive(self, entity: str, sha256: str) -> Incoming:
        return Incoming(self.path(entity, sha256))

    def sweep(self) -> None:
        """Remove what servers that were killed had begun to receive. What lives is locked, by whichever
        server shares this directory."""
        for left in self._root.glob("*/??/.*"):
            with suppress(OSError), left.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left.unlink()


class Incoming:
    """One file on its way in, kept on `commit`. Whoever writes it has checked the hash by then."""

    def __init__(self, target: Path) -> None:
        self._target = target
        target.parent.mkdir(parents=True, exist_ok=True)
        self._temporary = target.with_name(f".{target.name}.{os.urandom(6).hex()}")
        while True:
            self._file = self._temporary.open("wb")
            fcntl.flock(self._file, fcntl.LOCK_EX)
            if os.fstat(self._file.fileno()).st_nlink:
                break
            self._file.close()  # swept away between open and lock

    def write(self, data: bytes | memoryview) -> None:
        self._file.write(data)

    def commit(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        failpoint("blob.before")
        self._temporary.replace(self._target)
        failpoint("blob.after")
        self._file.close()

    def abort(self) -> None:
        self._file.close()
        self._temporary.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.abort()
