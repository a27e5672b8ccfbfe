/** All replicas at a glance: a box a node, in it a cell a rank. Each leads to its log. */
import { Link } from "@tanstack/react-router";
import type { Replica, Run } from "../api/client";
import { m } from "../messages";
import { StateIcon, toneOf } from "../ui/StateBadge";

const r = m.replicas;

/** Node → its replicas, by rank; nodes in the order of their first rank. */
export function byNode(replicas: readonly Replica[]): [node: string, replicas: Replica[]][] {
  const nodes = new Map<string, Replica[]>();
  for (const replica of [...replicas].sort((a, b) => a.rank - b.rank)) {
    nodes.set(replica.node, [...(nodes.get(replica.node) ?? []), replica]);
  }
  return [...nodes];
}

export function ReplicaMap({ run, replicas }: { run: Run; replicas: readonly Replica[] }) {
  return (
    <ul className="replica-map" aria-label={r.map}>
      {byNode(replicas).map(([node, its]) => (
        <li key={node}>
          <span className="dim cut">{node || r.nowhere}</span>
          <ul>
            {its.map((replica) => {
              const state = m.states[replica.state] ?? replica.state;
              return (
                <li key={replica.rank}>
                  <Link
                    to="/runs/$runId"
                    params={{ runId: run.id }}
                    search={{ tab: "logs", rank: String(replica.rank) }}
                    className={`replica-cell ${toneOf(replica.state)}`}
                    aria-label={r.cell(replica.rank, state)}
                    title={r.cell(replica.rank, state)}
                  >
                    <StateIcon state={replica.state} />
                    <span className="num">{replica.rank}</span>
                  </Link>
                </li>
              );
            })}
          </ul>
        </li>
      ))}
    </ul>
  );
}
