/** What stands in the form, and what it began from. */
import type { JobVersion, Run } from "../api/client";
import { m } from "../messages";
import { shellWords } from "../ui/format";
import { at, type InputField, inputsOf, type Tree, textOf } from "./inputs";
import { NotReadable, readScalar, scalarText } from "./scalar";
import { splitCommand } from "./words";

export const SOURCES = ["job", "image", "git", "command"] as const;
export type Source = (typeof SOURCES)[number] | "run";

/** Field → what is wrong with it. */
export type Faults = { readonly [field: string]: string };

export const SHAPE = ["nodes", "procs_per_node", "launcher", "max_restarts", "rdzv_timeout", "shm"] as const;
export type ShapeKey = (typeof SHAPE)[number];

export interface Row {
  readonly id: number;
  readonly name: string;
  readonly value: string;
  readonly kept: boolean; //: of the run that is launched again; it may be changed, not taken away
}

export interface Draft {
  readonly source: Source;
  readonly run: string; //: id, of a launch that begins from one
  readonly job: string; //: PROJECT/NAME
  readonly version: string;
  readonly image: string;
  readonly gitUrl: string;
  readonly gitRef: string;
  readonly gitFolder: string;
  readonly entrypoint: string; //: of a job or a run
  readonly command: string; //: the whole of it; of a job or a run, its arguments
  readonly entity: string;
  readonly queue: string;
  readonly project: string;
  readonly name: string;
  readonly priority: string;
  readonly values: { readonly [name: string]: string };
  readonly inputs: { readonly [name: string]: string };
  readonly extra: readonly Row[]; //: inputs nobody declared
  readonly env: readonly Row[];
  readonly overrides: readonly Row[];
  readonly volumes: readonly Row[]; //: claim → path, `:ro` behind it
  readonly shape: { readonly [key in ShapeKey]: string };
  readonly workdir: string;
  readonly unread: string; //: why the edited config is no overrides yet; empty: it is
  readonly typed: ReadonlySet<string>; //: fields somebody wrote in; what is loaded later leaves them alone
}

const NO_SHAPE: Draft["shape"] = {
  nodes: "",
  procs_per_node: "",
  launcher: "",
  max_restarts: "",
  rdzv_timeout: "",
  shm: "",
};

export const EMPTY: Draft = {
  source: "command",
  run: "",
  job: "",
  version: "latest",
  image: "",
  gitUrl: "",
  gitRef: "",
  gitFolder: "",
  entrypoint: "",
  command: "",
  entity: "",
  queue: "",
  project: "",
  name: "",
  priority: "",
  values: {},
  inputs: {},
  extra: [],
  env: [],
  overrides: [],
  volumes: [],
  shape: NO_SHAPE,
  workdir: "",
  unread: "",
  typed: new Set(),
};

/** What is recorded: of a job's version, or of a run. What is not changed in the form is not sent. */
export interface Base {
  readonly entrypoint: readonly string[];
  readonly arguments: readonly string[];
  readonly config: Tree;
  readonly inputs: unknown; //: the job's declaration
  readonly training: Tree;
  readonly queue: string;
  readonly project: string;
  readonly priority: string;
  readonly values: Tree;
  readonly env: { readonly [name: string]: string };
  readonly overrides: Tree;
  readonly volumes: readonly string[];
  readonly workdir: string;
}

export const NOTHING: Base = {
  entrypoint: [],
  arguments: [],
  config: {},
  inputs: null,
  training: {},
  queue: "",
  project: "",
  priority: "",
  values: {},
  env: {},
  overrides: {},
  volumes: [],
  workdir: "",
};

export function baseOfJob(version: JobVersion): Base {
  return {
    ...NOTHING,
    entrypoint: version.entrypoint,
    arguments: version.arguments,
    config: version.config,
    inputs: version.inputs,
    training: (version.training ?? {}) as Tree,
  };
}

/** As the server splits it: like its job's command, if it begins as that does. */
export function baseOfRun(run: Run, version: JobVersion | null): Base {
  const made = version ? (run.input_arguments ?? []).length : 0;
  const command = made ? run.command.slice(0, -made) : run.command;
  const own = version?.entrypoint ?? [];
  const begins = own.length > 0 && own.every((word, i) => command[i] === word);
  const [entrypoint, rest] = begins ? [own, command.slice(own.length)] : splitCommand(command);
  return {
    entrypoint,
    arguments: rest,
    config: run.config,
    inputs: version?.inputs ?? null,
    training: (run.training ?? {}) as Tree,
    queue: run.queue,
    project: run.project,
    priority: run.priority,
    values: run.values,
    env: run.env,
    overrides: run.overrides ?? {},
    volumes: run.volumes ?? [],
    workdir: run.workdir ?? "",
  };
}

