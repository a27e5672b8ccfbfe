"""What a disk that cannot be written means to whoever sent the bytes."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from muster.domain.errors import StoreUnavailable

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def writing(what: str) -> Iterator[None]:
    """Around writes of `what`: it says in words that the disk is full, and that sending again will do."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StoreUnavailable(
                f"The server's disk is full: {what} cannot be written.",
                hint="Make room in the server's data directory. What was not taken is sent again.",
            ) from error
        raise StoreUnavailable(
            f"The server cannot write {what}: {error.strerror}.",
            hint="Look after the server's data directory. What was not taken is sent again.",
        ) from error
