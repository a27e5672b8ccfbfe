import { expect, it } from "vitest";
import { opensOf, type QueueRules, typed, variablesOf } from "./queue";

const queue = (rules: Partial<QueueRules>): QueueRules => ({
  resource: "process",
  config: {},
  variables: {},
  allow: [],
  overridable: null,
  priorities: true,
  default_image: null,
  ...rules,
});
const POD = { kind: "Job", template: { spec: { containers: [{}] } } };

it("variables are told with their rules, whichever words they were declared with", () => {
  const variables = {
    gpus: { type: "integer", default: 1, minimum: 1, maximum: 4, description: "of each node" },
    room: { type: "quantity", min: "1Gi" },
    data: { type: "string", enum: ["tiny", "full"] },
    fast: { type: "boolean", default: false },
  };
  const [gpus, room, data, fast] = variablesOf(queue({ variables }));
  expect(gpus).toMatchObject({ rule: "1 … 4", fallback: "1", description: "of each node" });
  expect(room).toMatchObject({ rule: "≥ 1Gi", fallback: null });
  expect(data).toMatchObject({ choices: ["tiny", "full"], fallback: null });
  expect(fast).toMatchObject({ choices: ["true", "false"], fallback: "false" });
});

it("values get their type where it is certain", () => {
  expect(typed("integer", "2")).toBe(2);
  expect(typed("integer", "two")).toBe("two");
  expect(typed("number", "0.5")).toBe(0.5);
  expect(typed("quantity", "8")).toBe("8");
  expect(typed("string", "8")).toBe("8");
  expect(typed("boolean", "true")).toBe(true);
});

it("processes have a shape and no pods", () => {
  expect(opensOf(queue({ allow: ["resources"] }))).toEqual({
    resources: [],
    workdir: false,
    volumes: false,
    image: false,
    git: true,
    shape: true,
    shm: false,
    overrides: [],
  });
});

it("of a pod template, a launch may set what its owner allows, beside the variables", () => {
  const open = queue({
    resource: "kubernetes",
    config: POD,
    allow: ["resources", "volumes"],
    variables: { gpus: { type: "integer", default: 0 } },
  });
  expect(opensOf(open)).toMatchObject({
    resources: ["cpus", "cpus_request", "memory", "memory_request"],
    workdir: false,
    volumes: true,
    shape: true,
    shm: true,
    overrides: [],
  });
  expect(
    opensOf({ ...open, config: { kind: "List", items: [{ kind: "Service", spec: {} }, POD] } }).volumes,
  ).toBe(true);
});

it("of a whole object, the counts it has are open, by name", () => {
  const tasks = [
    { name: "master", replicas: 1 },
    { name: "worker", replicas: 2 },
  ];
  const volcano = queue({
    resource: "kubernetes",
    config: { kubernetes: { kind: "VolcanoJob", spec: { tasks } } },
  });
  expect(opensOf(volcano).overrides).toEqual([
    "spec.tasks[name=master].replicas",
    "spec.tasks[name=worker].replicas",
  ]);
  expect(opensOf(volcano)).toMatchObject({ shape: false, git: false, image: true });
  const job = queue({ resource: "kubernetes", config: { spec: { template: {} } } });
  expect(opensOf(job).overrides).toEqual(["spec.parallelism"]);
});

it("what an owner opened is offered as it is written, or as it is there", () => {
  const owner = queue({
    config: { env: { A: 1 }, list: [{ x: 1 }, { x: 2 }] },
    overridable: ["env.*", "list[*].x", "stop_grace"],
  });
  expect(opensOf(owner).overrides).toEqual(["env.A", "list[0].x", "list[1].x", "stop_grace"]);
});
