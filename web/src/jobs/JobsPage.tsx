import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Boxes, Rocket, Search } from "lucide-react";
import { useDeferredValue, useRef, useState } from "react";
import type { Job } from "../api/client";
import "../design/jobs.css";
import { useLaunch } from "../launch/address";
import { m } from "../messages";
import { mayLaunch, useMe } from "../session/me";
import { Button } from "../ui/Button";
import { Command } from "../ui/Copy";
import { useKeys } from "../ui/keys";
import { Empty, ErrorNote, Skeleton } from "../ui/Notes";
import { Ago } from "../ui/Time";
import { useJobs } from "./queries";

const j = m.jobs;

/** All jobs one may see, or those of one project. */
export function JobsPage() {
  const { entity, project } = useParams({ strict: false }) as { entity?: string; project?: string };
  const search = useSearch({ strict: false }) as { q?: string };
  const navigate = useNavigate();
  const [text, setText] = useState(search.q ?? "");
  const field = useRef<HTMLInputElement>(null);
  const asked = useDeferredValue(text.trim());
  const found = useJobs({ ...(entity ? { entity } : {}), ...(project ? { project } : {}), text: asked });
  const jobs = found.data?.pages.flatMap((page) => page.items) ?? [];
  useKeys({ "/": () => field.current?.focus() });
  const keep = () =>
    void navigate({ to: ".", search: (text ? { q: text } : {}) as never, replace: true, resetScroll: false });
  const empty = found.isSuccess && jobs.length === 0;
  return (
    <div className="page">
      <div className="page-head">
        <h1>{entity && project ? j.of(entity, project) : j.title}</h1>
      </div>
      {empty && !asked ? null : (
        <div className="filter-bar">
          <div className="search-field">
            <Search size={14} aria-hidden="true" />
            <input
              ref={field}
              type="search"
              className="input"
              placeholder={j.search}
              aria-label={j.search}
              maxLength={128}
              value={text}
              onChange={(event) => setText(event.target.value)}
              onBlur={keep}
            />
            <kbd aria-hidden="true">/</kbd>
          </div>
        </div>
      )}
      {found.error ? <ErrorNote error={found.error} onRetry={() => void found.refetch()} /> : null}
      {found.isPending ? <Skeleton /> : null}
      {empty ? (
        asked ? (
          <Empty icon={Boxes} title={j.noneTitle}>
            {j.none}
          </Empty>
        ) : (
          <Empty icon={Boxes} title={j.emptyTitle}>
            <p>{j.empty}</p>
            <Command text={j.emptyCommand} />
          </Empty>
        )
      ) : null}
      {jobs.length ? <Table jobs={jobs} /> : null}
      {found.hasNextPage ? (
        <Button onClick={() => void found.fetchNextPage()} disabled={found.isFetchingNextPage}>
          {j.more}
        </Button>
      ) : null}
    </div>
  );
}

function Table({ jobs }: { jobs: readonly Job[] }) {
  return (
    <div className="scroll-x">
      <table className="table" aria-label={j.label}>
        <thead>
          <tr>
            <th scope="col">{j.name}</th>
            <th scope="col">{j.newest}</th>
            <th scope="col">{j.aliases}</th>
            <th scope="col">{j.project}</th>
            <th scope="col">{j.by}</th>
            <th scope="col" className="right">
              {j.created}
            </th>
            <td />
          </tr>
        </thead>
        <tbody>
          {jobs.map((job) => (
            <Line key={`${job.entity}/${job.project}/${job.name}`} job={job} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Line({ job }: { job: Job }) {
  const launch = useLaunch();
  const me = useMe();
  const { entity, project, name } = job;
  const aliases = Object.entries(job.aliases).filter(([alias]) => alias !== "latest");
  return (
    <tr>
      <td>
        <Link to="/$entity/$project/jobs/$job" params={{ entity, project, job: name }} className="run-name">
          {name}
        </Link>
      </td>
      <td className="num dim">{j.version(job.version)}</td>
      <td>
        {aliases.map(([alias, version]) => (
          <span key={alias} className="tag">
            {alias} <span className="faint">{j.version(version)}</span>
          </span>
        ))}
      </td>
      <td>
        <Link to="/$entity/$project/jobs" params={{ entity, project }} className="dim">
          {entity}/{project}
        </Link>
      </td>
      <td className="dim">{job.created_by}</td>
      <td className="right dim">
        <Ago at={job.created_at} />
      </td>
      <td className="right">
        {mayLaunch(me.data, entity) ? (
          <Button
            kind="ghost"
            icon={<Rocket size={14} />}
            aria-label={j.launchOf(name)}
            title={j.launchOf(name)}
            onClick={() => launch.open({ from: "job", entity, project, job: name, version: "latest" })}
          />
        ) : null}
      </td>
    </tr>
  );
}
