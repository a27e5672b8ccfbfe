"""Two tenants of one server: `fay`, who calls, and `zed`, whose things must never be seen or changed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Select, Table, insert, select

from door import Agent, Door, replica
from muster.service.bus import KEYS
from muster.store.database import Tx
from muster.store.schema import metadata
from muster.wire.frames import header
from world import MACHINE, wipe

#: In the name or content of everything that is zed's. Ids, and names that fay may say herself, are without.
MARK = "z3dsOwnAffair"

Rows = dict[str, list[dict[str, Any]]]


@dataclass(kw_only=True)
class Tenant:
    """What one of them has, by the name of the parameter that asks for it."""

    name: str
    key: str
    agent: Agent
    things: dict[str, list[str]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)  #: further ones: of an agent, of a run

    def has(self, parameter: str, thing: str) -> str:
        self.things.setdefault(parameter, []).append(thing)
        return thing


@dataclass(kw_only=True)
class Neighbours:
    door: Door
    fay: Tenant
    zed: Tenant
    rows: Rows

    @classmethod
    def move_in(cls, door: Door) -> Neighbours:
        door.begin_anew()
        fay = settle(door, "fay", word="fays")
        zed = settle(door, "zed", word=MARK)
        return cls(door=door, fay=fay, zed=zed, rows=all_rows(door))

    def begin_anew(self) -> None:
        """Put the database back as it was when both had settled."""

        def work(tx: Tx) -> None:
            wipe(tx)
            for table in metadata.sorted_tables:
                if self.rows[table.name]:
                    tx.conn.execute(insert(table), self.rows[table.name])

        self.door.context.db.write_now(work)
        self.door.context.bus.publish([KEYS])

    def key_of(self, who: str) -> str:
        """Of fay herself, of her agent, of a run of hers, or of the server's admin."""
        return {**self.fay.keys, "user": self.fay.key, "admin": self.door.key}[who]

    def of_zed(self) -> Mapping[str, Any]:
        """All that is his: rows and files."""
        return {**_rows_of(self.zed, all_rows(self.door)), "files": self._files()}

    def _files(self) -> dict[str, str]:
        folder = self.door.context.settings.data_dir
        mine = {*self.zed.things["run_id"], self.zed.name}
        return {
            str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and mine & set(path.parts)
        }


def all_rows(door: Door) -> Rows:
    def work(tx: Tx) -> Rows:
        return {
            table.name: [dict(row._mapping) for row in tx.conn.execute(_in_order(table))]
            for table in metadata.sorted_tables
        }

    return door.context.db.write_now(work)


def _in_order(table: Table) -> Select[Any]:
    """PostgreSQL puts a row that was changed elsewhere."""
    return select(table).order_by(*table.primary_key.columns)


def _rows_of(tenant: Tenant, rows: Rows) -> Rows:
    """Rows that belong to the entity, or to a run, an agent or a queue of it."""
    agents = {row["id"] for row in rows["agents"] if row["entity"] == tenant.name}
    queues = {row["id"] for row in rows["queues"] if row["entity"] == tenant.name}
    runs = {row["id"] for row in rows["runs"] if row["entity"] == tenant.name}
    jobs = {row["id"] for row in rows["jobs"] if row["entity"] == tenant.name}
    owners: Sequence[tuple[str, set[str]]] = (
        ("entity", {tenant.name}),
        ("run_id", runs),
        ("agent_id", agents),
        ("queue_id", queues),
        ("job_id", jobs),
    )
    named = {"users", "entities"}

    def is_his(table: str, row: Mapping[str, Any]) -> bool:
        if table in named:
            return bool(row["name"] == tenant.name)
        if table == "keys" and row["entity"] is None:
            return bool(row["user"] == tenant.name)
        return any(row.get(column) in known for column, known in owners)

    return {table: [row for row in found if is_his(table, row)] for table, found in rows.items()}


def settle(door: Door, name: str, *, word: str) -> Tenant:
    """A user with queues, runs in many states, an agent, code and keys; `word` is in all of it."""
    key = door.user(name)
    agent = Agent(door=door, id="", incarnation=f"{name}-incarnation", key=key)
    tenant = Tenant(name=name, key=key, agent=agent)
    tenant.has("user", name)
    tenant.has("incarnation", agent.incarnation)
    tenant.has("entity", name)
    team = {"name": tenant.has("entity", f"{name}s-team")}
    door.call("POST", "/entities", team, key=key).raise_for_status()
    _queues(tenant, word)
    for kind in ("user", "agent"):
        made = door.call("POST", "/keys", {"label": word, "kind": kind}, key=key).raise_for_status().json()
        tenant.has("key_id", made["id"])
        tenant.keys[kind] = made["key"]
    _register(tenant, word)
    _runs(tenant, word)
    _jobs(tenant, word)
    tenant.has("snapshot_id", _snapshot(tenant, word.encode(), send=True))
    tenant.has("snapshot_id", _snapshot(tenant, f"half of {word}".encode(), send=False))
    return tenant


