import { expect, it } from "vitest";
import type { Problem } from "../api/client";
import { type Draft, EMPTY, newRow } from "./draft";
import { faultsOf } from "./problem";

const problem = (code: string, facts: Problem["facts"] = {}): Problem => ({
  type: "about:blank",
  title: "No",
  status: 422,
  detail: "It is wrong.",
  hint: "Mend it.",
  code,
  facts,
});

const rows = [newRow("A", "1"), newRow("B", "2")];
const draft: Draft = { ...EMPTY, env: rows, extra: [newRow("zz", "1")], overrides: [newRow("spec.x", "1")] };

it("each complaint of the server finds its field", () => {
  const table: [Problem, string[]][] = [
    [problem("bad_variable", { name: "gpus" }), ["values.gpus"]],
    [problem("bad_input_value", { name: "lr" }), ["inputs.lr"]],
    [
      problem("bad_input_value", {
        problems: [
          { name: "lr", detail: "a" },
          { name: "zz", detail: "b" },
        ],
      }),
      ["inputs.lr", `extra.${draft.extra[0]?.id}`],
    ],
    [problem("bad_override", { path: "spec.x" }), [`overrides.${draft.overrides[0]?.id}`]],
    [problem("bad_override", { path: "spec.y" }), ["overrides"]],
    [problem("bad_override", { allow: "volumes" }), ["volumes"]],
    [problem("bad_name", { what: "project" }), ["project"]],
    [problem("bad_command"), ["command"]],
    [problem("bad_git", { scheme: "file" }), ["git.url"]],
    [problem("bad_git", { field: "git.ref" }), ["git.ref"]],
    [problem("bad_training", { field: "training.nodes" }), ["training.nodes"]],
    [problem("bad_training"), ["training"]],
    [problem("bad_input", { field: "env", name: "B" }), [`env.${rows[1]?.id}`]],
    [problem("bad_input", { queue: "q", priority: "high" }), ["priority"]],
    [
      problem("bad_input", { errors: [{ where: ["body", "training", "nodes"], what: "no" }] }),
      ["training.nodes"],
    ],
    [problem("not_found", { what: "queue" }), ["queue"]],
    [problem("not_found", { what: "job version" }), ["job"]],
    [problem("not_found", { what: "run" }), []],
    [problem("impossible_request", { queue: "q" }), ["queue"]],
    [problem("internal"), []],
  ];
  for (const [given, fields] of table)
    expect(Object.keys(faultsOf(given, draft)), given.code).toEqual(fields);
});
