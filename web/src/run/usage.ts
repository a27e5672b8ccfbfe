/** Measurements of several replicas on one axis of time. */
import type { UsageSeries } from "../api/client";
import { m } from "../messages";

/** These are told as sums since the start. */
const COUNTERS: ReadonlySet<string> = new Set(["disk_read", "disk_write", "net_received", "net_sent"]);

/** From a sum that grows to so much a second. */
export function rates(at: readonly number[], sums: readonly (number | null)[]): (number | null)[] {
  return sums.map((sum, i) => {
    const before = sums[i - 1];
    const span = (at[i] ?? 0) - (at[i - 1] ?? 0);
    if (i === 0 || sum === null || before === null || before === undefined || span <= 0) return null;
    return Math.max(0, sum - before) / span;
  });
}

export const isMeasured = (series: readonly UsageSeries[], name: string): boolean =>
  series.some((one) => one.values[name]?.some((value) => value !== null));

export function aligned(
  series: readonly UsageSeries[],
  names: readonly { readonly name: string; readonly word: string }[],
) {
  const at = [...new Set(series.flatMap((one) => one.at.map(Math.round)))].sort((a, b) => a - b);
  const place = new Map(at.map((moment, i) => [moment, i]));
  const curves = series.flatMap((one) =>
    names.map(({ name, word }, n) => {
      const values: (number | null)[] = Array(at.length).fill(null);
      const measured = one.values[name] ?? [];
      const drawn = COUNTERS.has(name) ? rates(one.at, measured) : measured;
      one.at.forEach((moment, i) => {
        values[place.get(Math.round(moment)) ?? 0] = drawn[i] ?? null;
      });
      const label = [series.length > 1 || !word ? m.logs.rank(one.rank) : "", word].filter(Boolean).join(" ");
      return { label, values: filled(values), dashed: n > 0 };
    }),
  );
  return { at, curves };
}

/** Replicas are measured at slightly different moments: a short gap is bridged, a long one stays. */
function filled(values: (number | null)[]): (number | null)[] {
  let last: number | null = null;
  let since = 0;
  return values.map((value) => {
    if (value !== null) {
      last = value;
      since = 0;
      return value;
    }
    return last !== null && ++since <= 3 ? last : null;
  });
}
