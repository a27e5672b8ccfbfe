import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { ChevronRight } from "lucide-react";
import { useEffect } from "react";
import { type Agent, type AgentDetail, api, ask, ProblemError } from "../api/client";
import { m } from "../messages";
import { useEntity } from "../queues/queries";
import { What } from "../run/EventsTab";
import { bytes, cores } from "../ui/format";
import { ErrorNote, Skeleton } from "../ui/Notes";
import { StateBadge } from "../ui/StateBadge";
import { Ago, Span } from "../ui/Time";
import { AgentActions } from "./AgentActions";
import { AgentStanding } from "./AgentStanding";
import { devicesOf, isUnbounded, type Kind, standingOf, usedPart } from "./capacity";
import "../design/queues.css";

const a = m.agent;

export function AgentPage() {
  const { agentName: name } = useParams({ strict: false }) as { agentName: string };
  const entity = useEntity((useSearch({ strict: false }) as { entity?: string }).entity);
  const { data, error, refetch } = useQuery({
    queryKey: ["agents", { name, entity }],
    queryFn: () => ask(api.GET("/api/v1/agents/{name}", { params: { path: { name }, query: { entity } } })),
    enabled: entity !== "",
  });
  useEffect(() => {
    document.title = `${name} · ${m.app.name}`;
    return () => {
      document.title = m.app.name;
    };
  }, [name]);
  const away = data && error instanceof ProblemError && error.problem.status === 0;
  return (
    <div className="page">
      <nav className="crumbs" aria-label={m.common.back}>
        <Link to="/agents" className="dim">
          {m.agents.title}
        </Link>
        <ChevronRight size={13} aria-hidden="true" />
        <span className="cut">{name}</span>
      </nav>
      {error && !away ? <ErrorNote error={error} onRetry={() => void refetch()} /> : null}
      {!data && !error ? <Skeleton /> : null}
      {data ? <Loaded detail={data} /> : null}
    </div>
  );
}

function Loaded({ detail }: { detail: AgentDetail }) {
  const { agent } = detail;
  return (
    <>
      <div className="run-top">
        <div className="run-title">
          <h1 className="cut">{agent.name}</h1>
          <AgentStanding agent={agent} />
          <AgentActions agent={agent} />
        </div>
        <div className="run-facts dim">
          <span>{agent.host}</span>
          <span>{agent.engine}</span>
          <span>{a.version(agent.version)}</span>
          <span>
            {m.agents.serves}{" "}
            {agent.queues.map((queue, i) => (
              <span key={queue}>
                {i ? ", " : ""}
                <Link
                  to="/queues/$queueName"
                  params={{ queueName: queue }}
                  search={{ entity: agent.entity }}
                  className="fact-link"
                >
                  {queue}
                </Link>
              </span>
            ))}
          </span>
          {agent.online ? null : (
            <span>
              {m.agents.seen} <Ago at={agent.seen_at} />
            </span>
          )}
        </div>
        <p className="agent-word">{wordOf(agent)}</p>
      </div>
      <div className="agent">
        <Capacity detail={detail} />
        <Runs detail={detail} />
        <Words detail={detail} />
      </div>
    </>
  );
}

function wordOf(agent: Agent): string {
  const standing = standingOf(agent);
  if (standing === "online" || standing === "paused") return a.facts[standing];
  const how = standing === "left" ? a.facts.left : a.facts.silent;
  return agent.paused_at ? `${how} ${a.facts.offlinePaused}` : how;
}

const KINDS: { kind: Kind; label: string; show: (n: number) => string }[] = [
  { kind: "gpus", label: a.gpu, show: String },
  { kind: "millicpus", label: a.cpu, show: cores },
  { kind: "memory", label: a.memory, show: bytes },
];

function Capacity({ detail: { agent, runs } }: { detail: AgentDetail }) {
  const devices = devicesOf(agent, runs);
  if (isUnbounded(agent)) {
    return (
      <section aria-label={a.capacity}>
        <h2>{a.capacity}</h2>
        <p className="dim">
          {a.clusterCapacity}{" "}
          <Link to="/cluster" className="link">
            {a.clusterNodes}
          </Link>
        </p>
      </section>
    );
  }
  return (
    <section aria-label={a.capacity}>
      <h2>{a.capacity}</h2>
      <dl className="meters">
        <Meter
          label={a.slots}
          part={agent.running / agent.max_jobs}
          words={a.used(String(agent.running), String(agent.max_jobs))}
        />
        {KINDS.filter(({ kind }) => agent.total[kind]).map(({ kind, label, show }) => {
          const total = agent.total[kind] ?? 0;
          const used = agent.online && agent.free ? total - (agent.free[kind] ?? 0) : 0;
          return (
            <Meter
              key={kind}
              label={label}
              part={agent.online ? usedPart(agent, kind) : 0}
              words={a.used(show(used), show(total))}
            />
          );
        })}
      </dl>
      {devices.length ? (
        <ul className="devices" aria-label={a.devices}>
          {devices.map((device) => (
            <li key={device.index} className={device.run ? "taken" : ""}>
              <span className="cut">{a.device(device.index, device.name)}</span>
              {device.run ? (
                <Link to="/runs/$runId" params={{ runId: device.run.id }} className="link cut">
                  {device.run.name}
                </Link>
              ) : (
                <span className="dim">{a.free}</span>
              )}
            </li>
          ))}
        </ul>
      ) : null}
    </section>
  );
}

function Meter({ label, part, words }: { label: string; part: number; words: string }) {
  return (
    <div className="meter">
      <dt>{label}</dt>
      <dd>
        <span className="meter-bar" aria-hidden="true">
          <span style={{ width: `${Math.round(Math.min(1, part) * 100)}%` }} />
        </span>
        <span className="num">{words}</span>
      </dd>
    </div>
  );
}

function Runs({ detail: { runs } }: { detail: AgentDetail }) {
  return (
    <section>
      <h2>{a.runs}</h2>
      {runs.length === 0 ? <p className="dim">{a.noRuns}</p> : null}
      <ul className="queue-runs">
        {runs.map((run) => (
          <li key={run.id}>
            <StateBadge state={run.state} />
            <Link to="/runs/$runId" params={{ runId: run.id }} className="run-name cut">
              {run.name}
            </Link>
            <span className="dim">
              {run.author}, {run.queue}
            </span>
            <span className="dim num queue-gpus">
              {run.resources.gpus ? m.queue.gpus(run.resources.gpus) : ""}
            </span>
            <span className="dim">{run.claimed_at ? <Span from={run.claimed_at} to={null} /> : null}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Words({ detail: { words } }: { detail: AgentDetail }) {
  return (
    <section>
      <h2>{a.words}</h2>
      {words.length === 0 ? <p className="dim">{a.noWords}</p> : null}
      {words.length ? (
        <div className="scroll-x">
          <table className="table events" aria-label={a.words}>
            <thead>
              <tr>
                <th scope="col">{a.time}</th>
                <th scope="col">{a.run}</th>
                <th scope="col">{a.said}</th>
              </tr>
            </thead>
            <tbody>
              {words.map((word, i) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: two words of one moment have nothing else
                <tr key={`${word.at} ${i}`}>
                  <td className="dim">
                    <Ago at={word.at} />
                  </td>
                  <td>
                    <Link to="/runs/$runId" params={{ runId: word.run_id }} className="link">
                      {word.run_name}
                    </Link>
                  </td>
                  <td>
                    <What event={word} />
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
