/** Values as one types them behind `--config NAME=` and `--override PATH=`: read and written alike. */

const WORDS: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ...["true", "True", "TRUE"].map((word) => [word, true] as const),
  ...["false", "False", "FALSE"].map((word) => [word, false] as const),
  ...["null", "Null", "NULL", "~"].map((word) => [word, null] as const),
]);
const NUMBER = /^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$/;
/** What no reader of YAML takes for anything but text. */
const SAFE = /^[A-Za-z/][\w./:@+ -]*$/;
const RESERVED = /^(?:true|false|null|yes|no|on|off|y|n)$/i;
/** What JSON lets stand in a text, and YAML does not. */
const UNSEEN = /[\u007f-\u009f\u2028\u2029\ufeff]/g;

export class NotReadable extends Error {}

/** `3`, `0.01`, `true`, `null`, `[1, 2]`, `"3"`; else the text itself. */
export function readScalar(text: string): unknown {
  const first = text[0];
  if (first === "'") return readQuoted(text);
  if (first === '"' || first === "[" || first === "{") {
    try {
      return JSON.parse(text) as unknown;
    } catch {
      throw new NotReadable(text);
    }
  }
  if (WORDS.has(text)) return WORDS.get(text);
  return NUMBER.test(text) && Number.isFinite(Number(text)) ? Number(text) : text;
}

function readQuoted(text: string): string {
  const inside = /^'((?:[^']|'')*)'$/s.exec(text)?.[1];
  if (inside === undefined) throw new NotReadable(text);
  return inside.replaceAll("''", "'");
}

/** A text that `readScalar` and the command line read as this value. */
export function scalarText(value: unknown): string {
  if (typeof value === "string" && SAFE.test(value) && !RESERVED.test(value)) return value;
  const json = JSON.stringify(value) ?? "null";
  return json.replace(UNSEEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
