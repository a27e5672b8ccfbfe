import { useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import { api, ask } from "../api/client";
import { live } from "../api/live";
import { queryOf, type RunFilter } from "./filter";
import { RunPages } from "./pages";

/** Lists that were open of late: who comes back finds them as they were left, and up to date. */
const recent = new Map<string, RunPages>();
const KEPT = 4;

function pagesOf(key: string): RunPages {
  const known = recent.get(key);
  const query = JSON.parse(key) as ReturnType<typeof queryOf>;
  const pages =
    known ??
    new RunPages(
      (cursor, limit) =>
        ask(
          api.GET("/api/v1/runs", { params: { query: { ...query, limit, ...(cursor ? { cursor } : {}) } } }),
        ).then((page) => ({ items: page.items, next: page.next ?? null })),
      (row) => query.state === undefined || query.state.includes(row.state),
      query.sort === undefined,
    );
  recent.delete(key);
  recent.set(key, pages);
  for (const oldest of recent.keys()) {
    if (recent.size <= KEPT) break;
    recent.delete(oldest);
  }
  return pages;
}

/** Asks for the first page before anybody looks: it comes while the rest of the page is made. */
export const beginRuns = (filter: RunFilter): void => pagesOf(JSON.stringify(queryOf(filter))).begin();

export function useRunPages(filter: RunFilter) {
  const key = JSON.stringify(queryOf(filter));
  const pages = useMemo(() => pagesOf(key), [key]);
  useEffect(() => {
    pages.begin();
    const quiet = live.listen((events) => pages.take(events));
    const calm = live.resync(pages.reread);
    const back = live.watchLink(() => live.link === "live" && pages.snapshot().error && pages.reread());
    return () => {
      quiet();
      calm();
      back();
    };
  }, [pages]);
  const now = useSyncExternalStore(pages.subscribe, pages.snapshot);
  // Another list is shown when its first page is there: until then the page holds still.
  const before = useRef(now);
  const waits = now.rows.length === 0 && now.more && !now.error;
  if (!waits) before.current = now;
  return { pages, ...now, rows: waits ? before.current.rows : now.rows, waits };
}
