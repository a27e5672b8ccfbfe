/** From rows to what stands under each other on the screen: order, and groups folded to one line. */
import type { Sort, SortKey } from "./filter";
import type { Row } from "./pages";

export interface GroupOfRows {
  readonly group: string;
  readonly rows: readonly Row[];
  readonly open: boolean;
}

/** A run is its row itself: a list of a hundred thousand is laid out without making anything. */
export type Line = Row | GroupOfRows;

export const isGroup = (line: Line): line is GroupOfRows => "rows" in line;

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

/** Rows come sorted; those that changed since find their place among the others. */
export function sorted(rows: readonly Row[], sort: Sort, now: number): readonly Row[] {
  if (sort.by === "created") return rows;
  const key = KEYS[sort.by];
  const keyed = rows.map((row) => ({ row, key: key(row, now) }));
  const way = sort.down ? -1 : 1;
  keyed.sort((a, b) => (a.key < b.key ? -way : a.key > b.key ? way : 0));
  return keyed.map(({ row }) => row);
}

/** With `fold`, the runs of a group are one line at the place of its first, followed by them if it is open. */
export function lines(rows: readonly Row[], fold: boolean, open: ReadonlySet<string>): readonly Line[] {
  if (!fold || !rows.some((row) => row.group !== null)) return rows;
  const groups = new Map<string, Row[]>();
  const result: Line[] = [];
  for (const row of rows) {
    const members = row.group === null ? undefined : groups.get(row.group);
    if (row.group === null) {
      result.push(row);
    } else if (members) {
      members.push(row);
    } else {
      const first = [row];
      groups.set(row.group, first);
      result.push({ group: row.group, rows: first, open: open.has(row.group) });
    }
  }
  if (!result.some((line) => isGroup(line) && line.open)) return result;
  return result.flatMap((line) => (isGroup(line) && line.open ? [line, ...line.rows] : [line]));
}
