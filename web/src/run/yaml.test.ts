import { expect, it } from "vitest";
import { yamlLines, yamlText } from "./yaml";

it("data becomes YAML that says the same, each line with its pointer", () => {
  const lines = yamlLines({
    kind: "Job",
    spec: { "a/b": [{ name: "x", args: ["--lr", "0.1", "yes"] }, 3], empty: {}, none: null, list: [] },
  });
  expect(yamlText(lines)).toBe(
    [
      "kind: Job",
      "spec:",
      "  a/b:",
      "    - name: x",
      "      args:",
      '        - "--lr"',
      '        - "0.1"',
      '        - "yes"',
      "    - 3",
      "  empty: {}",
      "  none: null",
      "  list: []",
      "",
    ].join("\n"),
  );
  expect(lines.map((line) => line.pointer)).toContain("/spec/a~1b/0/args/1");
});

it("what stands behind a dash is deeper than what stands below it", () => {
  const lines = yamlLines({
    containers: [
      { resources: { limits: { cpu: 1 } }, name: "main" },
      { args: ["a"], tty: true },
    ],
    grid: [[1, [2, { x: { w: 3 }, z: 4 }]], [5], []],
  });
  expect(yamlText(lines)).toBe(
    [
      "containers:",
      "  - resources:",
      "      limits:",
      "        cpu: 1",
      "    name: main",
      "  - args:",
      "      - a",
      "    tty: true",
      "grid:",
      "  - - 1",
      "    - - 2",
      "      - x:",
      "          w: 3",
      "        z: 4",
      "  - - 5",
      "  - []",
      "",
    ].join("\n"),
  );
});

it("what YAML could mistake is quoted", () => {
  const tricky = ["null", "12", "a: b", "- x", "#c", " lead", "line\nbreak", "{{gpus}}", "<b>", "true"];
  for (const line of yamlLines(tricky)) expect(line.value).toMatch(/^".*"$/s);
  for (const line of yamlLines(["python train.py", "acme/train", "/data"]))
    expect(line.value).not.toMatch(/"/);
});
