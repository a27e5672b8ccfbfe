/** A config that was edited as a whole, told as the values at the paths that changed. */
import { isTree, same } from "./inputs";

export interface Differences {
  readonly changes: readonly (readonly [path: string, value: unknown])[];
  readonly removed: readonly string[]; //: a launch replaces values, it takes none away
}

export function differences(before: unknown, after: unknown): Differences {
  const changes: [string, unknown][] = [];
  const removed: string[] = [];
  compare(before, after, "", changes, removed);
  return { changes, removed };
}

function compare(
  before: unknown,
  after: unknown,
  path: string,
  changes: [string, unknown][],
  removed: string[],
): void {
  if (isTree(before) && isTree(after)) {
    for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
      const inner = within(path, key);
      if (!(key in after)) removed.push(inner);
      else if (key in before) compare(before[key], after[key], inner, changes, removed);
      else changes.push([inner, after[key]]);
    }
  } else if (Array.isArray(before) && Array.isArray(after) && before.length === after.length) {
    before.forEach((item: unknown, i) => {
      compare(item, after[i], `${path}${step(item, after[i], i)}`, changes, removed);
    });
  } else if (!same(before, after)) changes.push([path, after]);
}

const PLAIN = /^[A-Za-z_$][\w$-]*$/;
const within = (path: string, key: string): string =>
  PLAIN.test(key) ? `${path}${path ? "." : ""}${key}` : `${path}[${JSON.stringify(key)}]`;

function step(before: unknown, after: unknown, place: number): string {
  const name = isTree(before) ? before.name : undefined;
  const stays = typeof name === "string" && isTree(after) && after.name === name && PLAIN.test(name);
  return stays ? `[name=${name}]` : `[${place}]`;
}
