/** What a queue lets a launch choose: its variables, and what its owner opened beside them. */
import type { Queue } from "../api/client";
import { m } from "../messages";
import { isTree, type Tree } from "./inputs";

export type VariableType = "integer" | "number" | "string" | "boolean" | "quantity";

export interface Variable {
  readonly name: string;
  readonly type: VariableType;
  readonly fallback: string | null; //: null: a launch must give it
  readonly choices: readonly string[];
  readonly rule: string;
  readonly description: string;
}

/** What the form needs of a queue; the rest of it may be anything. */
export type QueueRules = Pick<
  Queue,
  "resource" | "config" | "variables" | "allow" | "overridable" | "priorities" | "default_image"
>;

export function variablesOf(queue: QueueRules): Variable[] {
  return Object.entries(queue.variables).map(([name, given]) => {
    const said = isTree(given) ? given : {};
    const type = (said.type ?? "string") as VariableType;
    const choices = (said.choices ?? said.enum ?? []) as unknown[];
    const low = said.minimum ?? said.min;
    const high = said.maximum ?? said.max;
    return {
      name,
      type,
      fallback: said.default === undefined ? null : String(said.default),
      choices: type === "boolean" ? ["true", "false"] : choices.map(String),
      rule: m.launch.range(low === undefined ? "" : String(low), high === undefined ? "" : String(high)),
      description: String(said.description ?? ""),
    };
  });
}

/** The value of a launch, with the type it has where it is certain. */
export function typed(type: VariableType, text: string): string | number | boolean {
  if (type === "boolean" && (text === "true" || text === "false")) return text === "true";
  const isNumber = type === "integer" ? /^-?\d{1,15}$/.test(text) : /^-?\d{1,15}(?:\.\d+)?$/.test(text);
  return (type === "integer" || type === "number") && isNumber ? Number(text) : text;
}

export const RESOURCES = ["cpus", "cpus_request", "memory", "memory_request", "gpus"] as const;
export type ResourceName = (typeof RESOURCES)[number];

export interface Opens {
  readonly resources: readonly ResourceName[]; //: of each node, beside the variables
  readonly workdir: boolean;
  readonly volumes: boolean;
  readonly image: boolean; //: does it run images?
  readonly git: boolean; //: does it fetch repositories?
  readonly shape: boolean; //: nodes, processes, launcher
  readonly shm: boolean;
  readonly overrides: readonly string[]; //: paths a launch may change, as far as they can be told
}

export function opensOf(queue: QueueRules): Opens {
  const cluster = queue.resource === "kubernetes";
  const pods = cluster && isTemplate(queue.config);
  const may = (what: string) => pods && (queue.allow ?? []).some((allowed) => allowed === what);
  const patterns = queue.overridable ?? (cluster && !pods ? COUNTS : []);
  return {
    // What the queue has a variable for, it sets where it wants: its request and its limit.
    resources: may("resources")
      ? RESOURCES.filter(
          (name) => !(name in queue.variables || name.replace("_request", "") in queue.variables),
        )
      : [],
    workdir: may("workdir"),
    volumes: may("volumes"),
    image: queue.resource !== "process",
    git: !cluster,
    shape: !cluster || pods,
    shm: cluster,
    overrides: expanded(patterns, queue),
  };
}

/** Does Muster write the object, from a pod template? */
function isTemplate(config: unknown): boolean {
  const top = unwrapped(config);
  const items = isTree(top) && top.kind === "List" ? top.items : [top];
  return (
    Array.isArray(items) && items.some((item) => isTree(item) && "template" in item && !("spec" in item))
  );
}

export function unwrapped(config: unknown): unknown {
  return isTree(config) && Object.keys(config).join() === "kubernetes" ? config.kubernetes : config;
}

/** The namespace that a config names; empty where it leaves that to the agent. */
export function namespaceOf(config: unknown): string {
  const top = unwrapped(config);
  const metadata = isTree(top) ? top.metadata : undefined;
  return isTree(metadata) && typeof metadata.namespace === "string" ? metadata.namespace : "";
}

/** Open where the owner says nothing: how many of each there are. */
const COUNTS = [
  "spec.parallelism",
  "spec.completions",
  "spec.minAvailable",
  "spec.tasks[*].replicas",
  "spec.pytorchReplicaSpecs.*.replicas",
  "spec.replicaSpecs[*].replicas",
  "spec.replicatedJobs[*].replicas",
  "spec.trainer.numNodes",
];

/** Each pattern as the paths it stands for in this config; those that only an owner wrote stay as they are. */
function expanded(patterns: readonly string[], queue: QueueRules): string[] {
  const top = unwrapped(queue.config);
  const found = patterns.flatMap((pattern) => {
    const paths = waysOf(top, pattern);
    if (paths.length || queue.overridable) return paths.length ? paths : [pattern];
    return pattern === "spec.parallelism" && isTree(top) && (top.kind ?? "Job") === "Job" ? [pattern] : [];
  });
  return [...new Set(found)];
}

function waysOf(tree: unknown, pattern: string): string[] {
  let ways: { path: string; node: unknown }[] = [{ path: "", node: tree }];
  for (const step of pattern.match(/\[[^\]]*\]|[^.[\]]+/g) ?? []) {
    ways = ways.flatMap(({ path, node }) => {
      if (step === "[*]" && Array.isArray(node)) {
        return node.map((item, i) => ({ path: `${path}${itemStep(item, i)}`, node: item as unknown }));
      }
      if (step === "*" && isTree(node)) {
        return Object.keys(node).map((key) => ({ path: `${path}.${key}`, node: node[key] }));
      }
      const inner = stepInto(node, step);
      const dot = step.startsWith("[") || !path ? "" : ".";
      return inner === undefined ? [] : [{ path: `${path}${dot}${step}`, node: inner }];
    });
  }
  return ways.map(({ path }) => path);
}

function itemStep(item: unknown, place: number): string {
  return isTree(item) && typeof item.name === "string" ? `[name=${item.name}]` : `[${place}]`;
}

function stepInto(node: unknown, step: string): unknown {
  const inside = /^\[(.*)\]$/.exec(step)?.[1];
  if (inside === undefined) return isTree(node) ? node[step] : undefined;
  const key = /^["'](.*)["']$/.exec(inside)?.[1];
  if (key !== undefined) return isTree(node) ? node[key] : undefined;
  if (!Array.isArray(node)) return undefined;
  const [name, value] = inside.split("=");
  if (value === undefined) return node[Number(inside)] as unknown;
  return node.find((item): item is Tree => isTree(item) && String(item[name ?? ""]) === value);
}
