import { useMemo, useSyncExternalStore } from "react";
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
  readonly least: number; //: pixels
  readonly share?: number; //: of what is left over
  readonly sort: SortKey | null;
  readonly right?: boolean;
  readonly fixed?: boolean; //: cannot be hidden
}

const c = m.runs.column;
export const COLUMNS: readonly Column[] = [
  { key: "state", label: c.state, least: 112, sort: "state", fixed: true },
  { key: "name", label: c.name, least: 180, share: 3, sort: "name", fixed: true },
  { key: "job", label: c.job, least: 90, share: 1.3, sort: null },
  { key: "queue", label: c.queue, least: 70, share: 1, sort: "queue" },
  { key: "project", label: c.project, least: 70, share: 1, sort: "project" },
  { key: "author", label: c.author, least: 60, share: 0.8, sort: "author" },
  { key: "nodes", label: c.nodes, least: 60, sort: null, right: true },
  { key: "gpus", label: c.gpus, least: 60, sort: "gpus", right: true },
  { key: "duration", label: c.duration, least: 92, sort: "duration", right: true },
  { key: "created", label: c.created, least: 104, sort: "created", right: true },
];
const HIDDEN_AT_FIRST: readonly ColumnKey[] = ["job", "nodes"];
/** Where not all fit without scrolling sideways: what is seen of those that were chosen. */
const FEWER: readonly { query: string; keys: readonly ColumnKey[]; least: number }[] = [
  { query: "(max-width: 760px)", keys: ["state", "name", "duration"], least: 100 },
  { query: "(max-width: 1060px)", keys: ["state", "name", "queue", "duration"], least: 140 },
];
const KEY = "muster.runs.hidden";
const CHECK = 34; //: pixels, for the box at the start of a row

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

const windows = FEWER.map(({ query }) => matchMedia(query));

/** Those to show: as chosen, and only what fits. */
export function useColumns(): readonly Column[] {
  const without = useHidden();
  const size = useSyncExternalStore(
    (listener) => {
      for (const one of windows) one.addEventListener("change", listener);
      return () => {
        for (const one of windows) one.removeEventListener("change", listener);
      };
    },
    () => windows.findIndex((one) => one.matches),
  );
  return useMemo(() => {
    const chosen = COLUMNS.filter(({ key }) => !without.includes(key));
    const fewer = FEWER[size];
    if (!fewer) return chosen;
    return chosen
      .filter(({ key }) => fewer.keys.includes(key))
      .map((column) => ({ ...column, least: Math.min(column.least, fewer.least) }));
  }, [size, without]);
}

/** The tracks of a row's grid, and how wide it is at least. Said, not measured: no row waits for another. */
export function tracks(columns: readonly Column[]): { template: string; least: number } {
  const track = ({ least, share }: Column) => (share ? `minmax(${least}px, ${share}fr)` : `${least}px`);
  const edges = CHECK + 32;
  return {
    template: `${CHECK}px ${columns.map(track).join(" ")}`,
    least: columns.reduce((sum, { least }) => sum + least, edges),
  };
}
