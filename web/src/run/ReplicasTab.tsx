import { Link } from "@tanstack/react-router";
import { Boxes } from "lucide-react";
import type { Replica, Run } from "../api/client";
import { m } from "../messages";
import { ENDED } from "../runs/filter";
import { bytes } from "../ui/format";
import { Empty, ErrorNote, Skeleton } from "../ui/Notes";
import { StateBadge } from "../ui/StateBadge";
import { Span } from "../ui/Time";
import { useReplicas, useUsage } from "./queries";
import { ReplicaMap } from "./ReplicaMap";

const r = m.replicas;

export function ReplicasTab({ run }: { run: Run }) {
  const { data, error, refetch } = useReplicas(run.id, run.attempt);
  const usage = useUsage(run.id, run.attempt, !ENDED.has(run.state));
  if (error) return <ErrorNote error={error} onRetry={() => void refetch()} />;
  if (!data) return <Skeleton />;
  if (!data.items.length) {
    return (
      <Empty icon={Boxes} title={r.emptyTitle}>
        {r.empty}
      </Empty>
    );
  }
  const newest = (rank: number, name: string): number | null =>
    usage.data?.items
      .find((series) => series.rank === rank)
      ?.values[name]?.findLast((value) => value !== null) ?? null;
  const hasGpus = data.items.some((replica) => newest(replica.rank, "gpu") !== null);
  return (
    <div className="scroll-x">
      {data.items.length > 1 ? <ReplicaMap run={run} replicas={data.items} /> : null}
      <table className="table" aria-label={r.label}>
        <thead>
          <tr>
            <th scope="col">{r.rank}</th>
            <th scope="col">{r.state}</th>
            <th scope="col">{r.node}</th>
            <th scope="col">{r.devices}</th>
            <th scope="col" className="right">
              {r.cpu}
            </th>
            <th scope="col" className="right">
              {r.memory}
            </th>
            {hasGpus ? (
              <th scope="col" className="right">
                {r.gpu}
              </th>
            ) : null}
            <th scope="col" className="right">
              {r.restarts}
            </th>
            <th scope="col" className="right">
              {r.exit}
            </th>
            <th scope="col" className="right">
              {r.duration}
            </th>
            <th scope="col">{r.log}</th>
          </tr>
        </thead>
        <tbody>
          {data.items.map((replica) => {
            const cpu = newest(replica.rank, "cpu");
            const memory = newest(replica.rank, "memory");
            const gpu = newest(replica.rank, "gpu");
            return (
              <tr key={replica.rank}>
                <td className="num">{replica.rank}</td>
                <td>
                  <StateBadge state={replica.state} />
                  {replica.reason ? <div className="faint">{replica.reason}</div> : null}
                </td>
                <td className="dim">{replica.node}</td>
                <td className="dim mono">{replica.devices.join(", ")}</td>
                <td className="right num dim">{cpu === null ? "" : cpu.toFixed(2)}</td>
                <td className="right num dim">{memory === null ? "" : bytes(memory)}</td>
                {hasGpus ? (
                  <td className="right num dim">{gpu === null ? "" : `${Math.round(gpu * 100)} %`}</td>
                ) : null}
                <td className="right num dim">{replica.restarts}</td>
                <td className="right num">
                  <Exit replica={replica} />
                </td>
                <td className="right">
                  {replica.started_at ? <Span from={replica.started_at} to={replica.ended_at} /> : null}
                </td>
                <td>
                  <Link
                    to="/runs/$runId"
                    params={{ runId: run.id }}
                    search={{ tab: "logs", rank: String(replica.rank) }}
                    className="link"
                  >
                    {r.log}
                  </Link>
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function Exit({ replica }: { replica: Replica }) {
  if (replica.signal !== null) return <span className="bad">{m.replicas.signal(replica.signal)}</span>;
  if (replica.exit_code === null) return null;
  return <span className={replica.exit_code ? "bad" : "dim"}>{replica.exit_code}</span>;
}
