"""Every operation of the API can be called: with `await`, without, and by typing."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from muster.cli.root import load
from muster.client.api import AsyncClient
from muster.client.sync import Client
from muster.server.app import create_app
from muster.server.context import Context, Settings
from muster.store.database import sqlite_url

#: operation → the words one types
VERBS = {
    "create_entity": "entity create",
    "create_job": "job create",
    "create_key": "key create",
    "create_queue": "queue create",
    "create_user": "key create",
    "delete_agent": "agent delete",
    "delete_job": "job delete",
    "delete_queue": "queue delete",
    "delete_run": "run delete",
    "diff_queue": "queue show",
    "drain_queue": "queue drain",
    "edit_queue": "queue edit",
    "explain_run": "run why",
    "follow_events": "run events",
    "follow_logs": "run logs",
    "get_agent": "agent show",
    "get_entity": "entity show",
    "get_group": "run compare",
    "get_job": "job show",
    "get_job_version": "job show",
    "get_manifest": "run manifest",
    "get_me": "login",
    "get_queue": "queue show",
    "get_queue_line": "queue line",
    "get_queue_version": "queue show",
    "get_run": "run show",
    "get_usage": "run usage",
    "launch": "launch",
    "launch_grid": "launch",
    "list_agents": "agent list",
    "list_audit": "entity audit",
    "list_clusters": "agent nodes",
    "list_entities": "entity list",
    "list_job_versions": "job show",
    "list_jobs": "job list",
    "list_keys": "key list",
    "list_queue_versions": "queue versions",
    "list_queues": "queue list",
    "list_replicas": "run replicas",
    "list_run_events": "run events",
    "list_runs": "run list",
    "parse_queue": "queue parse",
    "pause_agent": "agent pause",
    "pause_queue": "queue pause",
    "place_run": "run move",
    "preview_launch": "launch",
    "preview_rerun": "run rerun",
    "read_log": "run logs",
    "remove_job_alias": "job alias",
    "remove_member": "entity member remove",
    "rename_job": "job rename",
    "rerun_run": "run rerun",
    "resume_agent": "agent resume",
    "resume_queue": "queue resume",
    "revoke_key": "key revoke",
    "roll_back_queue": "queue rollback",
    "set_entity_limits": "entity limit",
    "set_job_alias": "job alias",
    "set_member": "entity member add",
    "stop_group": "run stop",
    "stop_run": "run stop",
}
#: Spoken by agents, or by `launch` while it takes code along.
PROTOCOL = {
    "create_snapshot",
    "download_snapshot",
    "get_snapshot",
    "leave_agent",
    "poll_work",
    "read_checksums",
    "register_agent",
    "send_cluster",
    "send_logs",
    "send_reports",
    "send_usage",
    "upload_blobs",
}
#: For programs, as the web app is one: many launches at once, a curve, a preview with every keystroke.
SDK_ONLY = {"get_queue_history", "launch_batch", "preview_queue"}
#: For monitors, which know neither the client nor the command line.
HEALTH = {"healthz", "readyz", "metrics"}
#: For the web app alone: a program sends its key, and reads a log from its start.
BROWSER = {"find_in_logs", "map_logs", "sign_in", "sign_out"}


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    folder: Path = tmp_path_factory.mktemp("data")
    settings = Settings(database_url=sqlite_url(folder / "muster.db"), data_dir=folder)
    context = Context.open(settings)
    document = create_app(context).openapi()
    context.db.close()
    paths: dict[str, dict[str, Any]] = document["paths"]
    return {operation["operationId"] for path in paths.values() for operation in path.values()}


def test_every_operation_has_a_verb(operations: set[str]) -> None:
    assert operations == VERBS.keys() | PROTOCOL | SDK_ONLY | HEALTH | BROWSER
    for words in VERBS.values():
        name, *rest = words.split()
        command = load(name)
        for word in rest:
            assert isinstance(command, TyperGroup), words
            child = command.get_command(typer.Context(command), word)
            assert child is not None, words
            command = child  # type: ignore[assignment]


def test_every_operation_is_a_method_of_both_clients(operations: set[str]) -> None:
    for name in operations - HEALTH - BROWSER:
        with_await = inspect.signature(getattr(AsyncClient, name))
        without = inspect.signature(getattr(Client, name))
        assert with_await.parameters == without.parameters, name
