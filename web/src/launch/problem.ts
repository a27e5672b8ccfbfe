/** Which fields of the form the server complains of. */
import type { Problem } from "../api/client";
import type { Draft, Faults } from "./draft";
import { isTree } from "./inputs";

/** Kinds of problems that always are of one field. */
const BY_CODE: { readonly [code: string]: string } = {
  bad_command: "command",
  bad_git: "git.url",
  bad_training: "training",
  impossible_request: "queue",
};
const BY_NAME: { readonly [what: string]: string } = { run: "name", project: "project", job: "job" };
const ALLOWED: { readonly [what: string]: string } = {
  resources: "resources",
  workdir: "workdir",
  volumes: "volumes",
};

/** Field → what is wrong with it; empty where it is not about one field. */
export function faultsOf(problem: Problem, draft: Draft): Faults {
  const facts = problem.facts ?? {};
  const said = [problem.detail, problem.hint].filter(Boolean).join(" ");
  const name = String(facts.name ?? "");
  switch (problem.code) {
    case "bad_variable":
      return { [`values.${name}`]: problem.detail };
    case "bad_input_value":
      return inputFaults(problem, draft);
    case "bad_override":
      return { [overrideField(facts, draft)]: said };
    case "bad_name":
      return { [BY_NAME[String(facts.what)] ?? "name"]: said };
    case "not_found":
      return inForm(facts.what) ? { [facts.what === "queue" ? "queue" : "job"]: problem.detail } : {};
  }
  if (facts.field === "env") return { [rowField("env", draft.env, name)]: said };
  if (typeof facts.field === "string") return { [facts.field]: said };
  if ("priority" in facts) return { priority: said };
  if (Array.isArray(facts.errors)) return bodyFaults(facts.errors);
  const field = BY_CODE[problem.code];
  return field ? { [field]: said } : {};
}

const inForm = (what: unknown): boolean => what === "queue" || what === "job" || what === "job version";

function inputFaults({ facts = {}, detail }: Problem, draft: Draft): Faults {
  const problems = Array.isArray(facts.problems) ? facts.problems.filter(isTree) : [];
  const all = problems.length ? problems : [{ name: facts.name, detail }];
  return Object.fromEntries(
    all.map((one) => {
      const name = String(one.name ?? "");
      const row = draft.extra.find((row) => row.name.trim() === name);
      return [row ? `extra.${row.id}` : `inputs.${name}`, String(one.detail ?? detail)];
    }),
  );
}

function overrideField(facts: Problem["facts"], draft: Draft): string {
  const allowed = ALLOWED[String(facts?.allow)];
  return allowed ?? rowField("overrides", draft.overrides, String(facts?.path ?? ""));
}

function rowField(part: string, rows: Draft["env"], name: string): string {
  const row = rows.find((row) => row.name.trim() === name);
  return row ? `${part}.${row.id}` : part;
}

/** `["body", "training", "nodes"]` → `training.nodes` */
function bodyFaults(errors: readonly unknown[]): Faults {
  const found: Record<string, string> = {};
  for (const error of errors.filter(isTree)) {
    const where = Array.isArray(error.where) ? error.where.slice(1).map(String) : [];
    const field = where.slice(0, where[0] === "training" || where[0] === "git" ? 2 : 1).join(".");
    if (field) found[field] ??= String(error.what ?? "");
  }
  return found;
}
