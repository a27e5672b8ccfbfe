import { Cpu } from "lucide-react";
import { AgentTable } from "../agents/AgentTable";
import type { Queue } from "../api/client";
import { m } from "../messages";
import { Command } from "../ui/Copy";
import { Empty, ErrorNote, Skeleton } from "../ui/Notes";
import { useAgents } from "./queries";

/** The agents that serve a queue. */
export function QueueAgentsTab({ queue }: { queue: Queue }) {
  const { data, error, refetch } = useAgents();
  if (error) return <ErrorNote error={error} onRetry={() => void refetch()} />;
  if (!data) return <Skeleton rows={3} />;
  const serving = data.items.filter(
    (agent) => agent.entity === queue.entity && agent.queues.includes(queue.name),
  );
  if (serving.length === 0) {
    return (
      <Empty icon={Cpu} title={m.queue.agentsEmptyTitle}>
        <p>{m.queue.noAgent}</p>
        <Command text={m.queue.noAgentCommand(queue.name)} />
      </Empty>
    );
  }
  return <AgentTable agents={serving} />;
}
