/** From the form to the request: only what is not as recorded is said. */
import { m } from "../messages";
import { type Base, type Draft, type Faults, type Row, SHAPE } from "./draft";
import { at, type InputField, type Inputs, same, type Tree, valueIn, withValue } from "./inputs";
import { type Opens, RESOURCES, typed, type Variable } from "./queue";
import { NotReadable, readScalar } from "./scalar";
import { splitWords } from "./words";

/** The body of a launch, or of a rerun: only what is said. */
export interface Asked {
  queue?: string;
  entity?: string;
  project?: string;
  name?: string;
  priority?: string;
  job?: string;
  image?: string;
  git?: { url: string; ref?: string; folder?: string };
  command?: string[];
  entrypoint?: string[];
  arguments?: string[];
  values?: Tree;
  config?: Tree;
  training?: Tree;
  env?: { [name: string]: string };
  overrides?: Tree;
  workdir?: string;
  volumes?: string[];
}

export interface Order {
  readonly run: string | null; //: the run it is a rerun of
  readonly body: Asked;
}

export interface Surroundings {
  readonly base: Base;
  readonly inputs: Inputs;
  readonly variables: readonly Variable[];
  readonly opens: Opens;
  readonly priorities: boolean;
  readonly defaultEntity: string;
}

/** What the form asks for, and what is wrong with it as far as this side can tell. */
export function orderOf(draft: Draft, around: Surroundings): { order: Order; faults: Faults } {
  const { base, opens } = around;
  const faults: Record<string, string> = {};
  const body: Asked = {};
  const again = draft.source === "run";
  if (draft.queue && !(again && draft.queue === base.queue)) body.queue = draft.queue;
  if (!again && draft.entity && draft.entity !== around.defaultEntity) body.entity = draft.entity;
  const project = draft.project.trim();
  if (project && !(again && project === base.project)) body.project = project;
  if (draft.name.trim()) body.name = draft.name.trim();
  if (around.priorities && draft.priority && draft.priority !== base.priority) body.priority = draft.priority;
  say(body, "", sourceOf(draft, base, faults));
  say(body, "values", valuesOf(draft, around));
  say(body, "config", configOf(draft, around, faults));
  say(body, "training", shapeOf(draft, base, opens));
  say(body, "env", envOf(draft, base, faults));
  say(body, "overrides", overridesOf(draft, base, faults));
  if (opens.workdir && draft.workdir && draft.workdir !== base.workdir) body.workdir = draft.workdir;
  if (opens.volumes) {
    const volumes = draft.volumes.filter(named).map(({ name, value }) => `${name.trim()}:${value.trim()}`);
    if (!same(volumes, base.volumes)) body.volumes = volumes;
  }
  return { order: { run: again ? draft.run : null, body }, faults };
}

/** Puts a part into the body if there is something in it; without a key, each of its own. */
function say(
  body: Asked,
  key: "" | "values" | "config" | "training" | "env" | "overrides",
  part: Tree,
): void {
  if (!Object.keys(part).length) return;
  Object.assign(body, key ? { [key]: part } : part);
}

const named = (row: Row): boolean => row.name.trim() !== "" || row.value.trim() !== "";

function sourceOf(draft: Draft, base: Base, faults: Record<string, string>): Tree {
  const words = (text: string, field: string): string[] => {
    try {
      return splitWords(text);
    } catch {
      faults[field] = m.launch.openQuote;
      return [];
    }
  };
  const command = words(draft.command, "command");
  if (draft.source === "job" || draft.source === "run") {
    const entrypoint = words(draft.entrypoint, "entrypoint");
    const part: Asked = {};
    if (draft.source === "job") part.job = jobName(draft);
    if (!same(entrypoint, base.entrypoint)) part.entrypoint = entrypoint;
    if (!same(command, base.arguments)) part.arguments = command;
    return part as Tree;
  }
  const part: Asked = command.length ? { command } : {};
  if (draft.source === "image") part.image = draft.image.trim();
  if (draft.source === "git") {
    part.git = {
      url: draft.gitUrl.trim(),
      ...(draft.gitRef.trim() ? { ref: draft.gitRef.trim() } : {}),
      ...(draft.gitFolder.trim() ? { folder: draft.gitFolder.trim() } : {}),
    };
  }
  return part as Tree;
}

