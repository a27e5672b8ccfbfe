/** The same launch to type: as a command line, and in Python. */
import { shellWords } from "../ui/format";
import { isTree, type Tree } from "./inputs";
import type { Asked, Order } from "./order";
import { scalarText } from "./scalar";

export interface CommandLine {
  readonly text: string;
  readonly missing: readonly string[]; //: parts that no option can say
}

const WIDE = 88;
const OPTIONS: { readonly [key: string]: string } = {
  nodes: "--nodes",
  procs_per_node: "--procs-per-node",
  launcher: "--launcher",
  max_restarts: "--max-restarts",
  rdzv_timeout: "--rdzv-timeout",
  shm: "--shm",
};

/** `muster launch …`, or `muster run rerun RUN …`, to be pasted into a shell. */
export function commandLine({ run, body }: Order): CommandLine {
  const missing: string[] = [];
  const parts: string[][] = [run === null ? ["muster", "launch"] : ["muster", "run", "rerun", run]];
  const option = (name: string, value: string | undefined) =>
    value !== undefined && parts.push([name, value]);
  option("-j", body.job);
  option("--entrypoint", body.entrypoint && shellWords(body.entrypoint));
  option("-d", body.image);
  option("-u", body.git?.url);
  option("--ref", body.git?.ref);
  option("--folder", body.git?.folder);
  option("-q", body.queue);
  option("-p", body.project);
  option("-e", body.entity);
  option("--name", body.name);
  option("--priority", body.priority);
  for (const [name, value] of Object.entries(body.values ?? {})) parts.push(["--set", `${name}=${value}`]);
  for (const [path, value] of Object.entries(body.overrides ?? {}))
    parts.push(["--override", `${path}=${scalarText(value)}`]);
  const typed = typedConfig(body.config ?? {}, "");
  const file = typed === null && run === null;
  if (file) parts.push(["--config-file", "-"]);
  else if (typed === null) missing.push("config");
  else parts.push(...typed.map((word) => ["--config", word]));
  for (const [name, value] of Object.entries(body.env ?? {})) parts.push(["--env", `${name}=${value}`]);
  option("--workdir", body.workdir);
  for (const volume of body.volumes ?? []) parts.push(["--volume", volume]);
  if (run !== null && body.volumes?.length === 0) missing.push("volumes");
  for (const [key, value] of Object.entries(body.training ?? {}))
    option(OPTIONS[key] ?? `--${key}`, String(value));
  const words = body.command ?? body.arguments;
  if (words) parts.push(["--", ...words]);
  const text = onLines(parts.map(shellWords));
  return { text: file ? `${text} <<'END'\n${JSON.stringify(body.config, null, 2)}\nEND` : text, missing };
}

function onLines(parts: readonly string[]): string {
  const line = parts.join(" ");
  return line.length <= WIDE ? line : parts.join(" \\\n  ");
}

/** `optim.lr=0.1` for each value; null where a name has what cannot be typed. */
function typedConfig(tree: Tree, before: string): string[] | null {
  const words: string[] = [];
  for (const [key, value] of Object.entries(tree)) {
    if (!key.trim() || /[.=\n]/.test(key)) return null;
    const name = before ? `${before}.${key}` : key;
    if (isTree(value) && Object.keys(value).length) {
      const inner = typedConfig(value, name);
      if (inner === null) return null;
      words.push(...inner);
    } else words.push(`${name}=${scalarText(value)}`);
  }
  return words;
}

/** A program that launches the same, and prints the run's id. */
export function python({ run, body }: Order): string {
  if (run !== null) {
    return withClient("RerunRequest", (request) => `client.rerun_run(${literal(run)}, ${request})`, body);
  }
  const { arguments: words, ...rest } = body;
  if (body.entrypoint || (words && !words.length)) {
    return withClient("LaunchRequest", (request) => `client.launch(${request})`, body);
  }
  const given = { ...(words ? { command: words } : {}), ...rest };
  return `import muster\n\nrun = ${call("muster.launch", given, "")}\nprint(run.id)\n`;
}

function withClient(model: string, ask: (request: string) => string, body: Asked): string {
  const request = call(model, body, "    ");
  return (
    `import muster\nfrom muster.wire.runs import ${model}\n\n` +
    `with muster.Client() as client:\n    run = ${ask(request)}\n    print(run.id)\n`
  );
}

function call(name: string, given: Asked, indent: string): string {
  const words = Object.entries(given).map(([key, value]) => `${key}=${literal(value)}`);
  const line = `${name}(${words.join(", ")})`;
  if (line.length + indent.length <= WIDE - 20) return line;
  return `${name}(\n${words.map((word) => `${indent}    ${word},\n`).join("")}${indent})`;
}

/** As Python writes it. */
export function literal(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (isTree(value)) {
    const pairs = Object.entries(value).map(([key, inner]) => `${JSON.stringify(key)}: ${literal(inner)}`);
    return `{${pairs.join(", ")}}`;
  }
  return JSON.stringify(value);
}
