"""Files that nothing speaks of any more: of runs that were deleted, of uploads that broke off.

A run's files are removed after the commit that deletes it. Whatever comes between, a crash or a backup
that needs them, is made up for here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from muster.store import records, runs
from muster.store.blobs import BlobPool
from muster.store.database import Database
from muster.store.logs import LogStore
from muster.store.removal import may_remove
from muster.store.usage import UsageStore

_AT_ONCE = 500


@dataclass(frozen=True, kw_only=True)
class Files:
    """What a server keeps beside its database."""

    data_dir: Path
    logs: LogStore
    usage: UsageStore
    blobs: BlobPool

    def remove(self, run_ids: Iterable[str]) -> None:
        """Remove the files of deleted runs, unless a backup is reading: then the next tidying does."""
        with may_remove(self.data_dir) as free:
            for run_id in run_ids if free else ():
                self.logs.remove_run(run_id)
                self.usage.remove_run(run_id)

    def run_ids(self) -> list[str]:
        return sorted({*self.logs.run_ids(), *self.usage.run_ids()})


async def tidy(db: Database, files: Files) -> None:
    """Remove what crashes left. Other servers may use the same files at the same time."""
    there = await asyncio.to_thread(files.run_ids)  # before the database is asked: a run is in it first
    leftovers = await db.read(lambda conn: _deleted(conn, there))
    await asyncio.to_thread(files.remove, leftovers)
    await asyncio.to_thread(files.blobs.sweep)


def _deleted(conn: Connection, run_ids: Sequence[str]) -> list[str]:
    """Those that are gone *and* on record as deleted: a database that lost its runs must not take the
    logs along."""
    found: list[str] = []
    for start in range(0, len(run_ids), _AT_ONCE):
        some = run_ids[start : start + _AT_ONCE]
        unknown = sorted(set(some) - runs.existing(conn, some))
        found += records.deleted_runs(conn, unknown) if unknown else []
    return found