/** With its project only where the run is filed in another. */
function jobName(draft: Draft): string {
  const slash = draft.job.indexOf("/");
  const [project, name] = [draft.job.slice(0, Math.max(slash, 0)), draft.job.slice(slash + 1)];
  const whole = project && project !== draft.project.trim() ? `${project}/${name}` : name;
  return `${whole}:${draft.version || "latest"}`;
}

function valuesOf(draft: Draft, { base, variables, opens }: Surroundings): Tree {
  const values: { [name: string]: unknown } = {};
  const take = (name: string, text: string, type: Variable["type"]) => {
    if (text && text !== String(base.values[name] ?? "")) values[name] = typed(type, text);
  };
  for (const { name, type, fallback } of variables) {
    // What a run had cannot be taken away from it; the queue's default goes in its place.
    const cleared = name in base.values ? (fallback ?? "") : "";
    take(name, (draft.values[name] ?? "").trim() || cleared, type);
  }
  for (const name of RESOURCES) {
    if (opens.resources.includes(name))
      take(name, (draft.values[name] ?? "").trim(), name.startsWith("memory") ? "quantity" : "number");
  }
  return values;
}

function configOf(draft: Draft, { base, inputs }: Surroundings, faults: Record<string, string>): Tree {
  let config: Tree = {};
  const put = (path: readonly string[], value: unknown, field: string) => {
    const changed = at(config, path) === undefined ? withValue(config, path, value) : undefined;
    if (changed) config = changed;
    else faults[field] = m.launch.notAName;
  };
  for (const field of inputs.fields) {
    const value = inputValue(field, draft.inputs[field.name] ?? "", faults);
    if (value !== undefined && !same(value, at(base.config, field.path)))
      put(field.path, value, `inputs.${field.name}`);
  }
  for (const row of draft.extra.filter(named)) {
    put(row.name.trim().split("."), scalarOf(row.value, `extra.${row.id}`, faults), `extra.${row.id}`);
  }
  return config;
}

function inputValue(field: InputField, text: string, faults: Record<string, string>): unknown {
  if (text === "") return undefined;
  try {
    return valueIn(field, text);
  } catch (error) {
    if (!(error instanceof NotReadable)) throw error;
    faults[`inputs.${field.name}`] = m.launch.notJson;
    return undefined;
  }
}

function scalarOf(text: string, field: string, faults: Record<string, string>): unknown {
  try {
    return readScalar(text);
  } catch (error) {
    if (!(error instanceof NotReadable)) throw error;
    faults[field] = m.launch.notJson;
    return null;
  }
}

function shapeOf(draft: Draft, base: Base, opens: Opens): Tree {
  const offered = SHAPE.filter((key) => (key === "shm" ? opens.shm : opens.shape));
  const given = offered.flatMap((key) => {
    const text = draft.shape[key].trim();
    const before = base.training[key];
    if (!text || text === String(before ?? "")) return [];
    const isCount = key !== "launcher" && key !== "shm" && /^-?\d{1,9}$/.test(text);
    return [[key, isCount ? Number(text) : text] as const];
  });
  return Object.fromEntries(given);
}

function envOf(draft: Draft, base: Base, faults: Record<string, string>): Tree {
  const env: { [name: string]: string } = {};
  for (const row of draft.env.filter(named)) {
    const name = row.name.trim();
    if (!name || name in env) faults[`env.${row.id}`] = name ? m.launch.twice(name) : m.launch.nameMissing;
    else if (base.env[name] !== row.value) env[name] = row.value;
  }
  return env;
}

function overridesOf(draft: Draft, base: Base, faults: Record<string, string>): Tree {
  const overrides: { [path: string]: unknown } = {};
  for (const row of draft.overrides.filter(named)) {
    const [path, field] = [row.name.trim(), `overrides.${row.id}`];
    if (!path || path in overrides) faults[field] = path ? m.launch.twice(path) : m.launch.nameMissing;
    else {
      const value = scalarOf(row.value, field, faults);
      if (!same(value, base.overrides[path]) || !(path in base.overrides)) overrides[path] = value;
    }
  }
  return overrides;
}
