import { expect, it } from "vitest";
import { NotReadable, readScalar, scalarText } from "./scalar";

it("a typed value is what YAML reads in it", () => {
  const table: [string, unknown][] = [
    ["3", 3],
    ["-0.5", -0.5],
    ["1e-4", 0.0001],
    ["true", true],
    ["FALSE", false],
    ["null", null],
    ["~", null],
    ["adam", "adam"],
    ["", ""],
    ["a b: c", "a b: c"],
    ["[1, 2]", [1, 2]],
    ['{"a": 1}', { a: 1 }],
    ['"3"', "3"],
    ["'it''s'", "it's"],
    ["12Gi", "12Gi"],
  ];
  for (const [text, value] of table) expect(readScalar(text), text).toEqual(value);
});

it("what begins like JSON and is none cannot be read", () => {
  for (const text of ["[1, 2", '"open', "{a: 1}", "'open"])
    expect(() => readScalar(text)).toThrow(NotReadable);
});

it("every value is written so that it is read back as itself", () => {
  const values = [
    ...[0, -1, 0.1, 1e-7, 1e21, true, false, null],
    ...["", "adam", "3", "3.0", "true", "Yes", "off", "~", "null", ".5", "+1", "2026-01-02", "0x1f", "1_000"],
    ...["it's", '"q"', "[x", "{x", "'x", " lead", "a\nb", "#c", "- x", "ünïcode", "a\u0085b", "a=b", "$HOME"],
    ...[[], [1, "a", null], {}, { a: { b: [true] } }],
  ];
  for (const value of values) expect(readScalar(scalarText(value)), scalarText(value)).toEqual(value);
});

it("only text that nobody can take for something else goes without quotes", () => {
  for (const text of ["yes", "n", "1.0", "0o7", "_x", "~", "=", "*a", "!x", "%x"])
    expect(scalarText(text)).toBe(JSON.stringify(text));
  for (const text of ["adam", "/data/train", "host:5000/a", "two words"]) expect(scalarText(text)).toBe(text);
});
