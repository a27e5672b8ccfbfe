/** Data as lines of YAML, each with the place it came from, so that its source can stand beside it. */
export interface YamlLine {
  readonly indent: number; //: in steps of two columns
  readonly dashes: number; //: of the lists that begin an item here; each is as wide as a step
  readonly key: string | null;
  readonly value: string | null; //: of a leaf
  readonly kind: "text" | "number" | "word" | "none";
  readonly pointer: string; //: JSON pointer of the leaf, or of what begins here
}

export function yamlLines(data: unknown): YamlLine[] {
  const lines: YamlLine[] = [];
  write(lines, data, { indent: 0, dashes: 0, key: null, pointer: "" });
  return lines;
}

export function yamlText(lines: readonly YamlLine[]): string {
  return `${lines.map(lineText).join("\n")}\n`;
}

export function lineText(line: YamlLine): string {
  const key = line.key === null ? "" : `${line.key}:`;
  const value = line.value === null ? "" : `${key ? " " : ""}${line.value}`;
  return `${"  ".repeat(line.indent)}${"- ".repeat(line.dashes)}${key}${value}`;
}

type Head = Omit<YamlLine, "value" | "kind">;

function write(lines: YamlLine[], data: unknown, head: Head): void {
  const escaped = (part: string) => part.replaceAll("~", "~0").replaceAll("/", "~1");
  const isList = Array.isArray(data);
  const column = head.indent + head.dashes;
  if (typeof data === "object" && data !== null && Object.keys(data).length) {
    if (head.key !== null) lines.push({ ...head, value: null, kind: "none" });
    const inner = head.key === null ? column : column + 1;
    Object.entries(data).forEach(([name, value], i) => {
      const beside = i === 0 && head.key === null; // it stands behind the dashes
      write(lines, value, {
        indent: beside ? head.indent : inner,
        dashes: (beside ? head.dashes : 0) + (isList ? 1 : 0),
        key: isList ? null : scalar(name),
        pointer: `${head.pointer}/${escaped(name)}`,
      });
    });
  } else {
    const kind = typeof data === "string" ? "text" : typeof data === "number" ? "number" : "word";
    const value = isList ? "[]" : typeof data === "object" && data !== null ? "{}" : scalar(data);
    lines.push({ ...head, value, kind });
  }
}

const PLAIN = /^[A-Za-z_./$][A-Za-z0-9_./@${}+=-]*(?: [A-Za-z0-9_./@${}+=-]+)*$/;
const RESERVED = /^(?:y|n|yes|no|on|off|true|false|null|~|\.inf|\.nan|\.\d.*)$/i;

/** A text is quoted wherever YAML could take it for something else. */
function scalar(value: unknown): string {
  if (typeof value !== "string") return value === null ? "null" : String(value);
  return PLAIN.test(value) && !RESERVED.test(value) && !value.startsWith("{") ? value : JSON.stringify(value);
}
