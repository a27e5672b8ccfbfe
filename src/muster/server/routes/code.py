"""Code snapshots."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, StreamingResponse
from sqlalchemy import Connection

from muster.domain.access import Action
from muster.domain.errors import BadInput
from muster.domain.snapshot import Snapshot
from muster.server.auth import Caller, CodeReader, Ctx
from muster.service import code as service
from muster.store.blobs import Incoming
from muster.store.database import Tx
from muster.wire.code import SnapshotContent, SnapshotModel, SnapshotRequest
from muster.wire.frames import BlobData, BlobEnd, BlobStart, FrameReader

router = APIRouter(tags=["code"])


@router.post("/snapshots", status_code=201)
async def create_snapshot(ctx: Ctx, caller: Caller, asked: SnapshotRequest) -> SnapshotModel:
    """Announce code. The answer names the files the server does not have yet."""
    snapshot = await asyncio.to_thread(Snapshot.from_data, asked.manifest)
    now = ctx.now()
    owner = await ctx.db.write(lambda tx: service.announce(tx, caller, asked.entity, snapshot, now=now))
    missing = await asyncio.to_thread(ctx.blobs.missing, owner, snapshot.blobs)
    if not missing:
        await ctx.db.write(lambda tx: service.complete(tx, owner, snapshot, ctx.blobs))
    return SnapshotModel(id=snapshot.id, entity=owner, missing=missing, complete=not missing)


@router.post(
    "/snapshots/{snapshot_id}/blobs",
    openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": {}}}},
)
async def upload_blobs(
    ctx: Ctx, caller: Caller, snapshot_id: str, request: Request, entity: str | None = None
) -> SnapshotModel:
    """Send missing files in one stream: for each a line `SHA256 SIZE`, then its bytes."""
    owner, snapshot = await ctx.db.read(lambda conn: service.find(conn, caller, entity, snapshot_id))
    caller.require(Action.LAUNCH, owner)
    sizes = snapshot.blobs
    reader = FrameReader()
    incoming: Incoming | None = None
    try:
        async for piece in request.stream():
            for event in reader.feed(piece):
                match event:
                    case BlobStart(sha256=sha256, size=size):
                        if sizes.get(sha256) != size:
                            raise BadInput(f"{sha256[:12]}… is not a file of this snapshot.")
                        incoming = ctx.blobs.receive(owner, sha256)
                    case BlobData(data=data) if incoming is not None:
                        incoming.write(data)
                    case BlobEnd() if incoming is not None:
                        await asyncio.to_thread(incoming.commit)
                        incoming = None
        reader.close()
    finally:
        if incoming is not None:
            incoming.abort()

    def finish(tx: Tx) -> list[str]:
        missing = ctx.blobs.missing(owner, sizes)
        if not missing:
            service.complete(tx, owner, snapshot, ctx.blobs)
        return missing

    missing = await ctx.db.write(finish)
    return SnapshotModel(id=snapshot.id, entity=owner, missing=missing, complete=not missing)


@router.get("/snapshots/{snapshot_id}")
async def get_snapshot(
    ctx: Ctx, caller: Caller, snapshot_id: str, entity: str | None = None
) -> SnapshotContent:
    """The files of a snapshot."""

    def work(conn: Connection) -> SnapshotContent:
        owner, snapshot = service.find(conn, caller, entity, snapshot_id)
        return SnapshotContent(id=snapshot.id, entity=owner, manifest=snapshot.to_data())

    return await ctx.db.read(work)


@router.get(
    "/snapshots/{snapshot_id}/archive",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-tar": {}}}},
)
async def download_snapshot(
    ctx: Ctx, reader: CodeReader, snapshot_id: str, entity: str | None = None
) -> StreamingResponse:
    """The snapshot as a tar archive."""
    owner, snapshot = await ctx.db.read(lambda conn: service.find(conn, reader, entity, snapshot_id))
    pieces = await asyncio.to_thread(service.archive, ctx.blobs, owner, snapshot)
    return StreamingResponse(pieces, media_type="application/x-tar")


@router.get("/snapshots/{snapshot_id}/checksums", response_class=PlainTextResponse)
async def read_checksums(
    ctx: Ctx, reader: CodeReader, snapshot_id: str, entity: str | None = None
) -> PlainTextResponse:
    """Of every file of the snapshot, as `sha256sum -c` reads them."""
    _, snapshot = await ctx.db.read(lambda conn: service.find(conn, reader, entity, snapshot_id))
    return PlainTextResponse(service.checksums(snapshot))
