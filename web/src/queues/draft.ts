/** A queue while it is being written: rows of variables, rules as they stand in fields. */
import type { Parsed, Queue } from "../api/client";
import { m } from "../messages";

export const TYPES = ["integer", "number", "string", "boolean", "quantity"] as const;
export type VariableType = (typeof TYPES)[number];

/** A variable as its fields say: all of it text. */
export interface Row {
  readonly name: string;
  readonly type: VariableType;
  readonly default: string;
  readonly minimum: string;
  readonly maximum: string;
  readonly choices: string;
  readonly description: string;
}

type Declaration = { readonly [key: string]: unknown };

export function rowOf(name: string, said: Declaration): Row {
  const word = (key: string) => (said[key] === undefined || said[key] === null ? "" : String(said[key]));
  const choices = said.choices;
  return {
    name,
    type: TYPES.find((type) => type === said.type) ?? "string",
    default: word("default"),
    minimum: word("minimum"),
    maximum: word("maximum"),
    choices: Array.isArray(choices) ? choices.map(String).join(", ") : "",
    description: word("description"),
  };
}

export const hasRange = (type: VariableType): boolean =>
  type === "integer" || type === "number" || type === "quantity";

/** What the fields say, as the server reads it. What is no number goes as it is: the server says what is wrong. */
export function declarationOf(row: Row): Record<string, unknown> {
  const said: Record<string, unknown> = { type: row.type };
  if (row.default.trim()) said.default = typed(row.type, row.default);
  if (hasRange(row.type)) {
    if (row.minimum.trim()) said.minimum = typed(row.type, row.minimum);
    if (row.maximum.trim()) said.maximum = typed(row.type, row.maximum);
  }
  const choices = row.choices
    .split(",")
    .map((choice) => choice.trim())
    .filter(Boolean);
  if (choices.length) said.choices = choices.map((choice) => typed(row.type, choice));
  if (row.description.trim()) said.description = row.description.trim();
  return said;
}

function typed(type: VariableType, written: string): unknown {
  const word = written.trim();
  if (type === "boolean" && (word === "true" || word === "false")) return word === "true";
  if ((type === "integer" || type === "number") && Number.isFinite(Number(word))) return Number(word);
  return type === "string" ? written : word;
}

export const declarations = (rows: readonly Row[]): Record<string, Record<string, unknown>> =>
  Object.fromEntries(rows.map((row) => [row.name, declarationOf(row)]));

/** A row for every variable that was found; what is there already stays as it was written. */
export function rowsOf(found: Parsed["variables"], before: readonly Row[]): Row[] {
  const known = new Map(before.map((row) => [row.name, row]));
  return found.map((one) => known.get(one.name) ?? rowOf(one.name, one.declared ?? one.suggested));
}

export const ALLOWED = ["image", "resources", "workdir", "volumes"] as const;
export type Allowed = (typeof ALLOWED)[number];

/** The rules of a queue as they stand in fields. */
export interface Rules {
  readonly order: "share" | "fifo";
  readonly priorities: boolean;
  readonly runs: string;
  readonly gpus: string;
  readonly userRuns: string;
  readonly userGpus: string;
  readonly security: "baseline" | "restricted";
  readonly image: string;
  readonly overridable: readonly string[] | null; //: null: what every queue opens, how many of each there are
  readonly allow: readonly Allowed[];
}

export const NO_RULES: Rules = {
  order: "share",
  priorities: true,
  runs: "",
  gpus: "",
  userRuns: "",
  userGpus: "",
  security: "baseline",
  image: "",
  overridable: null,
  allow: [],
};

type Limits = { runs?: number | null; gpus?: number | null; user?: Limits };
type Said = {
  order?: unknown;
  priorities?: unknown;
  limits?: unknown;
  security?: unknown;
  default_image?: unknown;
  overridable?: unknown;
  allow?: unknown;
};

/** Of a queue, or of what a file states. */
export function rulesOf(said: Said): Rules {
  const limits = (said.limits ?? {}) as Limits;
  const word = (n: number | null | undefined) => (n === null || n === undefined ? "" : String(n));
  return {
    order: said.order === "fifo" ? "fifo" : "share",
    priorities: said.priorities !== false,
    runs: word(limits.runs),
    gpus: word(limits.gpus),
    userRuns: word(limits.user?.runs),
    userGpus: word(limits.user?.gpus),
    security: said.security === "restricted" ? "restricted" : "baseline",
    image: typeof said.default_image === "string" ? said.default_image : "",
    overridable: Array.isArray(said.overridable) ? said.overridable.map(String) : null,
    allow: ALLOWED.filter((what) => Array.isArray(said.allow) && said.allow.includes(what)),
  };
}

/** As the server reads them: all of them, so that an edit can take a limit away. */
export function rulesBody(rules: Rules) {
  const amount = (written: string) => (written.trim() === "" ? null : Number(written));
  return {
    order: rules.order,
    priorities: rules.priorities,
    limits: {
      runs: amount(rules.runs),
      gpus: amount(rules.gpus),
      user: { runs: amount(rules.userRuns), gpus: amount(rules.userGpus) },
    },
    security: rules.security,
    default_image: rules.image.trim() || null,
  };
}

/** What a launch may change beside the variables. */
export function opensBody({ overridable, allow }: Rules) {
  return { ...(overridable ? { overridable: [...overridable] } : {}), allow: [...allow] };
}

/** Allowed values in words: `1 … 4`, `tiny, full`. */
export function allowedWords(said: Declaration, any: string): string {
  if (Array.isArray(said.choices) && said.choices.length) return said.choices.map(String).join(", ");
  const { minimum, maximum } = said;
  if (minimum !== undefined && minimum !== null && maximum !== undefined && maximum !== null)
    return `${minimum} … ${maximum}`;
  if (minimum !== undefined && minimum !== null) return `≥ ${minimum}`;
  if (maximum !== undefined && maximum !== null) return `≤ ${maximum}`;
  return any;
}

/** The limits of a queue in words; empty: there are none. */
export function limitWords(queue: Pick<Queue, "limits">): string {
  const of = (limit: Limits | undefined) => [
    ...(limit?.runs != null ? [m.queue.limitRuns(limit.runs)] : []),
    ...(limit?.gpus != null ? [m.queue.limitGpus(limit.gpus)] : []),
  ];
  return [...of(queue.limits), ...of(queue.limits?.user).map(m.queue.limitUser)].join(", ");
}

export const standingOf = (queue: Queue): "paused" | "draining" | "noAgent" | "open" =>
  queue.paused_at
    ? "paused"
    : queue.draining_at
      ? "draining"
      : queue.agents_online === 0
        ? "noAgent"
        : "open";
