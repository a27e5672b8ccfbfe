"""Code snapshots: announce, receive what is missing, hand out as an archive."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from datetime import datetime

from sqlalchemy import Connection

from muster.domain.access import Action, Actor
from muster.domain.errors import Conflict, NotFound
from muster.domain.snapshot import Snapshot
from muster.store import accounts, records
from muster.store.blobs import BlobPool
from muster.store.database import Tx


def announce(tx: Tx, actor: Actor, entity: str | None, snapshot: Snapshot, *, now: datetime) -> str:
    """Enter a snapshot; returns the entity it belongs to. It can be launched once complete."""
    owner = entity or actor.default_entity
    actor.require(Action.LAUNCH, owner)
    if accounts.find_entity(tx.conn, owner) is None:
        raise NotFound("entity", owner, known=actor.roles)
    if records.find_snapshot(tx.conn, owner, snapshot.id) is None:
        records.add_snapshot(
            tx.conn, owner, snapshot.id, snapshot.to_data(), size=snapshot.total_bytes, at=now
        )
    return owner


def complete(tx: Tx, entity: str, snapshot: Snapshot, pool: BlobPool) -> None:
    _require_all(pool, entity, snapshot)
    records.complete_snapshot(tx.conn, entity, snapshot.id)


def _require_all(pool: BlobPool, entity: str, snapshot: Snapshot) -> None:
    missing = pool.missing(entity, snapshot.blobs)
    if missing:
        raise Conflict(
            f"{len(missing)} files of the snapshot are still missing.", hint="Send them, then retry."
        )


def find(conn: Connection, actor: Actor, entity: str | None, snapshot_id: str) -> tuple[str, Snapshot]:
    owner = entity or actor.default_entity
    actor.require_code(owner, snapshot_id)
    record = records.find_snapshot(conn, owner, snapshot_id)
    if record is None:
        raise NotFound("snapshot", snapshot_id, hint="Launch the folder again: it is uploaded anew.")
    return owner, Snapshot.from_data(record.manifest)


def archive(pool: BlobPool, entity: str, snapshot: Snapshot) -> Iterator[bytes]:
    """The snapshot as an uncompressed tar, piece by piece."""
    _require_all(pool, entity, snapshot)
    return _pieces(pool, entity, snapshot)


def checksums(snapshot: Snapshot) -> str:
    """As `sha256sum -c` reads them. Links have no content of their own."""
    return "".join(f"{file.sha256}  {file.path}\n" for file in snapshot.files if file.link is None)


def _pieces(pool: BlobPool, entity: str, snapshot: Snapshot) -> Iterator[bytes]:
    for file in snapshot.files:
        header = tarfile.TarInfo(file.path)
        header.mode = file.mode
        if file.link is not None:
            header.type, header.linkname = tarfile.SYMTYPE, file.link
            yield header.tobuf(tarfile.PAX_FORMAT)
            continue
        header.size = file.size
        yield header.tobuf(tarfile.PAX_FORMAT)
        with pool.path(entity, file.sha256).open("rb") as content:
            while piece := content.read(256 * 1024):
                yield piece
        yield b"\0" * (-file.size % tarfile.BLOCKSIZE)
    yield b"\0" * (2 * tarfile.BLOCKSIZE)
