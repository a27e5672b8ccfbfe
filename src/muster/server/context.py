"""What the server holds while it runs: the store, the bus, the clock."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from muster.domain.errors import MusterError
from muster.domain.git import DEFAULT_SCHEMES
from muster.domain.names import RandomBytes
from muster.server.logshare import LogShare
from muster.service import claim, sweep
from muster.service.bus import Bus
from muster.service.claim import Ask, Assignment
from muster.service.tidy import Files
from muster.store import postgres
from muster.store.blobs import BlobPool
from muster.store.database import Database, Tx
from muster.store.logs import LogStore
from muster.store.usage import UsageStore

CLOSING = "closing"  #: told to every held request when the server is about to stop
MAX_BODY = 32 * 1024 * 1024
WEB_DIR = Path(__file__).with_name("web")  #: made by `make web`; not there in a plain checkout


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass
class SharedClock:
    """The database's clock, by which all servers that share it go."""

    ahead: timedelta = timedelta()  #: of this machine's

    def now(self) -> datetime:
        return utc_now() + self.ahead

    def set(self, now: datetime) -> None:
        self.ahead = now - utc_now()


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How one server is set up."""

    database_url: str
    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 8700
    local_user: str | None = None  #: signed in without a key, from this machine and this account only
    allowed_hosts: frozenset[str] = frozenset()  #: further names it may be called by
    git_schemes: frozenset[str] = DEFAULT_SCHEMES  #: of addresses that may be launched from
    web_dir: Path = WEB_DIR
    public_url: str | None = None  #: where runs reach it; None: where their agent does

    @property
    def hosts(self) -> frozenset[str]:
        """Every name it may be called by."""
        public = urlsplit(self.public_url).hostname if self.public_url else None
        return self.allowed_hosts | {self.host, *([public] if public else ())}


@dataclass(kw_only=True)
class Context:
    settings: Settings
    db: Database
    bus: Bus
    logs: LogStore
    log_share: LogShare
    usage: UsageStore
    blobs: BlobPool
    clock: SharedClock
    secret: str = ""
    now: Callable[[], datetime] = utc_now
    random: RandomBytes = os.urandom
    closing: bool = False
    topics: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)  #: what wakes whom
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    #: serves all agents that ask at the same time; one function, so that they are found to be of a kind
    assign: Callable[[Tx, Sequence[Ask]], Sequence[Assignment | MusterError]] = field(init=False)

    @classmethod
    def open(cls, settings: Settings) -> Context:
        bus = Bus()
        clock = SharedClock()
        db = Database(settings.database_url, on_commit=bus.publish)
        logs = LogStore(settings.data_dir / "logs")
        return cls(
            settings=settings,
            clock=clock,
            now=clock.now,
            db=db,
            bus=bus,
            logs=logs,
            log_share=LogShare(db, bus, logs),
            usage=UsageStore(settings.data_dir / "usage"),
            blobs=BlobPool(settings.data_dir / "code"),
        )

    def __post_init__(self) -> None:
        self.assign = lambda tx, asks: claim.assign(tx, asks, now=self.now())

    async def keep_time(self) -> None:
        """Set the clock by the database's, where it has one, and note that a server is there."""
        if self.db.shared:
            self.clock.set(await self.db.read(postgres.time_of))
        await self.db.write(partial(sweep.keep_time, now=self.now()))

    @property
    def files(self) -> Files:
        return Files(data_dir=self.settings.data_dir, logs=self.logs, usage=self.usage, blobs=self.blobs)

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
