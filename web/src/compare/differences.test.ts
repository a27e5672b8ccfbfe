import { expect, it } from "vitest";
import type { Run } from "../api/client";
import { sections } from "./differences";

const run = (config: Record<string, unknown>, state = "succeeded"): Run =>
  ({
    config,
    values: {},
    command: ["a"],
    resources: {},
    state,
    attempt: 1,
    queue: "q",
    queue_version: 1,
  }) as unknown as Run;

it("inputs are compared leaf by leaf, and one that a run lacks differs", () => {
  const found = sections([
    run({ opt: { lr: 0.1, name: "sgd" } }),
    run({ opt: { lr: 0.2, name: "sgd" }, seed: 1 }, "failed"),
  ]);
  const config = found.find((section) => section.key === "config");
  expect(config?.properties).toEqual([
    { name: "opt.lr", values: [0.1, 0.2], differs: true },
    { name: "opt.name", values: ["sgd", "sgd"], differs: false },
    { name: "seed", values: [undefined, 1], differs: true },
  ]);
  expect(found[0]?.properties[0]).toEqual({ name: "state", values: ["succeeded", "failed"], differs: true });
});
