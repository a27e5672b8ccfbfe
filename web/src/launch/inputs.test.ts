import { expect, it } from "vitest";
import { type InputField, inputsOf, same, textOf, valueIn, withValue } from "./inputs";

const SCHEMA = {
  type: "object",
  $defs: {
    Optim: { type: "object", properties: { lr: { type: "number", exclusiveMinimum: 0, maximum: 10 } } },
  },
  properties: {
    steps: { type: "integer", default: 200, minimum: 1, description: "how long" },
    optimizer: { $ref: "#/$defs/Optim" },
    name: { enum: ["sgd", "adam", null] },
    seed: { anyOf: [{ type: "integer" }, { type: "null" }], default: null },
    layers: { type: "array", items: { type: "integer" } },
    tag: { type: ["string", "null"] },
    deep: { allOf: [{ properties: { a: { type: "boolean" } } }, { properties: { b: { type: "string" } } }] },
    free: {},
  },
  required: ["steps", "name"],
  additionalProperties: false,
};

it("each value of a schema becomes a field of its kind, however it is written", () => {
  const { fields, open } = inputsOf({ schema: SCHEMA }, {});
  expect(fields.map(({ name, kind }) => `${name}: ${kind}`)).toEqual([
    "steps: integer",
    "optimizer.lr: number",
    "name: choice",
    "seed: integer",
    "layers: json",
    "tag: text",
    "deep.a: boolean",
    "deep.b: text",
    "free: any",
  ]);
  expect(open).toBe(false);
  expect(fields[0]).toMatchObject({ rule: "≥ 1", fallback: 200, required: false, description: "how long" });
  expect(fields[1]?.rule).toBe("0 … 10");
  expect(fields[2]?.required).toBe(true);
});

it("what was recorded and is not declared has a field, too", () => {
  const recorded = { lr: 0.1, optim: { name: "adam", betas: [0.9] }, none: {} };
  const { fields, open } = inputsOf(null, recorded);
  expect(fields.map((field) => field.name)).toEqual(["lr", "optim.name", "optim.betas", "none"]);
  expect(open).toBe(true);
  const declared = inputsOf({ schema: { properties: { optim: { type: "object" } } } }, recorded);
  expect(declared.fields.map((field) => field.name)).toEqual(["optim", "lr", "none"]);
});

it("what a field shows is what it says", () => {
  const field = (kind: InputField["kind"]): InputField => ({
    name: "x",
    path: ["x"],
    kind,
    required: false,
    fallback: undefined,
    choices: [],
    rule: "",
    description: "",
  });
  const table: [InputField["kind"], unknown[]][] = [
    ["text", ["3", "true", "", "a b"]],
    ["integer", [3, -1]],
    ["number", [0.5, 1e-7]],
    ["boolean", [true, false]],
    ["choice", ["a", 1, null]],
    ["json", [[1], { a: 1 }, null]],
    ["any", ["3", 3, null, [1], "x"]],
  ];
  for (const [kind, values] of table)
    for (const value of values) expect(valueIn(field(kind), textOf(field(kind), value))).toEqual(value);
});

it("a text where a number should be goes on, for the server to refuse", () => {
  const [steps] = inputsOf({ schema: SCHEMA }, {}).fields;
  expect(steps && valueIn(steps, "many")).toBe("many");
  expect(steps && valueIn(steps, '"3')).toBe('"3');
});

it("a value is put into a tree unless something is in the way", () => {
  expect(withValue({ a: { b: 1 } }, ["a", "c"], 2)).toEqual({ a: { b: 1, c: 2 } });
  expect(withValue({ a: 1 }, ["a", "c"], 2)).toBeUndefined();
  expect(withValue({}, ["a", ""], 2)).toBeUndefined();
});

it("trees are the same in whatever order", () => {
  expect(same({ a: 1, b: [1, { c: 2, d: 3 }] }, { b: [1, { d: 3, c: 2 }], a: 1 })).toBe(true);
  expect(same([1, 2], [2, 1])).toBe(false);
  expect(same("1", 1)).toBe(false);
});
