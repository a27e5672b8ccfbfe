import { describe, expect, test } from "vitest";
import { diffLines } from "./diff";
import {
  allowedWords,
  declarationOf,
  declarations,
  NO_RULES,
  opensBody,
  rowOf,
  rowsOf,
  rulesBody,
  rulesOf,
} from "./draft";
import { besideOf, landing, moved } from "./line";

describe("a variable as fields", () => {
  test.each([
    { type: "integer", default: 1, minimum: 0, maximum: 4, description: "GPUs" },
    { type: "number", default: 0.5 },
    { type: "string", choices: ["tiny", "full"] },
    { type: "boolean", default: false },
    { type: "quantity", default: "8Gi", maximum: "64Gi" },
    { type: "integer", choices: [1, 2, 4] },
  ])("comes back as it was: %j", (said) => {
    expect(declarationOf(rowOf("x", said))).toEqual(said);
  });

  test("what is no number goes to the server, which says so", () => {
    const row = { ...rowOf("gpus", { type: "integer" }), default: "many" };
    expect(declarationOf(row)).toEqual({ type: "integer", default: "many" });
  });

  test("a range is of numbers alone", () => {
    const row = { ...rowOf("x", { type: "integer", minimum: 1 }), type: "string" as const };
    expect(declarationOf(row)).toEqual({ type: "string" });
  });
});

test("parsing again keeps what was written, adds what is new and drops what is gone", () => {
  const before = [rowOf("gpus", { type: "integer", maximum: 4 }), rowOf("old", { type: "string" })];
  const found = [
    { name: "gpus", uses: [], declared: null, suggested: { type: "integer" }, option: "" },
    { name: "memory", uses: [], declared: null, suggested: { type: "quantity" }, option: "" },
    { name: "data", uses: [], declared: { type: "string", default: "x" }, suggested: {}, option: "" },
  ];
  const rows = rowsOf(found, before);
  expect(declarations(rows)).toEqual({
    gpus: { type: "integer", maximum: 4 },
    memory: { type: "quantity" },
    data: { type: "string", default: "x" },
  });
});

describe("rules as fields", () => {
  test("come back as they were", () => {
    const body = rulesBody(
      rulesOf({ order: "fifo", priorities: false, limits: { runs: 8, user: { gpus: 2 } } }),
    );
    expect(body).toMatchObject({
      order: "fifo",
      priorities: false,
      limits: { runs: 8, gpus: null, user: { runs: null, gpus: 2 } },
    });
  });
  test("what a launch may change comes back as it was, also nothing at all", () => {
    const opened = rulesOf({ overridable: ["env.A"], allow: ["volumes", "image"] });
    expect(opensBody(opened)).toEqual({ overridable: ["env.A"], allow: ["image", "volumes"] });
    expect(opensBody(rulesOf({ overridable: [] }))).toEqual({ overridable: [], allow: [] });
    expect(opensBody(NO_RULES)).toEqual({ allow: [] });
  });
  test("nothing said is the default", () => expect(rulesOf({})).toEqual(NO_RULES));
});

test("what is allowed, in words", () => {
  expect(allowedWords({ minimum: 0, maximum: 4 }, "any")).toBe("0 … 4");
  expect(allowedWords({ minimum: "1Gi" }, "any")).toBe("≥ 1Gi");
  expect(allowedWords({ choices: ["a", "b"], minimum: 1 }, "any")).toBe("a, b");
  expect(allowedWords({}, "any")).toBe("any");
});

describe("the line", () => {
  const ids = ["a", "b", "c", "d"];
  test("a member is put before another, or behind the last", () => {
    expect(besideOf(ids, 2, 0)).toEqual({ before: "a" });
    expect(besideOf(ids, 0, 1)).toEqual({ before: "c" });
    expect(besideOf(ids, 0, 3)).toEqual({ behind: "d" });
    expect(besideOf(ids, 1, 1)).toBeNull();
    expect(besideOf(["a"], 0, 1)).toBeNull();
  });
  test("what the server is told is what is shown", () => {
    for (let from = 0; from < ids.length; from++) {
      for (let to = 0; to < ids.length; to++) {
        const shown = moved(ids, from, to);
        const told = besideOf(ids, from, to);
        const id = ids[from] ?? "";
        if (told === null) expect(shown).toEqual(ids);
        else if ("before" in told) expect(shown.indexOf(id) + 1).toBe(shown.indexOf(told.before));
        else expect(shown.at(-1)).toBe(id);
      }
    }
  });
  test("dropped on a half, it lands on that side", () => {
    expect(moved(ids, 0, landing(0, 2, true))).toEqual(["b", "c", "a", "d"]);
    expect(moved(ids, 3, landing(3, 1, false))).toEqual(["a", "d", "b", "c"]);
    expect(landing(1, 1, true)).toBe(1);
    expect(landing(1, 1, false)).toBe(1);
  });
});

test("a diff is shown without the names of its files", () => {
  const diff = "--- lab v1\n+++ lab v2\n@@ -1,2 +1,2 @@\n a: 1\n-b: 2\n+b: 3\n---- old\n";
  expect(diffLines(diff)).toEqual([
    { kind: "hunk", text: "@@ -1,2 +1,2 @@" },
    { kind: "same", text: "a: 1" },
    { kind: "removed", text: "b: 2" },
    { kind: "added", text: "b: 3" },
    { kind: "removed", text: "--- old" },
  ]);
});
