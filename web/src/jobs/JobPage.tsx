import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { ChevronRight, Pencil, Rocket, Trash2 } from "lucide-react";
import { useEffect, useState } from "react";
import { api, ask, type Job, type JobVersion } from "../api/client";
import "../design/jobs.css";
import { useLaunch } from "../launch/address";
import { m } from "../messages";
import { mayLaunch, useMe } from "../session/me";
import { Button } from "../ui/Button";
import { Confirm } from "../ui/Confirm";
import { ErrorNote, Skeleton } from "../ui/Notes";
import { StateBadge } from "../ui/StateBadge";
import { Ago, Span } from "../ui/Time";
import { say } from "../ui/Toasts";
import { Question } from "./Question";
import { type Place, useJob, useRunsOf, useVersions } from "./queries";
import { Recipe } from "./Recipe";
import { Versions } from "./Versions";

const j = m.jobs;

export function JobPage() {
  const place = useParams({ strict: false }) as unknown as Place;
  const { data: job, error, refetch } = useJob(place);
  useEffect(() => {
    document.title = `${place.job} · ${m.app.name}`;
    return () => {
      document.title = m.app.name;
    };
  }, [place.job]);
  return (
    <div className="page">
      <nav className="crumbs" aria-label={m.common.back}>
        <Link to="/jobs" className="dim">
          {j.title}
        </Link>
        <ChevronRight size={13} aria-hidden="true" />
        <Link
          to="/$entity/$project/jobs"
          params={{ entity: place.entity, project: place.project }}
          className="dim"
        >
          {place.entity}/{place.project}
        </Link>
        <ChevronRight size={13} aria-hidden="true" />
        <span className="cut">{place.job}</span>
      </nav>
      {error ? <ErrorNote error={error} onRetry={() => void refetch()} /> : null}
      {!job && !error ? <Skeleton /> : null}
      {job && !error ? <Loaded job={job} place={place} /> : null}
    </div>
  );
}

function Loaded({ job, place }: { job: Job; place: Place }) {
  const search = useSearch({ strict: false }) as { version?: string };
  const found = useVersions(place);
  const me = useMe();
  const versions = found.data?.pages.flatMap((page) => page.items) ?? [];
  const wanted = search.version ?? "latest";
  const shown =
    versions.find(({ version, aliases }) => `v${version}` === wanted || aliases.includes(wanted)) ??
    versions[0];
  const mine = mayLaunch(me.data, job.entity);
  return (
    <>
      <div className="run-title">
        <h1 className="cut">{job.name}</h1>
        {mine ? <Actions job={job} place={place} shown={shown} /> : null}
      </div>
      <p className="run-facts dim">
        <span>
          {job.created_by}, <Ago at={job.created_at} />
        </span>
      </p>
      {found.error ? <ErrorNote error={found.error} onRetry={() => void found.refetch()} /> : null}
      <div className="job">
        <div className="job-main">
          <Versions versions={versions} shown={shown} place={place} mine={mine} />
          {found.hasNextPage ? (
            <Button onClick={() => void found.fetchNextPage()} disabled={found.isFetchingNextPage}>
              {j.more}
            </Button>
          ) : null}
          <Runs place={place} />
        </div>
        {shown ? <Recipe version={shown} /> : null}
      </div>
    </>
  );
}

