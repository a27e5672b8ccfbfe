"""Files of deleted runs are not removed while a backup copies them.

A backup holds `<data directory>/files.lock` shared, whoever removes files holds it alone. Nobody waits
to remove: what stays now is removed by the next tidying.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def files_kept(data_dir: Path) -> Iterator[None]:
    """While this is held, no file of a run is removed."""
    descriptor = _open(data_dir)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def may_remove(data_dir: Path) -> Iterator[bool]:
    """Whether files may be removed now; if so, until this is left."""
    descriptor = _open(data_dir)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _open(data_dir: Path) -> int:
    return os.open(data_dir / "files.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
