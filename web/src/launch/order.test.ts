import { expect, it } from "vitest";
import type { JobVersion, Run } from "../api/client";
import {
  baseOfJob,
  baseOfRun,
  type Draft,
  EMPTY,
  lacking,
  NOTHING,
  newRow,
  withoutRecipe,
  withRecipe,
  withRun,
} from "./draft";
import { inputsOf } from "./inputs";
import { orderOf, type Surroundings } from "./order";
import { opensOf, type QueueRules, variablesOf } from "./queue";

const QUEUE: QueueRules = {
  resource: "process",
  config: {},
  variables: { gpus: { type: "integer", default: 0, maximum: 4 }, data: { type: "string" } },
  allow: [],
  overridable: null,
  priorities: true,
  default_image: null,
};
const PODS: QueueRules = {
  ...QUEUE,
  resource: "kubernetes",
  config: { template: {} },
  variables: {},
  allow: ["resources", "workdir", "volumes"],
};

function around(base = NOTHING, queue = QUEUE): Surroundings {
  return {
    base,
    inputs: inputsOf(base.inputs, base.config),
    variables: variablesOf(queue),
    opens: opensOf(queue),
    priorities: queue.priorities !== false,
    defaultEntity: "ann",
  };
}

const draft = (part: Partial<Draft>): Draft => ({ ...EMPTY, entity: "ann", queue: "local", ...part });

const VERSION = {
  job: "trainer",
  entity: "ann",
  project: "digits",
  version: 3,
  aliases: [],
  image: null,
  snapshot: "s",
  git: null,
  entrypoint: ["python", "train.py"],
  inputs: { schema: { properties: { lr: { type: "number", default: 0.1 } } } },
  training: { nodes: 2, procs_per_node: 1, launcher: "auto", max_restarts: 0, rdzv_timeout: 600, shm: null },
  arguments: ["--epochs", "3"],
  config: { lr: 0.5, tags: ["a"] },
  created_at: "",
  created_by: "ann",
} as unknown as JobVersion;

const RUN = {
  id: "r123456789",
  name: "first",
  entity: "ann",
  project: "digits",
  queue: "local",
  command: ["python", "train.py", "--epochs", "3", "--lr=0.5"],
  input_arguments: ["--lr=0.5"],
  config: { lr: 0.5 },
  values: { gpus: 2, data: "tiny" },
  env: { SEED: "7" },
  overrides: { "spec.parallelism": 2 },
  volumes: [],
  training: null,
  priority: "medium",
  workdir: null,
} as unknown as Run;

it("a command is sent with what was said and nothing else", () => {
  const asked = draft({
    command: "sh -c 'echo $A'",
    name: " hello ",
    values: { gpus: "2", data: "tiny", stale: "1" },
    extra: [newRow("optim.lr", "0.1"), newRow("", "")],
    env: [newRow("A", "1")],
    shape: { ...EMPTY.shape, nodes: "2", procs_per_node: "gpu" },
  });
  expect(orderOf(asked, around())).toEqual({
    faults: {},
    order: {
      run: null,
      body: {
        queue: "local",
        name: "hello",
        command: ["sh", "-c", "echo $A"],
        values: { gpus: 2, data: "tiny" },
        config: { optim: { lr: 0.1 } },
        env: { A: "1" },
        training: { nodes: 2, procs_per_node: "gpu" },
      },
    },
  });
});

it("of a job, only what is not as recorded is sent", () => {
  const base = baseOfJob(VERSION);
  const asked = withRecipe(
    draft({ source: "job", job: "digits/trainer", version: "v3", project: "digits" }),
    base,
  );
  expect(asked.inputs).toEqual({ lr: "0.5", tags: '["a"]' });
  expect(orderOf(asked, around(base)).order.body).toEqual({
    queue: "local",
    project: "digits",
    job: "trainer:v3",
  });
  const changed = {
    ...asked,
    command: "",
    entrypoint: "python other.py",
    inputs: { lr: "0.7", tags: "" },
    shape: { ...asked.shape, nodes: "4" },
    project: "other",
  };
  expect(orderOf(changed, around(base)).order.body).toEqual({
    queue: "local",
    project: "other",
    job: "digits/trainer:v3",
    entrypoint: ["python", "other.py"],
    arguments: [],
    config: { lr: 0.7 },
    training: { nodes: 4 },
  });
});

