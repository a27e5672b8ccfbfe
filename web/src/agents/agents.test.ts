import { expect, test } from "vitest";
import type { Agent, AgentRun } from "../api/client";
import { devicesOf, freeOf, standingOf, together, usedPart } from "./capacity";

const size = (gpus: number) => ({ millicpus: 8000, memory: 2 ** 34, gpus });
const agent = (part: Partial<Agent> = {}): Agent => ({
  id: "a",
  name: "a1",
  entity: "ann",
  engine: "process",
  host: "h1",
  version: "1",
  max_jobs: 4,
  queues: ["local"],
  total: size(4),
  free: size(1),
  devices: [],
  online: true,
  running: 2,
  registered_at: "2026-01-01T00:00:00Z",
  seen_at: "2026-01-01T00:00:00Z",
  left_at: null,
  paused_at: null,
  ...part,
});

test("what is free is told of those that are online", () => {
  expect(freeOf(agent(), "gpus", String)).toBe("1 of 4");
  expect(freeOf(agent({ online: false }), "gpus", String)).toBe("4");
  expect(freeOf(agent({ total: size(2 ** 30) }), "gpus", String)).toBe("as the cluster has");
  expect(usedPart(agent(), "gpus")).toBe(0.75);
  expect(usedPart(agent({ total: size(0) }), "gpus")).toBe(0);
});

test("how an agent stands", () => {
  expect(standingOf(agent())).toBe("online");
  expect(standingOf(agent({ paused_at: "x" }))).toBe("paused");
  expect(standingOf(agent({ online: false, left_at: "x", paused_at: "x" }))).toBe("left");
  expect(standingOf(agent({ online: false }))).toBe("offline");
});

test("two agents of one machine share its GPUs, and a cluster has nobody's", () => {
  const all = [
    agent(),
    agent({ free: size(0) }),
    agent({ host: "h2" }),
    agent({ host: "h3", online: false }),
    agent({ host: "c", total: size(2 ** 30) }),
  ];
  expect(together(all)).toEqual({ online: 4, runs: 10, gpus: 8, free: 1 });
});

test("a GPU shows the run that has it", () => {
  const devices = [
    { uuid: "GPU-a", index: 0, name: "A100" },
    { uuid: "GPU-b", index: 1, name: "A100" },
  ];
  const run = { id: "r", name: "mine", devices: ["GPU-b"] } as unknown as AgentRun;
  expect(devicesOf(agent({ devices }), [run]).map((device) => device.run?.name ?? null)).toEqual([
    null,
    "mine",
  ]);
});
