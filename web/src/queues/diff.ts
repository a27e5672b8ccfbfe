/** A unified diff as lines to show. */
export interface DiffLine {
  readonly kind: "added" | "removed" | "same" | "hunk";
  readonly text: string;
}

export function diffLines(diff: string): DiffLine[] {
  return diff
    .split("\n")
    .filter((line, i, all) => !(line === "" && i === all.length - 1))
    .filter((line, i) => !(i < 2 && (line.startsWith("--- ") || line.startsWith("+++ "))))
    .map((line) => {
      if (line.startsWith("@@")) return { kind: "hunk", text: line };
      if (line.startsWith("+")) return { kind: "added", text: line.slice(1) };
      if (line.startsWith("-")) return { kind: "removed", text: line.slice(1) };
      return { kind: "same", text: line.slice(1) };
    });
}