it("what was typed before the recipe came is kept", () => {
  const base = baseOfJob(VERSION);
  const [declared, other] = [newRow("lr", "0.9"), newRow("seed", "7")];
  const typing = draft({
    source: "job",
    job: "digits/trainer",
    command: "--epochs 9",
    extra: [declared, other],
    shape: { ...EMPTY.shape, nodes: "4" },
    typed: new Set(["command", "extra", "training", "training.nodes"]),
  });
  const filled = withRecipe(typing, base);
  expect(filled).toMatchObject({
    entrypoint: "python train.py",
    command: "--epochs 9",
    inputs: { lr: "0.9", tags: '["a"]' },
    extra: [other],
  });
  expect(filled.shape).toMatchObject({ nodes: "4", procs_per_node: "1" });
  const { order, faults } = orderOf(filled, around(base));
  expect(faults).toEqual({});
  expect(order.body).toMatchObject({
    arguments: ["--epochs", "9"],
    config: { lr: 0.9, seed: 7 },
    training: { nodes: 4 },
  });
});

it("another version keeps what was typed over the one before, another job does not", () => {
  const filled = withRecipe(draft({ source: "job", job: "digits/trainer" }), baseOfJob(VERSION));
  const typed = { ...filled, inputs: { ...filled.inputs, lr: "0.7" }, typed: new Set(["name", "inputs.lr"]) };
  const next = baseOfJob({ ...VERSION, config: { lr: 0.1, tags: ["b"] } });
  expect(withRecipe(typed, next).inputs).toEqual({ lr: "0.7", tags: '["b"]' });
  const emptied = withoutRecipe(typed);
  expect([...emptied.typed]).toEqual(["name"]);
  expect(withRecipe(emptied, next).inputs).toEqual({ lr: "0.1", tags: '["b"]' });
});

it("a run is launched again as it was, but for what is changed", () => {
  const base = baseOfRun(RUN, VERSION);
  expect(base.arguments).toEqual(["--epochs", "3"]);
  const asked = withRun(EMPTY, RUN, base);
  expect(orderOf(asked, around(base)).order).toEqual({ run: RUN.id, body: {} });
  const changed = {
    ...asked,
    values: { gpus: "", data: "full" },
    env: [...asked.env, newRow("B", "2")],
    overrides: asked.overrides.map((row) => ({ ...row, value: "3" })),
    priority: "high",
    queue: "lab",
  };
  expect(orderOf(changed, around(base)).order.body).toEqual({
    queue: "lab",
    priority: "high",
    values: { gpus: 0, data: "full" },
    env: { B: "2" },
    overrides: { "spec.parallelism": 3 },
  });
});

it("without a job, the arguments made of inputs are arguments like others", () => {
  expect(baseOfRun(RUN, null)).toMatchObject({
    entrypoint: ["python", "train.py"],
    arguments: ["--epochs", "3", "--lr=0.5"],
  });
});

it("what the queue does not open is not sent", () => {
  const asked = draft({
    command: "true",
    values: { cpus: "2", memory: "8Gi" },
    workdir: "/x",
    volumes: [newRow("data", "/data:ro")],
    shape: { ...EMPTY.shape, shm: "1Gi" },
  });
  expect(orderOf(asked, around()).order.body).toEqual({ queue: "local", command: ["true"] });
  expect(orderOf(asked, around(NOTHING, PODS)).order.body).toEqual({
    queue: "local",
    command: ["true"],
    values: { cpus: 2, memory: "8Gi" },
    workdir: "/x",
    volumes: ["data:/data:ro"],
    training: { shm: "1Gi" },
  });
});

it("an image is sent even where the queue runs none, so that the server can say so", () => {
  expect(orderOf(draft({ source: "image", image: "a/b:1" }), around()).order.body.image).toBe("a/b:1");
});

it("what this side can tell is wrong is told at its field", () => {
  const rows = [newRow("A", "1"), newRow("A", "2"), newRow("", "3")];
  const extra = [newRow("a", "1"), newRow("a.b", "2"), newRow("c", "[1")];
  const { faults } = orderOf(draft({ command: "echo 'x", env: rows, extra }), around());
  expect(Object.keys(faults).sort()).toEqual(
    [
      "command",
      `env.${rows[1]?.id}`,
      `env.${rows[2]?.id}`,
      `extra.${extra[1]?.id}`,
      `extra.${extra[2]?.id}`,
    ].sort(),
  );
});

it("what is lacking is known before the server is asked", () => {
  expect(Object.keys(lacking(draft({})))).toEqual(["command"]);
  expect(Object.keys(lacking(draft({ source: "git", queue: "" })))).toEqual(["git.url", "command", "queue"]);
  expect(lacking(draft({ source: "image", image: "a" }))).toEqual({});
});
