/** What an agent has, and what of it is free. */
import type { Agent, AgentRun } from "../api/client";
import { m } from "../messages";

export type Kind = "millicpus" | "memory" | "gpus";

/** A cluster places by itself: its agent takes all there are, and says so with a number past all machines. */
const PAST_ALL = 2 ** 29;
export const isUnbounded = (agent: Agent): boolean => (agent.total.gpus ?? 0) > PAST_ALL;

export function freeOf(agent: Agent, kind: Kind, show: (n: number) => string): string {
  if (isUnbounded(agent)) return m.agents.cluster;
  const total = show(agent.total[kind] ?? 0);
  return agent.free && agent.online ? m.agents.of(show(agent.free[kind] ?? 0), total) : total;
}

/** How much of it is in use, from 0 to 1. */
export function usedPart(agent: Agent, kind: Kind): number {
  const total = agent.total[kind] ?? 0;
  return total > 0 && agent.free ? Math.min(1, Math.max(0, 1 - (agent.free[kind] ?? 0) / total)) : 0;
}

export const standingOf = (agent: Agent): "online" | "paused" | "left" | "offline" =>
  agent.online ? (agent.paused_at ? "paused" : "online") : agent.left_at ? "left" : "offline";

/** All that are online together; agents of one machine share its GPUs. */
export function together(agents: readonly Agent[]) {
  const machines = new Map<string, { total: number; free: number }>();
  for (const agent of agents) {
    if (!agent.online || isUnbounded(agent)) continue;
    const seen = machines.get(agent.host);
    const total = agent.total.gpus ?? 0;
    const free = agent.free?.gpus ?? total;
    machines.set(agent.host, {
      total: Math.max(total, seen?.total ?? 0),
      free: Math.min(free, seen?.free ?? free),
    });
  }
  const sum = (of: "total" | "free") => [...machines.values()].reduce((all, one) => all + one[of], 0);
  return {
    online: agents.filter((agent) => agent.online).length,
    runs: agents.reduce((all, agent) => all + agent.running, 0),
    gpus: sum("total"),
    free: sum("free"),
  };
}

export interface DeviceUse {
  readonly index: number;
  readonly name: string;
  readonly run: AgentRun | null;
}

/** Each GPU of the machine, and the run that has it. */
export function devicesOf(agent: Agent, runs: readonly AgentRun[]): DeviceUse[] {
  const owners = new Map(runs.flatMap((run) => run.devices.map((device) => [device, run] as const)));
  return agent.devices.map((device, i) => {
    const index = typeof device.index === "number" ? device.index : i;
    const run = owners.get(String(device.uuid)) ?? owners.get(String(index)) ?? null;
    return { index, name: String(device.name ?? ""), run };
  });
}
