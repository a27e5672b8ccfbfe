"""What a server needs before it can serve: its database, its secret, its first user."""

from __future__ import annotations

import fcntl
import getpass
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from muster.domain.access import Actor, KeyKind, Role
from muster.domain.errors import Conflict, StoreUnavailable
from muster.domain.names import checked_name
from muster.server.context import Context, Settings
from muster.service import accounts, queue
from muster.store import accounts as store_accounts
from muster.store import migrations, records, unpack
from muster.store.database import Tx
from muster.store.soundness import require_usable

_BLOBS = "blob_dir_id"


@dataclass(frozen=True, kw_only=True)
class DataDir:
    """Where a server keeps its things."""

    path: Path

    @property
    def database(self) -> Path:
        return self.path / "muster.db"

    @property
    def moved(self) -> Path:
        """The SQLite file of an installation that has moved to PostgreSQL."""
        return self.path / "muster.db.moved"

    def set_database_aside(self) -> Path:
        """From now on only the server of the new database may use this directory."""
        for suffix in ("-wal", "-shm", ""):  # the name that counts goes last
            part = self.path / f"{self.database.name}{suffix}"
            if part.exists():
                part.replace(self.path / f"{self.moved.name}{suffix}")
        return self.moved

    @property
    def local_key(self) -> Path:
        """The local user's key, readable only by that user."""
        return self.path / "local.key"

    def lock(self, *, shared: bool = False, embedded: bool = True) -> int:
        """Hold the directory, for this server alone or with others of the same database; returns the
        descriptor that holds it. `embedded`: one that is alone has its database in there."""
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self.path / "server.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreUnavailable(
                f"The data directory {self.path} cannot be used: {error.strerror}.",
                hint="It must be a folder that this account may write to; choose one with --data-dir.",
            ) from error
        if embedded and not shared and self.moved.exists():
            os.close(descriptor)
            raise Conflict(
                f"The installation in {self.path} has moved to PostgreSQL.",
                hint="Start it with `muster server --database URL`, or use another --data-dir.",
            )
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise Conflict(
                f"Another Muster server already uses {self.path}.",
                hint="Stop that one, or give this one its own directory with --data-dir.",
            ) from error
        return descriptor


def prepare(context: Context) -> None:
    """Refuse a damaged database, bring it up to date, and check that the files beside it are its own."""
    folder = context.settings.data_dir
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    unpack.require_finished(folder)
    if not context.db.shared:
        require_usable(folder / "muster.db", used_before=(folder / "blobs.id").exists())
    context.db.write_now(_upgrade)
    context.db.write_now(lambda tx: _prepare(tx, context))


def _upgrade(tx: Tx) -> None:
    tx.alone("setup")
    migrations.upgrade(tx.conn)


def _prepare(tx: Tx, context: Context) -> None:
    tx.alone("setup")
    accounts.ensure_secret(tx, random=context.random)
    marker = context.settings.data_dir / "blobs.id"
    known = records.setting(tx.conn, _BLOBS)
    if known is None:
        if not marker.exists():
            marker.write_text(context.random(16).hex())
        records.set_setting(tx.conn, _BLOBS, marker.read_text().strip())
    elif not marker.exists() or marker.read_text().strip() != known:
        raise StoreUnavailable(
            f"The files in {context.settings.data_dir} do not belong to this database.",
            hint="Point --data-dir at the directory this database was used with.",
        )


def create_admin(context: Context, name: str) -> str:
    """The first user, admin of the server, with a queue `local`; returns the key, shown this once."""

    def work(tx: Tx) -> str:
        tx.alone("setup")
        if store_accounts.count_users(tx.conn):
            raise Conflict(
                "This server has users already.",
                hint="Sign in with the key that was printed then, and make further ones: muster key create.",
            )
        now = context.now()
        new = accounts.create_user(
            tx, None, checked_name(name, what="user"), admin=True, now=now, random=context.random
        )
        owner = Actor(
            name=name, kind=KeyKind.USER, default_entity=name, roles={name: Role.ADMIN}, server_admin=True
        )
        queue.create(
            tx,
            owner,
            name=queue.LOCAL_QUEUE,
            resource="process",
            config=queue.LOCAL_CONFIG,
            variables=queue.LOCAL_VARIABLES,
            entity=name,
            now=now,
            random=context.random,
            follows_inventory=True,
        )
        return new.text

    return context.db.write_now(work)


def has_users(context: Context) -> bool:
    return context.db.write_now(lambda tx: store_accounts.count_users(tx.conn) > 0)


def ensure_local_user(context: Context, place: DataDir) -> Settings:
    """Settings that sign in the user who started this server; made at the first start, with a key file."""
    if not has_users(context):
        key = create_admin(context, local_user_name())
        descriptor = os.open(place.local_key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{key}\n")
    if not place.local_key.exists():
        raise Conflict(
            f"This server was set up with keys of its own, and {place.local_key} is not there.",
            hint="Start it with `muster server`, or use another --data-dir for `muster up`.",
        )
    user = context.db.write_now(lambda tx: store_accounts.first_user(tx.conn).name)
    return replace(context.settings, local_user=user)


def local_user_name() -> str:
    """The account's name, made fit to be a name here."""
    raw = re.sub(r"[^A-Za-z0-9._-]+", "-", getpass.getuser()).strip("-._")
    return raw[:64] or "me"
