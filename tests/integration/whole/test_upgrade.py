"""A server of a newer version takes over a database in use: nothing is lost, also if it is killed half-way.

The newer version is this one with one more migration, made here.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from installation import MUSTER, Installation, until
from muster.client.settings import ClientSettings
from muster.client.sync import Client
from muster.domain.errors import ServerUnreachable, Unavailable
from muster.store import migrations
from muster.wire.runs import LaunchRequest

NEXT = f"{int(migrations.HEAD) + 1:04}"
MIGRATION = f'''"""Runs get a colour. The table is copied, as SQLite does for all but the simplest changes."""

import sqlalchemy as sa
from alembic import op

from muster._failpoint import failpoint

revision = "{NEXT}"
down_revision = "{migrations.HEAD}"


def upgrade() -> None:
    op.create_table("colours", sa.Column("name", sa.String(16), primary_key=True))
    with op.batch_alter_table("runs", recreate="always") as runs:
        runs.add_column(sa.Column("colour", sa.String(16), nullable=False, server_default="grey"))
    failpoint("migration")
    op.execute("INSERT INTO colours VALUES ('grey')")
'''  # noqa: S608 - nothing but numbers is put in
#: `muster` with the migrations of another folder.
NEWER = f"""
import sys
from muster.store import migrations
migrations.HEAD, migrations.__file__ = "{NEXT}", sys.argv.pop(1)
from muster.cli.main import main
sys.exit(main())
"""


@dataclass
class Site:
    """A server and an agent, each a process of its own."""

    base: Installation
    newer: list[str]
    agent: subprocess.Popen[bytes] | None = None
    server: subprocess.Popen[bytes] | None = None
    port: int = 0

    @property
    def log(self) -> str:
        return self.base.log.read_text() if self.base.log.exists() else ""

    def start_server(self, *command: str, **env: str) -> None:
        with self.base.log.open("ab") as out:
            self.server = subprocess.Popen(
                [*(command or MUSTER), "server", "--port", str(self.port)],
                env={**self.base.env, **env},
                stdout=out,
                stderr=out,
            )

    def until_it_serves(self, mark: int = 0) -> None:
        found = until(lambda: re.search(r"serves at http://127\.0\.0\.1:(\d+)", self.log[mark:]))
        self.port = int(found[1])
        self.base.env["MUSTER_URL"] = f"http://127.0.0.1:{self.port}"

    def start_agent(self) -> None:
        with self.base.log.open("ab") as out:
            command = [*MUSTER, "agent", "--name", "a1", "--queue", "local", "--max-jobs", "4"]
            self.agent = subprocess.Popen(command, env=self.base.env, stdout=out, stderr=out)

    def stop_server(self) -> int:
        assert self.server is not None
        if self.server.poll() is None:
            self.server.send_signal(signal.SIGTERM)
        return self.server.wait(30)

    def client(self) -> Client:
        env = self.base.env
        return Client(settings=ClientSettings(url=env["MUSTER_URL"], api_key=env["MUSTER_API_KEY"]))

    def revision(self) -> str:
        return str(self.ask("SELECT version_num FROM alembic_version")[0][0])

    def ask(self, query: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(self.base.data / "muster.db")) as conn:
            return conn.execute(query).fetchall()


@dataclass
class Hammer:
    """Launches until it is told to stop, tries again while nobody answers, counts what was accepted."""

    client: Client
    accepted: set[str] = field(default_factory=set)
    over: threading.Event = field(default_factory=threading.Event)

    def strike(self) -> None:
        while not self.over.is_set():
            key = os.urandom(8).hex()
            asked = LaunchRequest(command=["sh", "-c", "echo $MUSTER_RUN_ID"], values={"cpus": 0.1})
            while True:
                try:
                    self.accepted.add(self.client.launch(asked, idempotency_key=key).id)
                    break
                except (ServerUnreachable, Unavailable):
                    self.over.wait(0.05)
            self.over.wait(0.1)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    scripts = tmp_path / "migrations"
    shutil.copytree(Path(migrations.__file__).parent, scripts)
    (scripts / "versions" / f"{NEXT}_colours.py").write_text(MIGRATION)
    base = Installation(tmp_path)
    made = base.muster("server", "init", "--user", "ann", check=True)
    base.env["MUSTER_API_KEY"] = made.stdout.strip()
    site = Site(base, [sys.executable, "-c", NEWER, str(scripts / "__init__.py")])
    site.start_server()
    site.until_it_serves()
    site.start_agent()
    try:
        yield site
    finally:
        for process in (site.agent, site.server):
            if process is not None:
                process.kill()
                process.wait(30)
        base.destroy()


@pytest.mark.slow
def test_an_upgrade_under_load_killed_half_way_loses_nothing(site: Site) -> None:
    with site.client() as client:
        hammer = Hammer(client)
        striking = threading.Thread(target=hammer.strike)
        striking.start()
        try:
            until(lambda: len(hammer.accepted) > 10)
            assert site.stop_server() == 0
            events = site.ask("SELECT count(*) FROM events")

            site.start_server(*site.newer, MUSTER_FAILPOINT="migration")
            assert site.server is not None
            assert site.server.wait(30) == -signal.SIGKILL
            assert site.revision() == migrations.HEAD, "half a migration is none"
            assert site.ask("SELECT name FROM sqlite_master WHERE name = 'colours'") == []
            assert site.ask("SELECT count(*) FROM events") == events

            mark = len(site.log)
            site.start_server(*site.newer)
            site.until_it_serves(mark)
            assert site.revision() == NEXT
            before = len(hammer.accepted)
            until(lambda: len(hammer.accepted) > before + 10)
        finally:
            hammer.over.set()
            striking.join(60)
        runs = until(lambda: all_ended(client, hammer.accepted), what="all runs to end")
        assert set(runs) == hammer.accepted
        for run_id in runs:
            assert client.read_log(run_id).decode() == f"{run_id}\n"
            states = [
                event.data["to"] for event in client.list_run_events(run_id).items if event.type == "state"
            ]
            assert states[0] == "queued", "the migration copied the runs' table; their events are all there"
            assert states[-1] == "succeeded"
    assert site.ask("SELECT DISTINCT colour FROM runs") == [("grey",)]

    assert site.stop_server() == 0
    older = site.base.muster("server", "--port", "0")
    assert older.returncode == 1
    assert f"its schema is {NEXT}, this version knows {migrations.HEAD}" in older.stderr


def all_ended(client: Client, wanted: set[str]) -> set[str] | None:
    found = client.list_runs(limit=1000).items
    return {run.id for run in found} if all(run.state.terminal for run in found) else None
