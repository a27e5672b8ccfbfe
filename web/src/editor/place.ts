/** Where in a YAML document somebody is typing, from the lines before it: no parser, for what is being typed
 * is seldom whole. */
import { MEMBER, type Step } from "./schema";

export interface Place {
  readonly kind: "key" | "value";
  readonly path: readonly Step[]; //: of the mapping that the key is in, or of the value
  readonly typed: string;
}

const KEY = /^(\s*)((?:- +)*)([\w./-]*)$/;
const VALUE = /^(\s*)((?:- +)*)(["']?)([^\s:#"'][^:#"']*)\3:\s+(["']?[^#]*)$/;
const LINE = /^(\s*)((?:- +)*)(?:(["']?)([^\s:#"'-][^:#"']*)\3:(?:\s|$))?/;

/** `lines`: those before the one being typed; `start`: what stands on that one before the cursor. */
export function placeOf(lines: readonly string[], start: string): Place | null {
  const key = KEY.exec(start);
  if (key) {
    const [, indent = "", dashes = "", typed = ""] = key;
    return { kind: "key", path: pathTo(lines, indent.length, dashes.length), typed };
  }
  const value = VALUE.exec(start);
  if (value) {
    const [, indent = "", dashes = "", , name = "", typed = ""] = value;
    return { kind: "value", path: [...pathTo(lines, indent.length, dashes.length), name.trim()], typed };
  }
  return null;
}

/** The keys above what stands at this indent. */
function pathTo(lines: readonly string[], indent: number, dashes: number): Step[] {
  const path: Step[] = [];
  let level = indent;
  let equal = false; // may the parent stand at the same indent? So it may with a list
  if (dashes) {
    path.unshift(MEMBER);
    equal = true;
  }
  for (let i = lines.length - 1; i >= 0 && (level > 0 || equal); i--) {
    const line = lines[i] ?? "";
    if (/^\s*(#|$)/.test(line)) continue;
    if (/^---/.test(line)) break;
    const [, blank = "", marks = "", , name] = LINE.exec(line) ?? [];
    const at = blank.length;
    const keyAt = at + marks.length;
    if (marks) {
      if (at >= level) continue; // a member of a list below us, or beside us
      if (name !== undefined && keyAt < level) path.unshift(name.trim());
      path.unshift(MEMBER);
      level = at;
      equal = true;
    } else if (name !== undefined && (keyAt < level || (equal && keyAt === level))) {
      path.unshift(name.trim());
      level = keyAt;
      equal = false;
    }
  }
  return path;
}
