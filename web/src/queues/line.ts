/** Moving a run along the line. */
export type Beside = { before: string } | { behind: string };

/** The line with one of its members at another place. */
export function moved<T>(items: readonly T[], from: number, to: number): T[] {
  const rest = items.filter((_, i) => i !== from);
  const item = items[from];
  if (item === undefined) return [...items];
  return [...rest.slice(0, to), item, ...rest.slice(to)];
}

/** How to tell the server of it; null: nothing changes. */
export function besideOf(ids: readonly string[], from: number, to: number): Beside | null {
  if (from === to || ids[from] === undefined) return null;
  const rest = ids.filter((_, i) => i !== from);
  const next = rest[to];
  if (next !== undefined) return { before: next };
  const last = rest.at(-1);
  return last === undefined ? null : { behind: last };
}

/** Where it lands when it is dropped on the upper or lower half of a line. */
export function landing(from: number, over: number, lower: boolean): number {
  const gap = lower ? over + 1 : over; // counted with itself still in its place
  return gap > from ? gap - 1 : gap;
}
