/** From rows to what stands under each other on the screen: order, and groups folded to one line. */
import type { Sort, SortKey } from "./filter";
import type { Row } from "./pages";

export type Line =
  | { readonly kind: "run"; readonly row: Row; readonly inGroup: boolean }
  | { readonly kind: "group"; readonly id: string; readonly rows: readonly Row[]; readonly open: boolean };

const length = (row: Row, now: number): number =>
  row.started_at === null ? -1 : (row.ended_at ? Date.parse(row.ended_at) : now) - Date.parse(row.started_at);

const KEYS: Record<SortKey, (row: Row, now: number) => string | number> = {
  created: (row) => row.created_at,
  name: (row) => row.name,
  state: (row) => row.state,
  duration: length,
  queue: (row) => row.queue,
  project: (row) => row.project,
  author: (row) => row.author,
  gpus: (row) => row.gpus,
};

export function sorted(rows: readonly Row[], sort: Sort, now: number): readonly Row[] {
  if (sort.by === "created") return sort.down ? rows : rows.toReversed();
  const key = KEYS[sort.by];
  const keyed = rows.map((row) => ({ row, key: key(row, now) }));
  const way = sort.down ? -1 : 1;
  keyed.sort((a, b) => (a.key < b.key ? -way : a.key > b.key ? way : 0));
  return keyed.map(({ row }) => row);
}

/** With `fold`, the runs of a group are one line at the place of its first, followed by them if it is open. */
export function lines(rows: readonly Row[], fold: boolean, open: ReadonlySet<string>): Line[] {
  if (!fold) return rows.map((row) => ({ kind: "run", row, inGroup: false }));
  const groups = new Map<string, Row[]>();
  for (const row of rows) {
    if (row.group === null) continue;
    const known = groups.get(row.group);
    if (known) known.push(row);
    else groups.set(row.group, [row]);
  }
  const result: Line[] = [];
  const seen = new Set<string>();
  for (const row of rows) {
    if (row.group === null) {
      result.push({ kind: "run", row, inGroup: false });
    } else if (!seen.has(row.group)) {
      seen.add(row.group);
      const members = groups.get(row.group) ?? [];
      const isOpen = open.has(row.group);
      result.push({ kind: "group", id: row.group, rows: members, open: isOpen });
      if (isOpen) for (const member of members) result.push({ kind: "run", row: member, inGroup: true });
    }
  }
  return result;
}
