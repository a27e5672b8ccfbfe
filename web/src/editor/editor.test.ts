import { describe, expect, test } from "vitest";
import { placeOf } from "./place";
import { spanOf } from "./problems";
import { schemaAt } from "./schema";

const at = (text: string) => {
  const lines = text.split("\n");
  return placeOf(lines.slice(0, -1), lines.at(-1) ?? "");
};

describe("where somebody types", () => {
  test.each([
    ["res", "key", []],
    ["spec:\n  te", "key", ["spec"]],
    ["spec:\n  a: 1\n\n  # note\n  te", "key", ["spec"]],
    ["spec:\n  containers:\n    - im", "key", ["spec", "containers", "[]"]],
    ["spec:\n  containers:\n  - im", "key", ["spec", "containers", "[]"]],
    ["spec:\n  containers:\n    - image: x\n      res", "key", ["spec", "containers", "[]"]],
    ["spec:\n  containers:\n    - resources:\n        li", "key", ["spec", "containers", "[]", "resources"]],
    ["spec:\n  containers:\n    - name: a\n    - name: b\n      im", "key", ["spec", "containers", "[]"]],
    ["a:\n  b: 1\nc", "key", []],
    ["kind: Jo", "value", ["kind"]],
    ["spec:\n  restartPolicy: Ne", "value", ["spec", "restartPolicy"]],
    ["a:\n  b: 1\n---\nspec:\n  x", "key", ["spec"]],
  ])("%j", (text, kind, path) => {
    expect(at(text)).toMatchObject({ kind, path });
  });

  test("not in the middle of text", () => {
    expect(at("spec: [a, b")).toMatchObject({ kind: "value" });
    expect(at("just some words")).toBeNull();
  });
});

test("a schema is walked by keys, lists and names that are free", () => {
  const schema = { properties: { list: { items: { rest: { description: "here" } } } } };
  expect(schemaAt(schema, ["list", "[]", "anything"])?.description).toBe("here");
  expect(schemaAt(schema, ["nothing"])).toBeUndefined();
});

describe("a problem is marked where it is", () => {
  const text = "env:\n  A: 1\n  A: 2\n";
  const marked = (line: number | null, column: number | null) => {
    const span = spanOf(text, line, column);
    return span && text.slice(span.from, span.to);
  };
  test("from its column to the end of the line", () => {
    expect(marked(3, 3)).toBe("A: 2");
    expect(marked(1, 1)).toBe("env:");
  });
  test("without a column, the words of the line", () => expect(marked(2, null)).toBe("A: 1"));
  test("behind the end, what is there", () => {
    expect(marked(99, 1)).toBe("A: 2");
    expect(marked(3, 99)).toBe("A: 2");
  });
  test("without a line, nowhere", () => expect(marked(null, null)).toBeNull());
});
