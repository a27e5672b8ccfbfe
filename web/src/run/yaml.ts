/** Data as lines of YAML, each with the place it came from, so that its source can stand beside it. */
export interface YamlLine {
  readonly indent: number;
  readonly dash: boolean;
  readonly key: string | null;
  readonly value: string | null; //: of a leaf
  readonly kind: "text" | "number" | "word" | "none";
  readonly pointer: string; //: JSON pointer of the leaf, or of what begins here
}

export function yamlLines(data: unknown): YamlLine[] {
  const lines: YamlLine[] = [];
  write(lines, data, { indent: 0, dash: false, key: null, pointer: "" });
  return lines;
}

export function yamlText(lines: readonly YamlLine[]): string {
  return `${lines.map(lineText).join("\n")}\n`;
}

export function lineText(line: YamlLine): string {
  const key = line.key === null ? "" : `${line.key}:`;
  const value = line.value === null ? "" : `${key ? " " : ""}${line.value}`;
  return `${"  ".repeat(line.indent)}${line.dash ? "- " : ""}${key}${value}`;
}

type Head = Omit<YamlLine, "value" | "kind">;

function write(lines: YamlLine[], data: unknown, head: Head): void {
  const escaped = (part: string) => part.replaceAll("~", "~0").replaceAll("/", "~1");
  if (Array.isArray(data) && data.length) {
    if (head.key !== null) lines.push({ ...head, value: null, kind: "none" });
    const indent = head.key === null ? head.indent : head.indent + 1;
    data.forEach((item, i) => {
      write(lines, item, { indent, dash: true, key: null, pointer: `${head.pointer}/${i}` });
    });
  } else if (typeof data === "object" && data !== null && Object.keys(data).length) {
    if (head.key !== null) lines.push({ ...head, value: null, kind: "none" });
    const deeper = head.key !== null || head.dash ? head.indent + 1 : head.indent;
    Object.entries(data).forEach(([name, value], i) => {
      const first = i === 0 && head.key === null && head.dash;
      write(lines, value, {
        indent: first ? head.indent : deeper,
        dash: first,
        key: scalar(name),
        pointer: `${head.pointer}/${escaped(name)}`,
      });
    });
  } else {
    const kind = typeof data === "string" ? "text" : typeof data === "number" ? "number" : "word";
    const value = Array.isArray(data)
      ? "[]"
      : typeof data === "object" && data !== null
        ? "{}"
        : scalar(data);
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
