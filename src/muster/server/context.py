"""What the server holds while it runs: the store, the bus, the clock."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from muster.domain.names import RandomBytes
from muster.server.logshare import LogShare
from muster.service.bus import Bus
from muster.store.blobs import BlobPool
from muster.store.database import Database
from muster.store.logs import LogStore
from muster.store.usage import UsageStore

CLOSING = "closing"  #: told to every held request when the server is about to stop
MAX_BODY = 32 * 1024 * 1024


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How one server is set up."""

    database_url: str
    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 8700
    local_user: str | None = None  #: signed in without a key, from this machine and this account only
    allowed_hosts: frozenset[str] = frozenset()  #: further names it may be called by


@dataclass(kw_only=True)
class Context:
    settings: Settings
    db: Database
    bus: Bus
    logs: LogStore
    log_share: LogShare
    usage: UsageStore
    blobs: BlobPool
    secret: str = ""
    now: Callable[[], datetime] = utc_now
    random: RandomBytes = os.urandom
    closing: bool = False
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @classmethod
    def open(cls, settings: Settings) -> Context:
        bus = Bus()
        db = Database(settings.database_url, on_commit=bus.publish)
        logs = LogStore(settings.data_dir / "logs")
        return cls(
            settings=settings,
            db=db,
            bus=bus,
            logs=logs,
            log_share=LogShare(db, bus, logs),
            usage=UsageStore(settings.data_dir / "usage"),
            blobs=BlobPool(settings.data_dir / "code"),
        )

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def begin_closing(self) -> None:
        """Let every held request go."""
        self.closing = True
        self.bus.publish([CLOSING])

    async def close(self) -> None:
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await asyncio.to_thread(self.db.close)
