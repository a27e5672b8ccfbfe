import { expect, it } from "vitest";
import { commandLine, literal, python } from "./typed";

const typed = (body: Parameters<typeof commandLine>[0]["body"], run: string | null = null) =>
  commandLine({ run, body }).text;

it("a launch becomes the command that makes it", () => {
  expect(typed({ queue: "local", command: ["sh", "-c", "echo $A"] })).toBe(
    "muster launch -q local -- sh -c 'echo $A'",
  );
  expect(
    typed({
      queue: "lab",
      project: "p",
      name: "n",
      image: "acme/train:main",
      values: { gpus: 2, data: "a b" },
      config: { lr: 0.1, optim: { name: "adam", tag: "3", betas: [0.9, 0.99] } },
      training: { nodes: 2, procs_per_node: "gpu" },
    }),
  ).toBe(
    [
      "muster launch",
      "-d acme/train:main",
      "-q lab",
      "-p p",
      "--name n",
      "--set gpus=2",
      "--set 'data=a b'",
      "--config lr=0.1",
      "--config optim.name=adam",
      "--config 'optim.tag=\"3\"'",
      "--config 'optim.betas=[0.9,0.99]'",
      "--nodes 2",
      "--procs-per-node gpu",
    ].join(" \\\n  "),
  );
});

it("no words behind -- take a job's arguments away; no -- leaves them", () => {
  expect(typed({ queue: "q", job: "j:v0", arguments: [] })).toBe("muster launch -j j:v0 -q q --");
  expect(typed({ queue: "q", job: "j:v0" })).toBe("muster launch -j j:v0 -q q");
  expect(typed({ queue: "q", job: "j:v0", entrypoint: ["python", "a b.py"] })).toBe(
    "muster launch -j j:v0 --entrypoint 'python '\\''a b.py'\\''' -q q",
  );
});

it("inputs whose names cannot be typed go in by a file", () => {
  expect(typed({ queue: "q", config: { "a.b": 1, "c=d": null }, command: ["true"] })).toBe(
    'muster launch -q q --config-file - -- true <<\'END\'\n{\n  "a.b": 1,\n  "c=d": null\n}\nEND',
  );
});

it("a rerun is typed as one, and what no option says is named", () => {
  expect(typed({ config: { lr: 1 }, overrides: { "a[name=b].c": 3 } }, "r1")).toBe(
    "muster run rerun r1 --override 'a[name=b].c=3' --config lr=1",
  );
  expect(commandLine({ run: "r1", body: { config: { "a.b": 1 }, volumes: [] } }).missing).toEqual([
    "config",
    "volumes",
  ]);
});

it("the same in Python", () => {
  expect(python({ run: null, body: { queue: "q", command: ["true"], env: { A: "1" } } })).toBe(
    'import muster\n\nrun = muster.launch(queue="q", command=["true"], env={"A": "1"})\nprint(run.id)\n',
  );
  expect(python({ run: null, body: { queue: "q", job: "j:v0", arguments: ["--x"] } })).toContain(
    'muster.launch(command=["--x"], queue="q", job="j:v0")',
  );
  expect(python({ run: null, body: { queue: "q", job: "j:v0", arguments: [] } })).toContain(
    'client.launch(LaunchRequest(queue="q", job="j:v0", arguments=[]))',
  );
  expect(python({ run: "r1", body: { config: { lr: 1 } } })).toContain(
    'client.rerun_run("r1", RerunRequest(config={"lr": 1}))',
  );
});

it("values are written as Python writes them", () => {
  expect(literal({ a: [true, null, 1.5, 'q"\n'], b: {} })).toBe(
    '{"a": [True, None, 1.5, "q\\"\\n"], "b": {}}',
  );
});
