import { Link } from "@tanstack/react-router";
import { CircleCheck, CircleHelp, Lightbulb, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import type { Explanation, Run } from "../api/client";
import { plainText } from "../logs/ansi";
import { m } from "../messages";
import { CopyButton } from "../ui/Copy";
import { bytes, cores, shellWords } from "../ui/format";
import { Skeleton } from "../ui/Notes";
import { StateIcon } from "../ui/StateBadge";
import { Ago } from "../ui/Time";
import { useEvents, useWhy } from "./queries";
import { Timeline } from "./Timeline";

const o = m.overview;

export function Overview({ run }: { run: Run }) {
  const why = useWhy(run.id);
  const events = useEvents(run.id); // of the timeline
  if (why.isPending || events.isPending) return <Skeleton />; // both stand above the rest, and would push it down
  return (
    <div className="overview">
      <div className="overview-main">
        {why.data ? <Why run={run} why={why.data} /> : null}
        <Block title={o.timeline}>
          <Timeline run={run} />
        </Block>
        <Block title={o.command} action={<CopyButton text={shellWords(run.command)} />}>
          <pre className="code-block">{shellWords(run.command)}</pre>
        </Block>
        <Changes run={run} />
        <Values title={o.config} values={run.config} />
        <Values title={o.values} values={run.values} />
        <Values title={o.env} values={run.env} />
      </div>
      <aside className="overview-side">
        <Details run={run} />
      </aside>
    </div>
  );
}

function Block({ title, action, children }: { title: string; action?: ReactNode; children: ReactNode }) {
  return (
    <section className="block">
      <div className="block-head">
        <h2>{title}</h2>
        {action}
      </div>
      {children}
    </section>
  );
}

function Why({ run, why }: { run: Run; why: Explanation }) {
  const failed = run.state === "failed";
  const waits = ["queued", "claimed", "pending"].includes(run.state);
  const Icon = failed ? TriangleAlert : run.state === "succeeded" ? CircleCheck : CircleHelp;
  const evidence = why.failure?.evidence.trim();
  return (
    <section
      className={`why ${failed ? "failed" : ""}`}
      aria-label={failed ? o.whyFailed : waits ? o.whyWaiting : o.why}
    >
      <p className="why-summary">
        <Icon size={16} aria-hidden="true" />
        <strong>{why.summary}</strong>
      </p>
      {why.details.length ? (
        <ul>
          {why.details.map((detail) => (
            <li key={detail}>{detail}</li>
          ))}
        </ul>
      ) : null}
      {evidence ? (
        <div className="evidence">
          <pre>{evidence.split("\n").map(plainText).join("\n")}</pre>
          <Link
            to="/runs/$runId"
            params={{ runId: run.id }}
            search={{
              tab: "logs",
              ...(why.failure?.rank != null ? { rank: String(why.failure.rank) } : {}),
              find: firstWords(evidence),
            }}
            className="link"
          >
            {o.showLog}
          </Link>
        </div>
      ) : null}
      {why.advice ? (
        <p className="advice">
          <Lightbulb size={15} aria-hidden="true" />
          <span>{why.advice}</span>
        </p>
      ) : null}
      <Others title={o.ahead} runs={why.ahead} />
      <Others title={o.holding} runs={why.holding} />
    </section>
  );
}

/** Enough of the last line of the evidence to find it in the log. */
function firstWords(evidence: string): string {
  return plainText(evidence.split("\n").findLast((line) => line.trim()) ?? "")
    .trim()
    .slice(0, 100);
}

function Others({ title, runs }: { title: string; runs: Explanation["ahead"] }) {
  if (!runs.length) return null;
  return (
    <div className="others">
      <span className="dim">{title}</span>
      {runs.map((run) => (
        <Link key={run.id} to="/runs/$runId" params={{ runId: run.id }} className="chip">
          <StateIcon state={run.state} />
          {run.name}
          <span className="faint">{run.author}</span>
        </Link>
      ))}
    </div>
  );
}

function Changes({ run }: { run: Run }) {
  const overrides = Object.entries(run.overrides ?? {});
  const changed = run.overridden ?? [];
  if (!overrides.length && !changed.length) return null;
  return (
    <>
      {overrides.length ? <Values title={o.overrides} values={run.overrides ?? {}} /> : null}
      {changed.length ? (
        <Block title={o.changed}>
          <table className="values">
            <tbody>
              {changed.map((change) => (
                <tr key={change.what}>
                  <th scope="row">{change.what}</th>
                  <td>
                    <code>{show(change.after)}</code> <span className="faint">{o.before}</span>{" "}
                    <code className="faint">{show(change.before)}</code>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Block>
      ) : null}
    </>
  );
}

export const show = (value: unknown): string =>
  value === undefined ? "—" : typeof value === "string" ? value : JSON.stringify(value);

function Values({ title, values }: { title: string; values: { [key: string]: unknown } }) {
  const entries = Object.entries(values);
  if (!entries.length) return null;
  return (
    <Block title={title} action={<CopyButton text={JSON.stringify(values, null, 2)} />}>
      <table className="values">
        <tbody>
          {entries.map(([name, value]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>
                <code>{show(value)}</code>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Block>
  );
}

function Details({ run }: { run: Run }) {
  const { millicpus, memory, gpus } = run.resources;
  const needs = [
    millicpus ? `${cores(millicpus)} CPU` : "",
    memory ? bytes(memory) : "",
    gpus ? `${gpus} GPU` : "",
  ].filter(Boolean);
  const t = run.training;
  const rows: [string, ReactNode][] = [
    [
      o.queue,
      <Link key="q" to="/runs" search={{ queue: run.queue }} className="link">
        {run.queue} <span className="faint">{o.version(run.queue_version)}</span>
      </Link>,
    ],
    [
      o.project,
      <Link key="p" to="/runs" search={{ project: run.project }} className="link">
        {run.project}
      </Link>,
    ],
    [
      o.author,
      <Link key="a" to="/runs" search={{ user: run.author }} className="link">
        {run.author}
      </Link>,
    ],
    [o.launched, <Ago key="l" at={run.created_at} />],
    [o.priority, run.priority],
    [o.resources, needs.join(" · ") || m.common.none],
    [
      o.training,
      t ? `${o.shape(t.nodes ?? 1, String(t.procs_per_node ?? 1))}, ${t.launcher ?? "auto"}` : m.common.none,
    ],
    [o.retry, o.retryOf(run.retry.max ?? 0, (run.retry.on ?? []).join(", "))],
    [
      o.source,
      run.job || run.image || run.git || run.snapshot ? (
        <Source key="s" run={run} />
      ) : (
        <span key="s" className="dim">
          {o.noSource}
        </span>
      ),
    ],
    ...(run.group
      ? ([
          [
            o.group,
            <Link key="g" to="/runs" search={{ group: run.group }} className="link mono">
              {run.group}
            </Link>,
          ],
        ] as [string, ReactNode][])
      : []),
  ];
  return (
    <dl className="details">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Source({ run }: { run: Run }) {
  return (
    <span className="source">
      {run.job ? (
        <Link
          to="/$entity/$project/jobs/$job"
          params={{ entity: run.entity, project: run.project, job: run.job.name }}
          search={{ version: `v${run.job.version}` }}
          className="link"
        >
          {run.job.name}:{o.version(run.job.version)}
        </Link>
      ) : null}
      {run.image ? <code className="cut">{run.image}</code> : null}
      {run.git ? (
        <code className="cut">
          {run.git.url}
          {run.git.ref ? ` @ ${run.git.ref}` : ""} {run.git.commit?.slice(0, 10) ?? ""}
        </code>
      ) : null}
      {run.snapshot ? <code className="cut faint">{run.snapshot.slice(0, 12)}</code> : null}
    </span>
  );
}