let ids = 0;
export const newRow = (name = "", value = "", kept = false): Row => ({ id: ++ids, name, value, kept });

const texts = (tree: Tree) =>
  Object.fromEntries(Object.entries(tree).map(([name, value]) => [name, String(value ?? "")]));

/** The form with the recipe filled in: what runs, and with which inputs. What was typed stays. */
export function withRecipe(draft: Draft, base: Base): Draft {
  const { fields } = inputsOf(base.inputs, base.config);
  const training = texts(base.training);
  const keep = (field: string, own: string, recorded: string) => (draft.typed.has(field) ? own : recorded);
  const taken = new Set<Row>();
  const inputs = fields.map((field) => {
    const row = draft.extra.find(({ name, kept }) => !kept && name.trim() === field.name);
    const typed = row && textOfRow(field, row);
    if (row && typed !== undefined) taken.add(row);
    const own = typed ?? draft.inputs[field.name] ?? "";
    const recorded = typed ?? textOf(field, at(base.config, field.path));
    return [field.name, keep(`inputs.${field.name}`, own, recorded)] as const;
  });
  return {
    ...draft,
    entrypoint: keep("entrypoint", draft.entrypoint, shellWords(base.entrypoint)),
    command: keep("command", draft.command, shellWords(base.arguments)),
    inputs: Object.fromEntries(inputs),
    extra: draft.extra.filter((row) => !taken.has(row)),
    shape: Object.fromEntries(
      SHAPE.map((key) => [key, keep(`training.${key}`, draft.shape[key], training[key] ?? "")]),
    ) as Draft["shape"],
  };
}

/** What an added row says of an input that turned out to be declared; undefined: nothing this field can show. */
function textOfRow(field: InputField, row: Row): string | undefined {
  try {
    return textOf(field, readScalar(row.value));
  } catch (error) {
    if (!(error instanceof NotReadable)) throw error;
    return undefined;
  }
}

const OF_RECIPE = /^(?:entrypoint|command|inputs|extra|training)(?:\.|$)/;

/** Nothing of a job that was chosen before. */
export function withoutRecipe(draft: Draft): Draft {
  const typed = new Set([...draft.typed].filter((field) => !OF_RECIPE.test(field)));
  return withRecipe({ ...draft, extra: [], typed }, NOTHING);
}

/** And with where and how the run was launched. */
export function withRun(draft: Draft, run: Run, base: Base): Draft {
  return {
    ...withRecipe(draft, base),
    source: "run",
    run: run.id,
    entity: run.entity,
    queue: base.queue,
    project: base.project,
    priority: base.priority,
    values: texts(base.values),
    env: Object.entries(base.env).map(([name, value]) => newRow(name, value, true)),
    overrides: Object.entries(base.overrides).map(([name, value]) => newRow(name, scalarText(value), true)),
    volumes: base.volumes.map(volumeRow),
    workdir: base.workdir,
  };
}

/** Another source: a command stays, what a job said does not. */
export function withSource(draft: Draft, source: Source): Draft {
  const ofJob = draft.source === "job" || source === "job";
  return ofJob ? { ...withoutRecipe(draft), source } : { ...draft, source };
}

function volumeRow(text: string): Row {
  const colon = text.indexOf(":");
  return newRow(text.slice(0, colon), text.slice(colon + 1));
}

/** What is not there yet, without which the server need not be asked. */
export function lacking(draft: Draft): Faults {
  const { source } = draft;
  const needed: [field: string, text: string, sentence: string, when: boolean][] = [
    ["job", draft.job, m.launch.jobMissing, source === "job"],
    ["image", draft.image, m.launch.imageMissing, source === "image"],
    ["git.url", draft.gitUrl, m.launch.gitMissing, source === "git"],
    ["command", draft.command, m.launch.commandMissing, source === "git" || source === "command"],
    ["queue", draft.queue, m.launch.queueMissing, true],
  ];
  const missing = needed.filter(([, text, , when]) => when && !text.trim());
  return {
    ...Object.fromEntries(missing.map(([field, , sentence]) => [field, sentence])),
    ...(draft.unread ? { unread: draft.unread } : {}),
  };
}
