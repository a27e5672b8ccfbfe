import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Cpu } from "lucide-react";
import { type Agent, api, ask } from "../api/client";
import { m } from "../messages";
import { bytes, cores } from "../ui/format";
import { Empty, ErrorNote, Skeleton } from "../ui/Notes";
import { Ago } from "../ui/Time";

const a = m.agents;
const LOOK_EVERY = 10_000; // ms: an agent that falls silent makes no event

export function AgentsPage() {
  const { data, error, refetch } = useQuery({
    queryKey: ["agents"],
    queryFn: () => ask(api.GET("/api/v1/agents")),
    refetchInterval: LOOK_EVERY,
  });
  return (
    <div className="page">
      <div className="page-head">
        <h1>{a.title}</h1>
      </div>
      {error ? <ErrorNote error={error} onRetry={() => void refetch()} /> : null}
      {!data && !error ? <Skeleton /> : null}
      {data?.items.length === 0 ? (
        <Empty icon={Cpu} title={a.emptyTitle}>
          {a.empty}
        </Empty>
      ) : null}
      {data?.items.length ? (
        <div className="scroll-x">
          <table className="table" aria-label={a.label}>
            <thead>
              <tr>
                <th scope="col">{a.name}</th>
                <th scope="col">{m.queues.status}</th>
                <th scope="col">{a.engine}</th>
                <th scope="col">{a.serves}</th>
                <th scope="col" className="right">
                  {a.runs}
                </th>
                <th scope="col" className="right">
                  {a.cpu}
                </th>
                <th scope="col" className="right">
                  {a.memory}
                </th>
                <th scope="col" className="right">
                  {a.gpus}
                </th>
                <th scope="col" className="right">
                  {a.seen}
                </th>
              </tr>
            </thead>
            <tbody>
              {data.items.map((agent) => (
                <Line key={agent.id} agent={agent} />
              ))}
            </tbody>
          </table>
        </div>
      ) : null}
    </div>
  );
}

function Line({ agent }: { agent: Agent }) {
  const { total, free } = agent;
  const part = (show: (n: number) => string, key: "millicpus" | "memory" | "gpus") =>
    free && agent.online ? a.of(show(free[key] ?? 0), show(total[key] ?? 0)) : show(total[key] ?? 0);
  return (
    <tr>
      <td>
        <strong className="run-name">{agent.name}</strong> <span className="faint">{agent.host}</span>
      </td>
      <td>
        <span className={`link-state ${agent.online ? "live" : ""}`}>
          <span className="dot" aria-hidden="true" />
          {agent.online ? a.online : a.offline}
        </span>
      </td>
      <td className="dim">{agent.engine}</td>
      <td className="dim">
        {agent.queues.map((queue) => (
          <Link key={queue} to="/runs" search={{ queue }} className="link">
            {queue}
          </Link>
        ))}
      </td>
      <td className="right num">{agent.running}</td>
      <td className="right num dim">{part(cores, "millicpus")}</td>
      <td className="right num dim">{part(bytes, "memory")}</td>
      <td className="right num dim">{part(String, "gpus")}</td>
      <td className="right dim">
        <Ago at={agent.seen_at} />
      </td>
    </tr>
  );
}
