"""`Client`: the same operations as `AsyncClient`, without `await`. A shell, not a second client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from muster.client.api import AsyncClient
from muster.client.settings import ClientSettings
from muster.domain.run import RunState
from muster.wire.accounts import (
    AuditModel,
    EntityModel,
    KeyModel,
    KeyRequest,
    MeModel,
    NewKeyModel,
    RoleRequest,
    UserRequest,
)
from muster.wire.base import Page
from muster.wire.code import SnapshotContent, SnapshotModel, SnapshotRequest
from muster.wire.groups import GridRequest, GroupModel, GroupRuns, StoppedGroup
from muster.wire.jobs import JobModel, JobRequest, JobVersionModel
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
    TrialModel,
    TrialRequest,
    VersionSummary,
)
from muster.wire.runs import (
    EventModel,
    ExplanationModel,
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

if TYPE_CHECKING:
    from muster.wire import agents as agent_wire
    from muster.wire import clusters as cluster_wire

T = TypeVar("T")


class _LoopThread:
    """One event loop in the background for all clients of the process; also fine inside notebooks."""

    _lock = threading.Lock()
    _loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    def loop(cls) -> asyncio.AbstractEventLoop:
        with cls._lock:
            if cls._loop is None:
                cls._loop = asyncio.new_event_loop()
                threading.Thread(target=cls._loop.run_forever, name="muster-client", daemon=True).start()
            return cls._loop


class Client:
    """A Muster server. Without arguments: the one that environment, config file or `muster up` name."""

    def __init__(
        self, url: str | None = None, api_key: str | None = None, *, settings: ClientSettings | None = None
    ) -> None:
        self._async = AsyncClient(url, api_key, settings=settings)
        self._loop = _LoopThread.loop()

    @property
    def settings(self) -> ClientSettings:
        return self._async.settings

    @property
    def url(self) -> str:
        return self._async.url

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.wait(self._async.close())

    @property
    def asynchronous(self) -> AsyncClient:
        """The client underneath. Its coroutines run on the background loop: see `wait`."""
        return self._async

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the asynchronous client to its end."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, source: AsyncIterator[T]) -> Iterator[T]:
        """Step through an asynchronous iterator of that client."""

        async def following() -> tuple[T] | None:
            try:
                return (await anext(source),)
            except StopAsyncIteration:
                return None

        async def finish() -> None:
            close = getattr(source, "aclose", None)
            if close is not None:
                await close()

        try:
            while (item := self.wait(following())) is not None:
                yield item[0]
        finally:
            self.wait(finish())

    def launch(self, request: LaunchRequest, *, idempotency_key: str | None = None) -> RunModel:
        """Launch one run. A launch whose answer was lost is asked for again, and not made twice."""
        return self.wait(self._async.launch(request, idempotency_key=idempotency_key))

    def launch_batch(
        self, requests: Sequence[LaunchRequest], *, group: bool = False, idempotency_key: str | None = None
    ) -> Page[RunModel]:
        """Launch many runs: all of them, or none. With `group`, they get a group id of their own."""
        return self.wait(self._async.launch_batch(requests, group=group, idempotency_key=idempotency_key))

    def launch_grid(self, request: GridRequest, *, idempotency_key: str | None = None) -> GroupRuns:
        """Launch a run for each combination of values: all of them, or none."""
        return self.wait(self._async.launch_grid(request, idempotency_key=idempotency_key))

    def get_group(self, group_id: str, *, newer_than: int | None = None, wait: float = 0) -> GroupModel:
        """A group as it stands; or, with `newer_than` and `wait`, as soon as one of its runs has changed."""
        return self.wait(self._async.get_group(group_id, newer_than=newer_than, wait=wait))

    def stop_group(self, group_id: str) -> StoppedGroup:
        """Ask all runs of a group to stop."""
        return self.wait(self._async.stop_group(group_id))

    def preview_launch(self, request: LaunchRequest) -> PreviewModel:
        """What would be started, without starting it."""
        return self.wait(self._async.preview_launch(request))

    def rerun_run(
        self, run_id: str, request: RerunRequest | None = None, *, idempotency_key: str | None = None
    ) -> RunModel:
        """Launch a run again, as it was or with some of it replaced."""
        return self.wait(self._async.rerun_run(run_id, request, idempotency_key=idempotency_key))

    def preview_rerun(self, run_id: str, request: RerunRequest | None = None) -> PreviewModel:
        """What launching a run again would start, without starting it."""
        return self.wait(self._async.preview_rerun(run_id, request))

    def list_runs(
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
        return self.wait(
            self._async.list_runs(
                entity=entity,
                project=project,
                queue=queue,
                author=author,
                job=job,
                state=state,
                text=text,
                group=group,
                sort=sort,
                limit=limit,
                cursor=cursor,
            )
        )

    def get_run(self, run_id: str, *, newer_than: int | None = None, wait: float = 0) -> RunModel:
        """One run as it stands; or, with `newer_than` and `wait`, as soon as it has changed."""
        return self.wait(self._async.get_run(run_id, newer_than=newer_than, wait=wait))

    def stop_run(self, run_id: str) -> RunModel:
        """Ask a run to stop."""
        return self.wait(self._async.stop_run(run_id))

    def place_run(self, run_id: str, request: PlaceRequest) -> RunModel:
        """Give a run that waits another priority; or, as an admin, another place in the line."""
        return self.wait(self._async.place_run(run_id, request))

    def delete_run(self, run_id: str) -> None:
        """Delete a run that has ended, with its events, logs and usage."""
        self.wait(self._async.delete_run(run_id))

    def list_run_events(
        self, run_id: str, *, limit: int = 1000, cursor: str | None = None
    ) -> Page[EventModel]:
        """What happened to a run, in order."""
        return self.wait(self._async.list_run_events(run_id, limit=limit, cursor=cursor))

    def list_replicas(self, run_id: str, *, attempt: int | None = None) -> Page[ReplicaModel]:
        """The members of a run's newest attempt, or of the one given."""
        return self.wait(self._async.list_replicas(run_id, attempt=attempt))

    def explain_run(self, run_id: str) -> ExplanationModel:
        """Why it waits, or why it ended as it did."""
        return self.wait(self._async.explain_run(run_id))

    def get_manifest(self, run_id: str, *, attempt: int | None = None) -> ManifestModel:
        """What was submitted to the engine; before that, what would be."""
        return self.wait(self._async.get_manifest(run_id, attempt=attempt))

    def get_usage(
        self, run_id: str, *, attempt: int | None = None, max_points: int = 500
    ) -> Page[UsageSeries]:
        """CPU, memory, GPU, disk and network over time, per replica."""
        return self.wait(self._async.get_usage(run_id, attempt=attempt, max_points=max_points))

    def read_log(
        self,
        run_id: str,
        *,
        rank: int = 0,
        attempt: int | None = None,
        offset: int = 0,
        limit: int = 1024 * 1024,
    ) -> bytes:
        """Raw bytes of one replica's output from an offset (below zero: from the end); empty at its end."""
        return self.wait(self._async.read_log(run_id, rank=rank, attempt=attempt, offset=offset, limit=limit))

    def follow_logs(
        self, run_id: str, *, rank: int | None = None, attempt: int | None = None, tail: int | None = None
    ) -> Iterator[LogChunk]:
        """Output as it grows, until the run has ended."""
        return self.iterate(self._async.follow_logs(run_id, rank=rank, attempt=attempt, tail=tail))

    def follow_events(self, *, run: str | None = None) -> Iterator[EventModel]:
        """Events of the runs one may see (or of one), from now on, as they happen."""
        return self.iterate(self._async.follow_events(run=run))

    def list_queues(self, *, entity: str | None = None) -> Page[QueueModel]:
        """The queues one may see."""
        return self.wait(self._async.list_queues(entity=entity))

    def create_queue(self, request: QueueRequest) -> QueueModel:
        """Create a queue."""
        return self.wait(self._async.create_queue(request))

    def get_queue(self, name: str, *, entity: str | None = None) -> QueueModel:
        """One queue at its newest version."""
        return self.wait(self._async.get_queue(name, entity=entity))

    def edit_queue(self, name: str, edit: QueueEdit, *, entity: str | None = None) -> QueueModel:
        """Make a new version of a queue. What `edit` was not given stays."""
        return self.wait(self._async.edit_queue(name, edit, entity=entity))

    def delete_queue(self, name: str, *, entity: str | None = None) -> None:
        """Delete a queue that has no runs."""
        self.wait(self._async.delete_queue(name, entity=entity))

    def pause_queue(self, name: str, *, entity: str | None = None) -> QueueModel:
        """Hand out no more runs of this queue."""
        return self.wait(self._async.pause_queue(name, entity=entity))

    def resume_queue(self, name: str, *, entity: str | None = None) -> QueueModel:
        """Hand out runs again, and take launches again."""
        return self.wait(self._async.resume_queue(name, entity=entity))

    def drain_queue(self, name: str, *, entity: str | None = None) -> QueueModel:
        """Take no more launches. What waits and what runs goes on."""
        return self.wait(self._async.drain_queue(name, entity=entity))

    def parse_queue(self, request: ParseRequest) -> ParseModel:
        """Look through a config: its variables, macros and objects, and what is wrong with it."""
        return self.wait(self._async.parse_queue(request))

    def preview_queue(self, request: TrialRequest) -> TrialModel:
        """What a launch into a queue of this config would start, before it is a queue's."""
        return self.wait(self._async.preview_queue(request))

    def get_queue_line(self, name: str, *, entity: str | None = None, limit: int = 100) -> LineModel:
        """The runs that wait in a queue, in the order in which they would be started one by one."""
        return self.wait(self._async.get_queue_line(name, entity=entity, limit=limit))

    def get_queue_history(
        self, name: str, *, entity: str | None = None, hours: int = 24, points: int = 145
    ) -> HistoryModel:
        """How many runs waited and ran over the last hours."""
        return self.wait(self._async.get_queue_history(name, entity=entity, hours=hours, points=points))

    def list_queue_versions(
        self, name: str, *, entity: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[VersionSummary]:
        """The versions of a queue, the newest first, and what each changed."""
        return self.wait(self._async.list_queue_versions(name, entity=entity, limit=limit, cursor=cursor))

    def get_queue_version(self, name: str, version: int, *, entity: str | None = None) -> QueueVersionModel:
        """A queue as it was at one version."""
        return self.wait(self._async.get_queue_version(name, version, entity=entity))

    def diff_queue(
        self, name: str, *, from_version: int, to_version: int, entity: str | None = None
    ) -> DiffModel:
        """How two versions of a queue differ."""
        return self.wait(
            self._async.diff_queue(name, from_version=from_version, to_version=to_version, entity=entity)
        )

    def roll_back_queue(self, name: str, version: int, *, entity: str | None = None) -> QueueModel:
        """Make a new version of a queue that says what an old one said."""
        return self.wait(self._async.roll_back_queue(name, version, entity=entity))

    def list_jobs(
        self,
        *,
        entity: str | None = None,
        project: str | None = None,
        text: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[JobModel]:
        """Jobs, by entity, project and name."""
        return self.wait(
            self._async.list_jobs(entity=entity, project=project, text=text, limit=limit, cursor=cursor)
        )

    def create_job(self, request: JobRequest) -> JobVersionModel:
        """File a version of a job without launching it."""
        return self.wait(self._async.create_job(request))

    def get_job(self, name: str, *, entity: str | None = None, project: str | None = None) -> JobModel:
        """One job."""
        return self.wait(self._async.get_job(name, entity=entity, project=project))

    def list_job_versions(
        self,
        name: str,
        *,
        entity: str | None = None,
        project: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[JobVersionModel]:
        """The versions of a job, newest first."""
        return self.wait(
            self._async.list_job_versions(name, entity=entity, project=project, limit=limit, cursor=cursor)
        )

    def get_job_version(
        self, name: str, version: str = "latest", *, entity: str | None = None, project: str | None = None
    ) -> JobVersionModel:
        """One version: `v3`, `latest` or another alias."""
        return self.wait(self._async.get_job_version(name, version, entity=entity, project=project))

    def rename_job(
        self, name: str, new_name: str, *, entity: str | None = None, project: str | None = None
    ) -> JobModel:
        """Call a job otherwise."""
        return self.wait(self._async.rename_job(name, new_name, entity=entity, project=project))

    def delete_job(self, name: str, *, entity: str | None = None, project: str | None = None) -> None:
        """Delete a job. Its runs stay."""
        self.wait(self._async.delete_job(name, entity=entity, project=project))

    def set_job_alias(
        self,
        name: str,
        alias: str,
        version: str = "latest",
        *,
        entity: str | None = None,
        project: str | None = None,
    ) -> JobModel:
        """Let an alias stand for a version."""
        return self.wait(self._async.set_job_alias(name, alias, version, entity=entity, project=project))

    def remove_job_alias(
        self, name: str, alias: str, *, entity: str | None = None, project: str | None = None
    ) -> JobModel:
        """Let an alias stand for nothing any more."""
        return self.wait(self._async.remove_job_alias(name, alias, entity=entity, project=project))

    def create_snapshot(self, request: SnapshotRequest) -> SnapshotModel:
        """Announce code. The answer names the files the server does not have yet."""
        return self.wait(self._async.create_snapshot(request))

    def upload_blobs(
        self, snapshot_id: str, frames: Iterable[bytes], *, entity: str | None = None
    ) -> SnapshotModel:
        """Send missing files (`muster.client.code.pack`)."""
        return self.wait(self._async.upload_blobs(snapshot_id, frames, entity=entity))

    def get_snapshot(self, snapshot_id: str, *, entity: str | None = None) -> SnapshotContent:
        """The files of a snapshot."""
        return self.wait(self._async.get_snapshot(snapshot_id, entity=entity))

    def download_snapshot(self, snapshot_id: str, target: Path, *, entity: str | None = None) -> None:
        """Save the snapshot as a tar archive."""
        self.wait(self._async.download_snapshot(snapshot_id, target, entity=entity))

    def read_checksums(self, snapshot_id: str, *, entity: str | None = None) -> str:
        """Of every file of a snapshot, as `sha256sum -c` reads them."""
        return self.wait(self._async.read_checksums(snapshot_id, entity=entity))

    def get_me(self) -> MeModel:
        """Who the caller is, and where."""
        return self.wait(self._async.get_me())

    def list_keys(self) -> Page[KeyModel]:
        """One's own keys that are not revoked."""
        return self.wait(self._async.list_keys())

    def create_key(self, request: KeyRequest) -> NewKeyModel:
        """A new key, shown this once."""
        return self.wait(self._async.create_key(request))

    def revoke_key(self, key_id: str) -> None:
        """Make a key worthless, at once."""
        self.wait(self._async.revoke_key(key_id))

    def create_user(self, request: UserRequest) -> NewKeyModel:
        """Add a user, with an entity of the same name and a first key."""
        return self.wait(self._async.create_user(request))

    def list_entities(self) -> Page[EntityModel]:
        """The entities one belongs to."""
        return self.wait(self._async.list_entities())

    def get_entity(self, name: str) -> EntityModel:
        """One entity with its members."""
        return self.wait(self._async.get_entity(name))

    def create_entity(self, name: str) -> EntityModel:
        """Create a team."""
        return self.wait(self._async.create_entity(name))

    def set_entity_limits(self, name: str, limits: LimitModel) -> EntityModel:
        """Limit what all queues of an entity together may run at once."""
        return self.wait(self._async.set_entity_limits(name, limits))

    def set_member(self, name: str, user: str, request: RoleRequest) -> None:
        """Give a user a role in an entity."""
        self.wait(self._async.set_member(name, user, request))

    def remove_member(self, name: str, user: str) -> None:
        """Take a user out of an entity."""
        self.wait(self._async.remove_member(name, user))

    def list_audit(
        self, *, entity: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[AuditModel]:
        """Who did what, newest first."""
        return self.wait(self._async.list_audit(entity=entity, limit=limit, cursor=cursor))

    def list_agents(self, *, entity: str | None = None) -> Page[agent_wire.AgentModel]:
        """The agents one may see, online or not."""
        return self.wait(self._async.list_agents(entity=entity))

    def list_clusters(self, *, entity: str | None = None) -> Page[cluster_wire.ClusterModel]:
        """What agents last saw of the clusters they drive."""
        return self.wait(self._async.list_clusters(entity=entity))

    def get_agent(self, name: str, *, entity: str | None = None) -> agent_wire.AgentDetail:
        """One agent: what it has now, and what it said last."""
        return self.wait(self._async.get_agent(name, entity=entity))

    def pause_agent(self, name: str, *, entity: str | None = None) -> agent_wire.AgentModel:
        """Give an agent no more runs. What it has goes on."""
        return self.wait(self._async.pause_agent(name, entity=entity))

    def resume_agent(self, name: str, *, entity: str | None = None) -> agent_wire.AgentModel:
        """Give an agent runs again."""
        return self.wait(self._async.resume_agent(name, entity=entity))

    def delete_agent(self, name: str, *, entity: str | None = None) -> None:
        """Remove an agent that is gone for good."""
        self.wait(self._async.delete_agent(name, entity=entity))

    def register_agent(self, request: agent_wire.AgentRequest) -> agent_wire.AgentModel:
        """Enter an agent."""
        return self.wait(self._async.register_agent(request))

    def poll_work(self, agent_id: str, request: agent_wire.PollRequest) -> agent_wire.PollAnswer:
        """Renew all leases; wait for work and commands."""
        return self.wait(self._async.poll_work(agent_id, request))

    def send_reports(self, agent_id: str, batch: agent_wire.ReportBatch) -> agent_wire.ReportAnswer:
        """What the agent saw."""
        return self.wait(self._async.send_reports(agent_id, batch))

    def send_logs(self, agent_id: str, index: agent_wire.LogIndex, data: bytes) -> agent_wire.LogAnswer:
        """Output of many replicas in one request."""
        return self.wait(self._async.send_logs(agent_id, index, data))

    def send_usage(self, agent_id: str, batch: agent_wire.UsageBatch) -> None:
        """Resource use of the agent's live replicas."""
        self.wait(self._async.send_usage(agent_id, batch))

    def send_cluster(self, agent_id: str, report: cluster_wire.ClusterReport) -> None:
        """What the agent sees of the cluster that it drives."""
        self.wait(self._async.send_cluster(agent_id, report))

    def leave_agent(self, agent_id: str, request: agent_wire.LeaveRequest) -> None:
        """The agent stops; what it ran goes on."""
        self.wait(self._async.leave_agent(agent_id, request))