function Actions({ job, place, shown }: { job: Job; place: Place; shown: JobVersion | undefined }) {
  const launch = useLaunch();
  const navigate = useNavigate();
  const client = useQueryClient();
  const [deed, setDeed] = useState<"rename" | "delete" | null>(null);
  const { entity, project, name } = job;
  const params = { path: { name }, query: { entity, project } };
  // Under this name it is no more. Lists are read again, never dropped: somebody may be looking at them.
  const forget = () => {
    for (const what of ["one", "versions of", "runs"])
      client.removeQueries({ queryKey: ["jobs", what, place] });
    void client.invalidateQueries({ queryKey: ["jobs"] });
  };
  const rename = async (word: string) => {
    const renamed = await ask(api.PATCH("/api/v1/jobs/{name}", { params, body: { name: word } }));
    await navigate({ to: "/$entity/$project/jobs/$job", params: { entity, project, job: renamed.name } });
    forget();
    say(j.renamed(renamed.name));
  };
  const remove = async () => {
    await ask(api.DELETE("/api/v1/jobs/{name}", { params }));
    await navigate({ to: "/$entity/$project/jobs", params: { entity, project } });
    forget();
    say(j.deleted(name));
  };
  const version = shown ? `v${shown.version}` : "latest";
  return (
    <div className="run-actions">
      <Button
        kind="primary"
        icon={<Rocket size={13} />}
        onClick={() => launch.open({ from: "job", entity, project, job: name, version })}
      >
        {j.launch}
      </Button>
      <Button icon={<Pencil size={13} />} onClick={() => setDeed("rename")}>
        {j.rename}
      </Button>
      <Button
        icon={<Trash2 size={13} />}
        aria-label={j.delete}
        title={j.delete}
        onClick={() => setDeed("delete")}
      />
      {deed === "rename" ? (
        <Question
          title={j.renameTitle(name)}
          hint={j.renameHint}
          label={j.newName}
          initial={name}
          action={j.rename}
          onClose={() => setDeed(null)}
          onAnswer={rename}
        />
      ) : null}
      <Confirm
        open={deed === "delete"}
        onClose={() => setDeed(null)}
        title={j.deleteTitle(name)}
        action={j.delete}
        danger
        onConfirm={remove}
      >
        <dl>
          <dt>{j.deleteLost}</dt>
          <dd>{j.deleteLostList(job.version + 1)}</dd>
          <dt>{j.deleteKept}</dt>
          <dd>{j.deleteKeptList}</dd>
        </dl>
      </Confirm>
    </div>
  );
}

function Runs({ place }: { place: Place }) {
  const found = useRunsOf(place);
  const runs = found.data?.items ?? [];
  return (
    <section className="block" aria-label={j.runs}>
      <div className="block-head">
        <h2>{j.runs}</h2>
        {runs.length ? (
          <Link to="/runs" search={{ job: `${place.project}/${place.job}` }} className="link">
            {j.allRuns}
          </Link>
        ) : null}
      </div>
      {found.error ? <ErrorNote error={found.error} onRetry={() => void found.refetch()} /> : null}
      {found.isSuccess && !runs.length ? <p className="dim">{j.noRuns}</p> : null}
      {runs.length ? (
        <div className="scroll-x">
          <table className="table" aria-label={j.runsLabel}>
            <thead>
              <tr>
                <th scope="col">{m.runs.column.state}</th>
                <th scope="col">{m.runs.column.name}</th>
                <th scope="col">{m.launch.version}</th>
                <th scope="col">{m.runs.column.queue}</th>
                <th scope="col">{m.runs.column.author}</th>
                <th scope="col" className="right">
                  {m.runs.column.duration}
                </th>
                <th scope="col" className="right">
                  {m.runs.column.created}
                </th>
              </tr>
            </thead>
            <tbody>
              {runs.map((run) => (
                <tr key={run.id}>
                  <td>
                    <StateBadge state={run.state} />
                  </td>
                  <td>
                    <Link to="/runs/$runId" params={{ runId: run.id }} className="run-name">
                      {run.name}
                    </Link>
                  </td>
                  <td className="num dim">{run.job ? j.version(run.job.version) : ""}</td>
                  <td className="dim">{run.queue}</td>
                  <td className="dim">{run.author}</td>
                  <td className="right dim">
                    {run.started_at ? <Span from={run.started_at} to={run.ended_at} /> : m.common.never}
                  </td>
                  <td className="right dim">
                    <Ago at={run.created_at} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : null}
    </section>
  );
}
