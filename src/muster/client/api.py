"""`AsyncClient`: one method per API operation, named as the operation is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from muster.client.settings import ClientSettings, load
from muster.client.transport import Transport
from muster.domain.errors import ServerUnreachable
from muster.domain.run import RunState
from muster.wire.accounts import (
    AuditModel,
    EntityModel,
    EntityRequest,
    KeyModel,
    KeyRequest,
    MeModel,
    NewKeyModel,
    RoleRequest,
    UserRequest,
)
from muster.wire.base import PROTOCOL, PROTOCOL_HEADER, Page
from muster.wire.code import SnapshotContent, SnapshotModel, SnapshotRequest
from muster.wire.groups import GridRequest, GroupModel, GroupRuns, StoppedGroup
from muster.wire.jobs import AliasRequest, JobEdit, JobModel, JobRequest, JobVersionModel
from muster.wire.queues import (
    DiffModel,
    HistoryModel,
    LimitModel,
    LineModel,
    ParseModel,
    ParseRequest,
    QueueEdit,
    QueueModel,
    QueueRequest,
    QueueVersionModel,
    RollbackRequest,
    TrialModel,
    TrialRequest,
    VersionSummary,
)
from muster.wire.runs import (
    EventModel,
    ExplanationModel,
    LaunchBatch,
    LaunchRequest,
    LogChunk,
    ManifestModel,
    PlaceRequest,
    PreviewModel,
    ReplicaModel,
    RerunRequest,
    RunModel,
    UsageSeries,
)

if TYPE_CHECKING:  # the agent protocol is loaded when an agent speaks: a command need not wait for it
    from muster.wire import agents as agent_wire
    from muster.wire import clusters as cluster_wire

M = TypeVar("M", bound=BaseModel)
_RETRY_AFTER = (0.1, 0.5, 2.0)  #: seconds; for requests that may be sent again
_AGENT = {PROTOCOL_HEADER: PROTOCOL}


class AsyncClient:
    """A Muster server, with `await`. `muster.Client` is the same without."""

    def __init__(
        self, url: str | None = None, api_key: str | None = None, *, settings: ClientSettings | None = None
    ) -> None:
        self.settings = settings or load(url=url, api_key=api_key)
        self._transport = Transport(self.settings)

    @property
    def url(self) -> str:
        return self.settings.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    # launches

    async def launch(self, request: LaunchRequest, *, idempotency_key: str | None = None) -> RunModel:
        """Launch one run. A launch whose answer was lost is asked for again, and not made twice."""
        return await self._once("/launches", request, RunModel, idempotency_key)

    async def launch_batch(
        self, requests: Sequence[LaunchRequest], *, group: bool = False, idempotency_key: str | None = None
    ) -> Page[RunModel]:
        """Launch many runs: all of them, or none. With `group`, they get a group id of their own."""
        body = LaunchBatch(launches=list(requests), group=group)
        return await self._once("/launches/batch", body, Page[RunModel], idempotency_key)

    async def launch_grid(self, request: GridRequest, *, idempotency_key: str | None = None) -> GroupRuns:
        """Launch a run for each combination of values: all of them, or none."""
        return await self._once("/launches/grid", request, GroupRuns, idempotency_key)

    async def preview_launch(self, request: LaunchRequest) -> PreviewModel:
        """What would be started, without starting it."""
        return await self._post("/launches/preview", request, PreviewModel)

    async def rerun_run(
        self, run_id: str, request: RerunRequest | None = None, *, idempotency_key: str | None = None
    ) -> RunModel:
        """Launch a run again, as it was or with some of it replaced."""
        path = f"/runs/{_part(run_id)}/rerun"
        return await self._once(path, request or RerunRequest(), RunModel, idempotency_key)

    async def preview_rerun(self, run_id: str, request: RerunRequest | None = None) -> PreviewModel:
        """What launching a run again would start, without starting it."""
        path = f"/runs/{_part(run_id)}/rerun/preview"
        return await self._post(path, request or RerunRequest(), PreviewModel)

    # groups

    async def get_group(self, group_id: str, *, newer_than: int | None = None, wait: float = 0) -> GroupModel:
        """A group as it stands; or, with `newer_than` and `wait`, as soon as one of its runs has changed."""
        params = {"newer_than": newer_than, "wait": wait or None}
        response = await self._transport.send(
            "GET", f"/groups/{_part(group_id)}", params=params, timeout=30 + wait
        )
        return GroupModel.model_validate_json(response.content)

    async def stop_group(self, group_id: str) -> StoppedGroup:
        """Ask all runs of a group to stop."""
        return await self._post(f"/groups/{_part(group_id)}/stop", None, StoppedGroup)

    # runs

    async def list_runs(
        self,
        *,
        entity: str | None = None,
        project: str | None = None,
        queue: str | None = None,
        author: str | None = None,
        job: str | None = None,
        state: Sequence[RunState] | None = None,
        text: str | None = None,
        group: str | None = None,
        sort: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[RunModel]:
        """Runs, newest first; or by a column, such as `name` or, the greatest first, `-duration`."""
        params = {
            "entity": entity,
            "project": project,
            "queue": queue,
            "author": author,
            "job": job,
            "state": [RunState(item).value for item in state] if state else None,
            "text": text,
            "group": group,
            "sort": sort,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._get("/runs", Page[RunModel], **params)

    async def get_run(self, run_id: str, *, newer_than: int | None = None, wait: float = 0) -> RunModel:
        """One run as it stands; or, with `newer_than` and `wait`, as soon as it has changed."""
        params = {"newer_than": newer_than, "wait": wait or None}
        response = await self._transport.send(
            "GET", f"/runs/{_part(run_id)}", params=params, timeout=30 + wait
        )
        return RunModel.model_validate_json(response.content)

    async def stop_run(self, run_id: str) -> RunModel:
        """Ask a run to stop."""
        return await self._post(f"/runs/{_part(run_id)}/stop", None, RunModel)

    async def place_run(self, run_id: str, request: PlaceRequest) -> RunModel:
        """Give a run that waits another priority; or, as an admin, another place in the line."""
        return await self._post(f"/runs/{_part(run_id)}/place", request, RunModel)

    async def delete_run(self, run_id: str) -> None:
        """Delete a run that has ended, with its events, logs and usage."""
        await self._transport.send("DELETE", f"/runs/{_part(run_id)}")

    async def list_run_events(
        self, run_id: str, *, limit: int = 1000, cursor: str | None = None
    ) -> Page[EventModel]:
        """What happened to a run, in order."""
        return await self._get(f"/runs/{_part(run_id)}/events", Page[EventModel], limit=limit, cursor=cursor)

    async def list_replicas(self, run_id: str, *, attempt: int | None = None) -> Page[ReplicaModel]:
        """The members of a run's newest attempt, or of the one given."""
        return await self._get(f"/runs/{_part(run_id)}/replicas", Page[ReplicaModel], attempt=attempt)

    async def explain_run(self, run_id: str) -> ExplanationModel:
        """Why it waits, or why it ended as it did."""
        return await self._get(f"/runs/{_part(run_id)}/why", ExplanationModel)

    async def get_manifest(self, run_id: str, *, attempt: int | None = None) -> ManifestModel:
        """What was submitted to the engine; before that, what would be."""
        return await self._get(f"/runs/{_part(run_id)}/manifest", ManifestModel, attempt=attempt)

    async def get_usage(
        self, run_id: str, *, attempt: int | None = None, max_points: int = 500
    ) -> Page[UsageSeries]:
        """CPU, memory, GPU, disk and network over time, per replica."""
        return await self._get(
            f"/runs/{_part(run_id)}/usage", Page[UsageSeries], attempt=attempt, max_points=max_points
        )

    async def read_log(
        self,
        run_id: str,
        *,
        rank: int = 0,
        attempt: int | None = None,
        offset: int = 0,
        limit: int = 1024 * 1024,
    ) -> bytes:
        """Raw bytes of one replica's output from an offset (below zero: from the end); empty at its end."""
        params = {"rank": rank, "attempt": attempt, "offset": offset, "limit": limit}
        response = await self._transport.send("GET", f"/runs/{_part(run_id)}/logs", params=params)
        return response.content

    async def follow_logs(
        self, run_id: str, *, rank: int | None = None, attempt: int | None = None, tail: int | None = None
    ) -> AsyncIterator[LogChunk]:
        """Output as it grows, until the run has ended."""
        params = {"rank": rank, "attempt": attempt, "tail": tail}
        async for event in self._transport.events(f"/runs/{_part(run_id)}/logs/stream", params):
            if event.event == "log":
                yield LogChunk.model_validate_json(event.data)

    async def follow_events(self, *, run: str | None = None) -> AsyncIterator[EventModel]:
        """Events of the runs one may see (or of one), from now on, as they happen."""
        async for event in self._transport.events("/events", {"run": run}):
            if event.event != "resync":
                yield EventModel.model_validate_json(event.data)

    # queues

    async def list_queues(self, *, entity: str | None = None) -> Page[QueueModel]:
        """The queues one may see."""
        return await self._get("/queues", Page[QueueModel], entity=entity)

    async def create_queue(self, request: QueueRequest) -> QueueModel:
        """Create a queue."""
        return await self._post("/queues", request, QueueModel)

    async def get_queue(self, name: str, *, entity: str | None = None) -> QueueModel:
        """One queue at its newest version."""
        return await self._get(f"/queues/{_part(name)}", QueueModel, entity=entity)

    async def edit_queue(self, name: str, edit: QueueEdit, *, entity: str | None = None) -> QueueModel:
        """Make a new version of a queue. What `edit` was not given stays."""
        body = edit.model_dump_json(exclude_unset=True).encode()
        response = await self._transport.send(
            "PATCH", f"/queues/{_part(name)}", json_body=body, params={"entity": entity}
        )
        return QueueModel.model_validate_json(response.content)

    async def delete_queue(self, name: str, *, entity: str | None = None) -> None:
        """Delete a queue that has no runs."""
        await self._transport.send("DELETE", f"/queues/{_part(name)}", params={"entity": entity})

    async def pause_queue(self, name: str, *, entity: str | None = None) -> QueueModel:
        """Hand out no more runs of this queue."""
        return await self._post(f"/queues/{_part(name)}/pause", None, QueueModel, params={"entity": entity})

    async def resume_queue(self, name: str, *, entity: str | None = None) -> QueueModel:
        """Hand out runs again, and take launches again."""
        return await self._post(f"/queues/{_part(name)}/resume", None, QueueModel, params={"entity": entity})

    async def drain_queue(self, name: str, *, entity: str | None = None) -> QueueModel:
        """Take no more launches. What waits and what runs goes on."""
        return await self._post(f"/queues/{_part(name)}/drain", None, QueueModel, params={"entity": entity})

    async def parse_queue(self, request: ParseRequest) -> ParseModel:
        """Look through a config: its variables, macros and objects, and what is wrong with it."""
        return await self._post("/queues/parse", request, ParseModel, timeout=120)

    async def preview_queue(self, request: TrialRequest) -> TrialModel:
        """What a launch into a queue of this config would start, before it is a queue's."""
        return await self._post("/queues/preview", request, TrialModel, timeout=120)

    async def get_queue_line(self, name: str, *, entity: str | None = None, limit: int = 100) -> LineModel:
        """The runs that wait in a queue, in the order in which they would be started one by one."""
        return await self._get(f"/queues/{_part(name)}/line", LineModel, entity=entity, limit=limit)

    async def get_queue_history(
        self, name: str, *, entity: str | None = None, hours: int = 24, points: int = 145
    ) -> HistoryModel:
        """How many runs waited and ran over the last hours."""
        params = {"entity": entity, "hours": hours, "points": points}
        return await self._get(f"/queues/{_part(name)}/history", HistoryModel, **params)

    async def list_queue_versions(
        self, name: str, *, entity: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[VersionSummary]:
        """The versions of a queue, the newest first, and what each changed."""
        path = f"/queues/{_part(name)}/versions"
        return await self._get(path, Page[VersionSummary], entity=entity, limit=limit, cursor=cursor)

    async def get_queue_version(
        self, name: str, version: int, *, entity: str | None = None
    ) -> QueueVersionModel:
        """A queue as it was at one version."""
        return await self._get(f"/queues/{_part(name)}/versions/{version}", QueueVersionModel, entity=entity)

    async def diff_queue(
        self, name: str, *, from_version: int, to_version: int, entity: str | None = None
    ) -> DiffModel:
        """How two versions of a queue differ."""
        params = {"from": from_version, "to": to_version, "entity": entity}
        return await self._get(f"/queues/{_part(name)}/diff", DiffModel, **params)

    async def roll_back_queue(self, name: str, version: int, *, entity: str | None = None) -> QueueModel:
        """Make a new version of a queue that says what an old one said."""
        path, request = f"/queues/{_part(name)}/rollback", RollbackRequest(version=version)
        return await self._post(path, request, QueueModel, params={"entity": entity})

    # jobs

    async def list_jobs(
        self,
        *,
        entity: str | None = None,
        project: str | None = None,
        text: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[JobModel]:
        """Jobs, by entity, project and name."""
        params = {"entity": entity, "project": project, "text": text, "limit": limit, "cursor": cursor}
        return await self._get("/jobs", Page[JobModel], **params)

    async def create_job(self, request: JobRequest) -> JobVersionModel:
        """File a version of a job without launching it."""
        return await self._post("/jobs", request, JobVersionModel)

    async def get_job(self, name: str, *, entity: str | None = None, project: str | None = None) -> JobModel:
        """One job."""
        return await self._get(f"/jobs/{_part(name)}", JobModel, entity=entity, project=project)

    async def list_job_versions(
        self,
        name: str,
        *,
        entity: str | None = None,
        project: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[JobVersionModel]:
        """The versions of a job, newest first."""
        params = {"entity": entity, "project": project, "limit": limit, "cursor": cursor}
        return await self._get(f"/jobs/{_part(name)}/versions", Page[JobVersionModel], **params)

    async def get_job_version(
        self, name: str, version: str = "latest", *, entity: str | None = None, project: str | None = None
    ) -> JobVersionModel:
        """One version: `v3`, `latest` or another alias."""
        path = f"/jobs/{_part(name)}/versions/{_part(version)}"
        return await self._get(path, JobVersionModel, entity=entity, project=project)

    async def rename_job(
        self, name: str, new_name: str, *, entity: str | None = None, project: str | None = None
    ) -> JobModel:
        """Call a job otherwise."""
        params = {"entity": entity, "project": project}
        body = _body(JobEdit(name=new_name))
        response = await self._transport.send("PATCH", f"/jobs/{_part(name)}", json_body=body, params=params)
        return JobModel.model_validate_json(response.content)

    async def delete_job(self, name: str, *, entity: str | None = None, project: str | None = None) -> None:
        """Delete a job. Its runs stay."""
        params = {"entity": entity, "project": project}
        await self._transport.send("DELETE", f"/jobs/{_part(name)}", params=params)

    async def set_job_alias(
        self,
        name: str,
        alias: str,
        version: str = "latest",
        *,
        entity: str | None = None,
        project: str | None = None,
    ) -> JobModel:
        """Let an alias stand for a version."""
        response = await self._transport.send(
            "PUT",
            f"/jobs/{_part(name)}/aliases/{_part(alias)}",
            json_body=_body(AliasRequest(version=version)),
            params={"entity": entity, "project": project},
        )
        return JobModel.model_validate_json(response.content)

    async def remove_job_alias(
        self, name: str, alias: str, *, entity: str | None = None, project: str | None = None
    ) -> JobModel:
        """Let an alias stand for nothing any more."""
        params = {"entity": entity, "project": project}
        path = f"/jobs/{_part(name)}/aliases/{_part(alias)}"
        response = await self._transport.send("DELETE", path, params=params)
        return JobModel.model_validate_json(response.content)

    # code

    async def create_snapshot(self, request: SnapshotRequest) -> SnapshotModel:
        """Announce code. The answer names the files the server does not have yet."""
        return await self._post("/snapshots", request, SnapshotModel, timeout=120)

    async def upload_blobs(
        self, snapshot_id: str, frames: Iterable[bytes], *, entity: str | None = None
    ) -> SnapshotModel:
        """Send missing files (`muster.client.code.pack`)."""

        async def pieces() -> AsyncIterator[bytes]:
            for piece in frames:
                yield piece

        response = await self._transport.send(
            "POST",
            f"/snapshots/{_part(snapshot_id)}/blobs",
            content=pieces(),
            params={"entity": entity},
            timeout=3600,
        )
        return SnapshotModel.model_validate_json(response.content)

    async def get_snapshot(self, snapshot_id: str, *, entity: str | None = None) -> SnapshotContent:
        """The files of a snapshot."""
        return await self._get(f"/snapshots/{_part(snapshot_id)}", SnapshotContent, entity=entity)

    async def download_snapshot(self, snapshot_id: str, target: Path, *, entity: str | None = None) -> None:
        """Save the snapshot as a tar archive."""
        path = f"/snapshots/{_part(snapshot_id)}/archive"
        async with self._transport.download(path, {"entity": entity}) as response:
            with target.open("wb") as file:
                async for piece in response.aiter_bytes():
                    file.write(piece)

    async def read_checksums(self, snapshot_id: str, *, entity: str | None = None) -> str:
        """Of every file of a snapshot, as `sha256sum -c` reads them."""
        path = f"/snapshots/{_part(snapshot_id)}/checksums"
        response = await self._transport.send("GET", path, params={"entity": entity})
        return response.text

    # accounts

    async def get_me(self) -> MeModel:
        """Who the caller is, and where."""
        return await self._get("/me", MeModel)

    async def list_keys(self) -> Page[KeyModel]:
        """One's own keys that are not revoked."""
        return await self._get("/keys", Page[KeyModel])

    async def create_key(self, request: KeyRequest) -> NewKeyModel:
        """A new key, shown this once."""
        return await self._post("/keys", request, NewKeyModel)

    async def revoke_key(self, key_id: str) -> None:
        """Make a key worthless, at once."""
        await self._transport.send("DELETE", f"/keys/{_part(key_id)}")

    async def create_user(self, request: UserRequest) -> NewKeyModel:
        """Add a user, with an entity of the same name and a first key."""
        return await self._post("/users", request, NewKeyModel)

    async def list_entities(self) -> Page[EntityModel]:
        """The entities one belongs to."""
        return await self._get("/entities", Page[EntityModel])

    async def get_entity(self, name: str) -> EntityModel:
        """One entity with its members."""
        return await self._get(f"/entities/{_part(name)}", EntityModel)

    async def create_entity(self, name: str) -> EntityModel:
        """Create a team."""
        return await self._post("/entities", EntityRequest(name=name), EntityModel)

    async def set_entity_limits(self, name: str, limits: LimitModel) -> EntityModel:
        """Limit what all queues of an entity together may run at once."""
        response = await self._transport.send(
            "PUT", f"/entities/{_part(name)}/limits", json_body=_body(limits)
        )
        return EntityModel.model_validate_json(response.content)

    async def set_member(self, name: str, user: str, request: RoleRequest) -> None:
        """Give a user a role in an entity."""
        path = f"/entities/{_part(name)}/members/{_part(user)}"
        await self._transport.send("PUT", path, json_body=_body(request))

    async def remove_member(self, name: str, user: str) -> None:
        """Take a user out of an entity."""
        await self._transport.send("DELETE", f"/entities/{_part(name)}/members/{_part(user)}")

    async def list_audit(
        self, *, entity: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[AuditModel]:
        """Who did what, newest first."""
        return await self._get("/audit", Page[AuditModel], entity=entity, limit=limit, cursor=cursor)

    # agents

    async def list_agents(self, *, entity: str | None = None) -> Page[agent_wire.AgentModel]:
        """The agents one may see, online or not."""
        from muster.wire.agents import AgentModel

        return await self._get("/agents", Page[AgentModel], entity=entity)

    async def list_clusters(self, *, entity: str | None = None) -> Page[cluster_wire.ClusterModel]:
        """What agents last saw of the clusters they drive."""
        from muster.wire.clusters import ClusterModel

        return await self._get("/clusters", Page[ClusterModel], entity=entity)

    async def get_agent(self, name: str, *, entity: str | None = None) -> agent_wire.AgentDetail:
        """One agent: what it has now, and what it said last."""
        from muster.wire.agents import AgentDetail

        return await self._get(f"/agents/{_part(name)}", AgentDetail, entity=entity)

    async def pause_agent(self, name: str, *, entity: str | None = None) -> agent_wire.AgentModel:
        """Give an agent no more runs. What it has goes on."""
        from muster.wire.agents import AgentModel

        return await self._post(f"/agents/{_part(name)}/pause", None, AgentModel, params={"entity": entity})

    async def resume_agent(self, name: str, *, entity: str | None = None) -> agent_wire.AgentModel:
        """Give an agent runs again."""
        from muster.wire.agents import AgentModel

        return await self._post(f"/agents/{_part(name)}/resume", None, AgentModel, params={"entity": entity})

    async def delete_agent(self, name: str, *, entity: str | None = None) -> None:
        """Remove an agent that is gone for good."""
        await self._transport.send("DELETE", f"/agents/{_part(name)}", params={"entity": entity})

    async def register_agent(self, request: agent_wire.AgentRequest) -> agent_wire.AgentModel:
        """Enter an agent."""
        from muster.wire.agents import AgentModel

        return await self._post("/agents", request, AgentModel, headers=_AGENT)

    async def poll_work(self, agent_id: str, request: agent_wire.PollRequest) -> agent_wire.PollAnswer:
        """Renew all leases; wait for work and commands."""
        from muster.wire.agents import PollAnswer

        return await self._post(
            f"/agents/{_part(agent_id)}/poll",
            request,
            PollAnswer,
            headers=_AGENT,
            timeout=request.wait + 10,
        )

    async def send_reports(self, agent_id: str, batch: agent_wire.ReportBatch) -> agent_wire.ReportAnswer:
        """What the agent saw."""
        from muster.wire.agents import ReportAnswer

        return await self._post(f"/agents/{_part(agent_id)}/reports", batch, ReportAnswer, headers=_AGENT)

    async def send_logs(self, agent_id: str, index: agent_wire.LogIndex, data: bytes) -> agent_wire.LogAnswer:
        """Output of many replicas in one request."""
        from muster.wire.agents import LogAnswer

        response = await self._transport.send(
            "POST",
            f"/agents/{_part(agent_id)}/logs",
            content=index.model_dump_json(exclude_none=True).encode() + b"\n" + data,
            headers=_AGENT,
        )
        return LogAnswer.model_validate_json(response.content)

    async def send_usage(self, agent_id: str, batch: agent_wire.UsageBatch) -> None:
        """Resource use of the agent's live replicas."""
        path = f"/agents/{_part(agent_id)}/usage"
        await self._transport.send("POST", path, json_body=_body(batch), headers=_AGENT)

    async def send_cluster(self, agent_id: str, report: cluster_wire.ClusterReport) -> None:
        """What the agent sees of the cluster that it drives."""
        path = f"/agents/{_part(agent_id)}/cluster"
        await self._transport.send("POST", path, json_body=_body(report), headers=_AGENT)

    async def leave_agent(self, agent_id: str, request: agent_wire.LeaveRequest) -> None:
        """The agent stops; what it ran goes on."""
        path = f"/agents/{_part(agent_id)}/leave"
        await self._transport.send("POST", path, json_body=_body(request))

    # plumbing

    async def _get(self, path: str, model: type[M], **params: Any) -> M:
        response = await self._transport.send("GET", path, params=params)
        return model.model_validate_json(response.content)

    async def _once(self, path: str, body: BaseModel, model: type[M], key: str | None) -> M:
        headers = {"Idempotency-Key": key or os.urandom(16).hex()}
        sent = False  # once it was, it may have been done: a server that is away now is waited for
        for pause in _RETRY_AFTER:
            try:
                return await self._post(path, body, model, headers=headers, timeout=120)
            except ServerUnreachable as error:
                sent = sent or bool(error.facts.get("sent"))
                if not sent:
                    raise
                await asyncio.sleep(pause)
        return await self._post(path, body, model, headers=headers, timeout=120)

    async def _post(
        self,
        path: str,
        body: BaseModel | None,
        model: type[M],
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> M:
        response = await self._transport.send(
            "POST",
            path,
            json_body=_body(body) if body is not None else None,
            headers=headers,
            params=params,
            timeout=timeout,
        )
        return model.model_validate_json(response.content)


def _body(model: BaseModel) -> bytes:
    # Of a launch, what nobody said is not sent: where it begins from a job or a run, that stays as it was.
    is_launch = isinstance(model, LaunchRequest | LaunchBatch | RerunRequest)
    return model.model_dump_json(exclude_unset=is_launch).encode()


def _part(text: str) -> str:
    """One segment of a path, whatever was typed."""
    return quote(text, safe="") or "-"
