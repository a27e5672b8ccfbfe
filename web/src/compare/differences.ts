/** Runs side by side: one row a property, and whether the runs differ in it. */
import type { Run } from "../api/client";

export interface Property {
  readonly name: string;
  readonly values: readonly unknown[]; //: one a run
  readonly differs: boolean;
}

export interface Section {
  readonly key: "outcome" | "config" | "values" | "launch";
  readonly properties: readonly Property[];
}

const seconds = (run: Run): number | null =>
  run.started_at && run.ended_at
    ? Math.round((Date.parse(run.ended_at) - Date.parse(run.started_at)) / 100) / 10
    : null;

const OUTCOME: Record<string, (run: Run) => unknown> = {
  state: (run) => run.state,
  failure: (run) => run.failure?.summary ?? null,
  seconds,
  attempts: (run) => run.attempt,
};
const LAUNCH: Record<string, (run: Run) => unknown> = {
  command: (run) => run.command.join(" "),
  queue: (run) => `${run.queue} v${run.queue_version}`,
  project: (run) => run.project,
  user: (run) => run.author,
  job: (run) => (run.job ? `${run.job.name}:v${run.job.version}` : null),
  image: (run) => run.image,
  code: (run) => run.git?.commit ?? run.snapshot?.slice(0, 12) ?? null,
  nodes: (run) => run.nodes,
  gpus: (run) => run.resources.gpus,
  priority: (run) => run.priority,
};

export function sections(runs: readonly Run[]): Section[] {
  const table = (key: Section["key"], read: Record<string, (run: Run) => unknown>): Section => ({
    key,
    properties: Object.entries(read).map(([name, of]) => property(name, runs.map(of))),
  });
  const trees = (key: Section["key"], of: (run: Run) => Record<string, unknown>): Section => {
    const flat = runs.map((run) => flattened(of(run)));
    const names = [...new Set(flat.flatMap((one) => [...one.keys()]))].sort();
    return {
      key,
      properties: names.map((name) =>
        property(
          name,
          flat.map((one) => one.get(name)),
        ),
      ),
    };
  };
  return [
    table("outcome", OUTCOME),
    trees("config", (run) => run.config),
    trees("values", (run) => run.values),
    table("launch", LAUNCH),
  ];
}

function property(name: string, values: readonly unknown[]): Property {
  const first = JSON.stringify(values[0]);
  return { name, values, differs: values.some((value) => JSON.stringify(value) !== first) };
}

/** `{a: {b: 1}}` → `a.b` = 1 */
function flattened(
  tree: Record<string, unknown>,
  prefix = "",
  into = new Map<string, unknown>(),
): Map<string, unknown> {
  for (const [key, value] of Object.entries(tree)) {
    const name = prefix ? `${prefix}.${key}` : key;
    if (typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length) {
      flattened(value as Record<string, unknown>, name, into);
    } else {
      into.set(name, value);
    }
  }
  return into;
}