def _queues(tenant: Tenant, word: str) -> None:
    config = {"resources": {"cpus": "{{cpus}}"}, "env": {"PLACE": word}}
    variables = {"cpus": {"type": "number", "default": 1, "description": word}}
    for name in (f"{tenant.name}-main", f"{tenant.name}-spare"):
        asked = {"name": tenant.has("queue", name), "config": config, "variables": variables}
        tenant.agent.door.call("POST", "/queues", asked, key=tenant.key).raise_for_status()


def _jobs(tenant: Tenant, word: str) -> None:
    """One with two versions and an alias, one that is deleted."""
    door = tenant.agent.door
    for name, tag in ((f"{tenant.name}-job", "a"), (f"{tenant.name}-job", "b"), (f"{tenant.name}-gone", "a")):
        asked = {"name": name, "image": f"{word}:{tag}", "command": ["echo", word], "config": {"place": word}}
        door.call("POST", "/jobs", asked, key=tenant.key).raise_for_status()
    aliases = f"/jobs/{tenant.has('job', f'{tenant.name}-job')}/aliases/{tenant.has('alias', 'best')}"
    door.call("PUT", aliases, {"version": "v0"}, key=tenant.key).raise_for_status()
    door.call("DELETE", f"/jobs/{tenant.name}-gone", key=tenant.key).raise_for_status()


def _register(tenant: Tenant, word: str) -> None:
    asked = {
        "name": tenant.has("agent_name", f"{tenant.name}-agent"),
        "incarnation": tenant.agent.incarnation,
        "engine": "process",
        "host": word,
        "locality": "one-host",  # both have their agents on one machine
        "version": word,
        "max_jobs": 8,
        "total": MACHINE.__dict__,
        "devices": [{"name": word}],
        "queues": [f"{tenant.name}-main"],
    }
    made = tenant.agent.door.call("POST", "/agents", asked, key=tenant.key).raise_for_status().json()
    tenant.agent.id = tenant.has("agent_id", made["id"])


def _runs(tenant: Tenant, word: str) -> None:
    """One that failed, one that is stopping, one that runs, one that waits; and a group that waits."""
    door, agent = tenant.agent.door, tenant.agent
    asked = {
        "queue": f"{tenant.name}-main",
        "name": f"{word}-run",
        "project": word,
        "command": ["echo", word],
        "env": {"PLACE": word},
        "config": {"place": word},
    }
    for _ in range(4):
        tenant.has("run_id", door.launch(key=tenant.key, **asked)["id"])
    failed, stopping, running = agent.poll(slots=3)["claims"]
    tenant.keys["run"] = running["token"]
    for claim in (failed, running):
        note = {"type": "note", "message": word}
        manifest = {"type": "manifest", "manifest": {"command": word}}
        agent.report(claim, manifest, note, replica("running", node=word, handle=word))
        agent.send_log(claim, 0, f"{word}\n".encode())
        sample = {"run_id": claim["run"]["id"], "attempt": 1, "rank": 0, "at": 1.0, "cpu": 0.5}
        batch = {"incarnation": agent.incarnation, "samples": [sample]}
        door.call("POST", f"/agents/{agent.id}/usage", batch, key=tenant.key).raise_for_status()
    failure = {"type": "failure", "kind": "out_of_memory", "summary": word, "evidence": word}
    agent.report(failed, failure, replica("failed", exit_code=1, reason=word, log_bytes=len(word) + 1))
    door.call("POST", f"/runs/{stopping['run']['id']}/stop", key=tenant.key).raise_for_status()
    grid = {"launch": asked, "grid": {"seed": [1, 2]}}
    made = door.call("POST", "/launches/grid", grid, key=tenant.key).raise_for_status().json()
    tenant.has("group_id", made["id"])


def _snapshot(tenant: Tenant, content: bytes, *, send: bool) -> str:
    sha256 = hashlib.sha256(content).hexdigest()
    file = {"path": f"{content.decode().replace(' ', '-')}.py", "mode": 0o644, "size": len(content)}
    manifest = {"manifest": {"files": [{**file, "sha256": sha256}]}}
    door = tenant.agent.door
    made = door.call("POST", "/snapshots", manifest, key=tenant.key).raise_for_status().json()
    if send:
        body = header(sha256, len(content)) + content
        door.call("POST", f"/snapshots/{made['id']}/blobs", content=body, key=tenant.key).raise_for_status()
    snapshot: str = made["id"]
    return snapshot
