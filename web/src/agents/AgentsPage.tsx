import { Cpu } from "lucide-react";
import { m } from "../messages";
import { useAgents } from "../queues/queries";
import { Command } from "../ui/Copy";
import { Empty, ErrorNote, Skeleton } from "../ui/Notes";
import { AgentTable } from "./AgentTable";
import { together } from "./capacity";
import "../design/queues.css";

const a = m.agents;

export function AgentsPage() {
  const { data, error, refetch } = useAgents();
  const all = together(data?.items ?? []);
  return (
    <div className="page">
      <div className="page-head">
        <h1>{a.title}</h1>
        {data?.items.length ? (
          <ul className="totals dim num" aria-label={a.total}>
            <li>{a.totalOnline(all.online, data.items.length)}</li>
            <li>{a.totalRuns(all.runs)}</li>
            {all.gpus ? <li>{a.totalGpus(all.free, all.gpus)}</li> : null}
          </ul>
        ) : null}
      </div>
      {error ? <ErrorNote error={error} onRetry={() => void refetch()} /> : null}
      {!data && !error ? <Skeleton /> : null}
      {data?.items.length === 0 ? (
        <Empty icon={Cpu} title={a.emptyTitle}>
          <p>{a.empty}</p>
          <Command text={a.emptyCommand} />
        </Empty>
      ) : null}
      {data?.items.length ? <AgentTable agents={data.items} /> : null}
    </div>
  );
}
