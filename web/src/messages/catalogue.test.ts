/** Every word that a reader sees is in the catalogue: none stands in the code of a screen. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { describe, expect, it } from "vitest";
import { en } from "./en";

const SOURCE = join(import.meta.dirname, "..");
const files = (ending: RegExp) =>
  readdirSync(SOURCE, { recursive: true, encoding: "utf8" }).filter((name) => ending.test(name));
const SEEN = new Set([
  "aria-label",
  "aria-description",
  "aria-roledescription",
  "title",
  "placeholder",
  "alt",
  "label",
]);
const WORD = /\p{Letter}{2,}/u;
/** Names of things, the same in every language. */
const NAMES = new Set(["torchrun", "muster", "Esc", "Enter", "Alt", "Ctrl", "Shift"]);

function literal(node: ts.Node): string | null {
  if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) return node.text;
  if (ts.isTemplateExpression(node))
    return [node.head, ...node.templateSpans.map((span) => span.literal)].map((part) => part.text).join(" ");
  return null;
}

/** The texts that an expression may become: `a ? "x" : b && "y"` are x and y. */
function* texts(node: ts.Expression): Generator<string> {
  const text = literal(node);
  if (text !== null) yield text;
  else if (ts.isParenthesizedExpression(node)) yield* texts(node.expression);
  else if (ts.isConditionalExpression(node)) {
    yield* texts(node.whenTrue);
    yield* texts(node.whenFalse);
  } else if (ts.isBinaryExpression(node)) {
    if (node.operatorToken.kind === ts.SyntaxKind.PlusToken) yield* texts(node.left);
    yield* texts(node.right);
  }
}

function wordsIn(source: string): string[] {
  const file = ts.createSourceFile("a.tsx", source, ts.ScriptTarget.Latest, true, ts.ScriptKind.TSX);
  const found: string[] = [];
  const note = (text: string) => {
    const bare = text.replace(/&\w+;/g, "").trim();
    if (WORD.test(bare) && !NAMES.has(bare)) found.push(bare);
  };
  const visit = (node: ts.Node) => {
    if (ts.isJsxText(node)) note(node.text);
    else if (ts.isJsxExpression(node) && node.expression && !ts.isJsxAttribute(node.parent))
      for (const text of texts(node.expression)) note(text);
    else if (ts.isJsxAttribute(node) && SEEN.has(node.name.getText())) {
      const value = node.initializer;
      if (value && ts.isStringLiteral(value)) note(value.text);
      else if (value && ts.isJsxExpression(value) && value.expression)
        for (const text of texts(value.expression)) note(text);
    } else if (ts.isPropertyAssignment(node) && SEEN.has(node.name.getText()))
      for (const text of texts(node.initializer)) note(text);
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

describe("the catalogue", () => {
  it("has every word of the screens", () => {
    const stray = files(/\.tsx$/).flatMap((name) =>
      wordsIn(readFileSync(join(SOURCE, name), "utf8")).map((word) => `${name}: ${word}`),
    );
    expect(stray).toEqual([]);
  });

  it("is missed where a word stands in the code", () => {
    expect(wordsIn('const A = <b title="Two words">One {n ? "three" : m.x}</b>;')).toEqual([
      "Two words",
      "One",
      "three",
    ]);
    expect(wordsIn('const A = <b className="cut">{m.x} · {n}</b>;')).toEqual([]);
  });

  it("decides the language of numbers and moments alone", () => {
    const stray = files(/^(?!messages).*\.tsx?$/).filter((name) =>
      /toLocale\w*String\(\s*"|Intl\.\w+\(\s*"/.test(readFileSync(join(SOURCE, name), "utf8")),
    );
    expect(stray).toEqual([]);
  });

  it("counts by the rules of its language", () => {
    expect(en.runs.group(1)).toBe("1 run");
    expect(en.runs.group(2000)).toBe("2,000 runs");
  });
});
