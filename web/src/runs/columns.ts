import { useSyncExternalStore } from "react";
import { m } from "../messages";
import { remember, remembered } from "../ui/theme";
import type { SortKey } from "./filter";

export type ColumnKey =
  | "state"
  | "name"
  | "job"
  | "queue"
  | "project"
  | "author"
  | "gpus"
  | "nodes"
  | "created"
  | "duration";

export interface Column {
  readonly key: ColumnKey;
  readonly label: string;
  readonly width: string; //: a grid track
  readonly sort: SortKey | null;
  readonly right?: boolean;
  readonly fixed?: boolean; //: cannot be hidden
}

const c = m.runs.column;
export const COLUMNS: readonly Column[] = [
  { key: "state", label: c.state, width: "112px", sort: "state", fixed: true },
  { key: "name", label: c.name, width: "minmax(180px, 3fr)", sort: "name", fixed: true },
  { key: "job", label: c.job, width: "minmax(90px, 1.3fr)", sort: null },
  { key: "queue", label: c.queue, width: "minmax(70px, 1fr)", sort: "queue" },
  { key: "project", label: c.project, width: "minmax(70px, 1fr)", sort: "project" },
  { key: "author", label: c.author, width: "minmax(60px, 0.8fr)", sort: "author" },
  { key: "nodes", label: c.nodes, width: "60px", sort: null, right: true },
  { key: "gpus", label: c.gpus, width: "60px", sort: "gpus", right: true },
  { key: "duration", label: c.duration, width: "92px", sort: "duration", right: true },
  { key: "created", label: c.created, width: "104px", sort: "created", right: true },
];
const HIDDEN_AT_FIRST: readonly ColumnKey[] = ["job", "nodes"];
const NARROW: readonly ColumnKey[] = ["state", "name", "duration"];
const KEY = "muster.runs.hidden";

const listeners = new Set<() => void>();
let hidden: readonly ColumnKey[] = read();

function read(): readonly ColumnKey[] {
  const kept = remembered(KEY);
  if (kept === null) return HIDDEN_AT_FIRST;
  return COLUMNS.map(({ key }) => key).filter((key) => kept.split(",").includes(key));
}

export function setHidden(next: readonly ColumnKey[]): void {
  hidden = next;
  remember(KEY, next.join(","));
  for (const listener of listeners) listener();
}

export function useHidden(): readonly ColumnKey[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => hidden,
  );
}

const narrow = matchMedia("(max-width: 760px)");

/** Those to show: as chosen, and only what fits on a telephone. */
export function useColumns(): readonly Column[] {
  const without = useHidden();
  const isNarrow = useSyncExternalStore(
    (listener) => {
      narrow.addEventListener("change", listener);
      return () => narrow.removeEventListener("change", listener);
    },
    () => narrow.matches,
  );
  return COLUMNS.filter(({ key }) => (isNarrow ? NARROW.includes(key) : !without.includes(key)));
}
