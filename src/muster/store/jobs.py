"""Jobs, their versions and aliases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, and_, case, delete, insert, null, or_, select, tuple_, update

from muster.domain.job import Defaults, Job, JobContent, JobVersion
from muster.store.schema import AnyRow, job_aliases, job_versions, jobs

_is_there = jobs.c.deleted_at.is_(null())

Cursor = tuple[str, str, str]  #: entity, project, name


def add(conn: Connection, job: Job, *, origin: str | None) -> None:
    """`origin` is the name that the source of its launches gives."""
    conn.execute(
        insert(jobs).values(
            id=job.id,
            entity=job.entity,
            project=job.project,
            name=job.name,
            origin=origin,
            newest=job.newest,
            created_at=job.created_at,
            created_by=job.created_by,
        )
    )


def add_version(conn: Connection, version: JobVersion) -> None:
    """File a version; it is the newest now."""
    conn.execute(
        insert(job_versions).values(
            job_id=version.job_id,
            version=version.version,
            digest=version.content.digest,
            content=version.content.to_data(),
            defaults=version.defaults.to_data(),
            created_at=version.created_at,
            created_by=version.created_by,
        )
    )
    conn.execute(update(jobs).where(jobs.c.id == version.job_id).values(newest=version.version))


def find(conn: Connection, entity: str, project: str, name: str) -> Job | None:
    here = and_(jobs.c.entity == entity, jobs.c.project == project, jobs.c.name == name)
    row = conn.execute(select(jobs).where(here, _is_there)).one_or_none()
    return _jobs(conn, [row])[0] if row else None


def find_by_origin(conn: Connection, entity: str, project: str, origin: str) -> Job | None:
    """The job that launches of a source file into: also one that was renamed since."""
    row = conn.execute(
        select(jobs)
        .where(jobs.c.entity == entity, jobs.c.project == project, _is_there)
        .where(or_(jobs.c.origin == origin, jobs.c.name == origin))
        .order_by(case((jobs.c.origin == origin, 0), else_=1), jobs.c.created_at, jobs.c.id)
        .limit(1)
    ).one_or_none()
    return _jobs(conn, [row])[0] if row else None


def page(
    conn: Connection,
    entities: Sequence[str] | None,
    *,
    project: str | None,
    text: str | None,
    after: Cursor | None,
    limit: int,
) -> list[Job]:
    """In the order of entity, project and name."""
    place = tuple_(jobs.c.entity, jobs.c.project, jobs.c.name)
    query = select(jobs).where(_is_there).order_by(jobs.c.entity, jobs.c.project, jobs.c.name).limit(limit)
    if entities is not None:
        query = query.where(jobs.c.entity.in_(entities))
    if project is not None:
        query = query.where(jobs.c.project == project)
    if text:
        query = query.where(jobs.c.name.contains(text, autoescape=True))
    if after is not None:
        query = query.where(place > tuple_(*after))
    return _jobs(conn, list(conn.execute(query)))


def names(conn: Connection, job_ids: Iterable[str]) -> dict[str, str]:
    """What jobs are called, also those that were deleted."""
    wanted = set(job_ids)
    if not wanted:
        return {}
    rows = conn.execute(select(jobs.c.id, jobs.c.name).where(jobs.c.id.in_(wanted)))
    return {row.id: row.name for row in rows}


def find_version(conn: Connection, job_id: str, version: int) -> JobVersion | None:
    here = and_(job_versions.c.job_id == job_id, job_versions.c.version == version)
    row = conn.execute(select(job_versions).where(here)).one_or_none()
    return _version(row) if row else None


def version_of(conn: Connection, job_id: str, digest: str) -> int | None:
    """Which version has this content."""
    here = and_(job_versions.c.job_id == job_id, job_versions.c.digest == digest)
    found: int | None = conn.execute(select(job_versions.c.version).where(here)).scalar()
    return found


def versions(conn: Connection, job_id: str, *, before: int | None, limit: int) -> list[JobVersion]:
    """Newest first."""
    query = select(job_versions).where(job_versions.c.job_id == job_id)
    if before is not None:
        query = query.where(job_versions.c.version < before)
    rows = conn.execute(query.order_by(job_versions.c.version.desc()).limit(limit))
    return [_version(row) for row in rows]


def set_alias(conn: Connection, job_id: str, alias: str, version: int) -> None:
    here = and_(job_aliases.c.job_id == job_id, job_aliases.c.alias == alias)
    if conn.execute(update(job_aliases).where(here).values(version=version)).rowcount == 0:
        conn.execute(insert(job_aliases).values(job_id=job_id, alias=alias, version=version))


def remove_alias(conn: Connection, job_id: str, alias: str) -> None:
    conn.execute(delete(job_aliases).where(job_aliases.c.job_id == job_id, job_aliases.c.alias == alias))


def rename(conn: Connection, job_id: str, name: str) -> None:
    conn.execute(update(jobs).where(jobs.c.id == job_id).values(name=name))


def remove(conn: Connection, job_id: str, *, at: datetime) -> None:
    """It is listed and launched no more; its runs still lead to it."""
    conn.execute(update(jobs).where(jobs.c.id == job_id).values(deleted_at=at))


def _jobs(conn: Connection, rows: Sequence[AnyRow]) -> list[Job]:
    aliases: dict[str, dict[str, int]] = {row.id: {} for row in rows}
    if rows:
        found = conn.execute(select(job_aliases).where(job_aliases.c.job_id.in_(list(aliases))))
        for alias in sorted(found, key=lambda alias: str(alias.alias)):
            aliases[alias.job_id][alias.alias] = alias.version
    return [_job(row, aliases[row.id]) for row in rows]


def _job(row: AnyRow, aliases: Mapping[str, int]) -> Job:
    return Job(
        id=row.id,
        entity=row.entity,
        project=row.project,
        name=row.name,
        newest=row.newest,
        aliases=aliases,
        created_at=row.created_at,
        created_by=row.created_by,
    )


def _version(row: AnyRow) -> JobVersion:
    return JobVersion(
        job_id=row.job_id,
        version=row.version,
        content=JobContent.from_data(row.content),
        defaults=Defaults.from_data(row.defaults),
        created_at=row.created_at,
        created_by=row.created_by,
    )
