"""Code on disk: files by the hash of their content, one pool per entity.

No name from a client becomes a path: hashes are checked to be hashes, entities to be names.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

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

    def receive(self, entity: str, sha256: str, size: int) -> Incoming:
        return Incoming(self.path(entity, sha256), sha256, size)


class Incoming:
    """One file on its way in; kept on `commit` if its content is what was announced."""

    def __init__(self, target: Path, sha256: str, size: int) -> None:
        self._target = target
        self._expected = (sha256, size)
        target.parent.mkdir(parents=True, exist_ok=True)
        self._temporary = target.with_name(f".{target.name}.{os.urandom(6).hex()}")
        self._file = self._temporary.open("wb")
        self._digest = hashlib.sha256()
        self._size = 0

    def write(self, data: bytes | memoryview) -> None:
        self._file.write(data)
        self._digest.update(data)
        self._size += len(data)

    def commit(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        sha256, size = self._expected
        if (self._digest.hexdigest(), self._size) != (sha256, size):
            self.abort()
            raise BadInput(
                f"The content sent for {sha256[:12]}… is something else.",
                hint="A file changed while it was uploaded. Launch again.",
            )
        self._temporary.replace(self._target)

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
