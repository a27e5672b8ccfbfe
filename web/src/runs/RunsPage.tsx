import { useNavigate, useSearch } from "@tanstack/react-router";
import { Filter } from "lucide-react";
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { m } from "../messages";
import { useKeys } from "../ui/keys";
import { Empty, ErrorNote } from "../ui/Notes";
import { remember, remembered } from "../ui/theme";
import { BulkBar } from "./BulkBar";
import { FilterBar } from "./FilterBar";
import { FirstRun } from "./FirstRun";
import {
  filterFromSearch,
  isNarrowed,
  type RunFilter,
  type Search,
  type Sort,
  searchFromFilter,
} from "./filter";
import { isGroup, lines, sorted } from "./layout";
import type { Row } from "./pages";
import { RunTable, type RunTableHandle } from "./RunTable";
import { useRunPages } from "./useRunPages";

const FOLD = "muster.runs.fold";
const NO_ROWS: readonly Row[] = [];

export function RunsPage() {
  const navigate = useNavigate();
  const search = useSearch({ strict: false }) as Search;
  const filter = useMemo(() => filterFromSearch(search), [search]);
  const setFilter = useCallback(
    (next: RunFilter) => void navigate({ to: "/runs", search: searchFromFilter(next), replace: true }),
    [navigate],
  );
  const onSort = useCallback((sort: Sort) => setFilter({ ...filter, sort }), [setFilter, filter]);
  const { pages, rows, more, loading, error, waits } = useRunPages(filter);
  const [fold, setFold] = useState(remembered(FOLD) !== "no");
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [cursor, setCursor] = useState(-1);
  const anchor = useRef<string | null>(null);
  const table = useRef<RunTableHandle>(null);
  const searchRef = useRef<HTMLInputElement>(null);

  const folds = fold && filter.group === null;
  const shown = useMemo(() => {
    const ordered = sorted(rows, filter.sort, Date.now());
    return lines(ordered, folds, open);
  }, [rows, filter.sort, folds, open]);
  const drawn = useDeferredValue(shown); // in slices: what somebody does meanwhile goes first
  const now = useRef({ shown, rows });
  now.current = { shown, rows };

  // Another list, or another order, begins at its top.
  // biome-ignore lint/correctness/useExhaustiveDependencies: they are when, not what
  useEffect(() => {
    setCursor(-1);
    table.current?.reveal(0);
  }, [pages, filter.sort]);

  const canLoad = more && !loading && !error;
  const onEnd = useCallback(() => {
    if (canLoad) void pages.loadMore();
  }, [canLoad, pages]);

  const chosen = useMemo(
    () => (selected.size ? rows.filter((row) => selected.has(row.id)) : NO_ROWS),
    [rows, selected],
  );
  const select = useCallback((id: string, range: boolean) => {
    const ids = now.current.shown.flatMap((line) => (isGroup(line) ? [] : [line.id]));
    const from = range && anchor.current ? ids.indexOf(anchor.current) : -1;
    anchor.current = id;
    setSelected((before) => {
      const next = new Set(before);
      const to = ids.indexOf(id);
      if (from >= 0) for (const one of ids.slice(Math.min(from, to), Math.max(from, to) + 1)) next.add(one);
      else if (!next.delete(id)) next.add(id);
      return next;
    });
  }, []);
  const selectRows = useCallback((group: readonly Row[], on: boolean) => {
    setSelected((before) => {
      const next = new Set(before);
      for (const row of group) on ? next.add(row.id) : next.delete(row.id);
      return next;
    });
  }, []);
  const selectAll = useCallback(
    (on: boolean) => setSelected(new Set(on ? now.current.rows.map((row) => row.id) : [])),
    [],
  );
  const toggle = useCallback((id: string) => {
    setOpen((before) => {
      const next = new Set(before);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  }, []);
  const openRun = useCallback(
    (id: string) => void navigate({ to: "/runs/$runId", params: { runId: id } }),
    [navigate],
  );
  const move = (step: number) => {
    const next = Math.max(0, Math.min(shown.length - 1, cursor + step));
    setCursor(next);
    table.current?.reveal(next);
  };
  const here = shown[cursor];
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    "/": () => searchRef.current?.focus(),
    x: () => here && !isGroup(here) && select(here.id, false),
    Enter: () => here && (isGroup(here) ? toggle(here.group) : openRun(here.id)),
    Escape: () => setSelected(new Set()),
  });

  const empty = !loading && !more && rows.length === 0;
  const setFoldKept = useCallback((next: boolean) => {
    setFold(next);
    remember(FOLD, next ? null : "no");
  }, []);
  return (
    <div className="page list-page">
      <div className="page-head">
        <h1>{m.runs.title}</h1>
        <span className="faint num" role="status">
          {rows.length ? m.runs.shown(rows.length, more) : ""}
        </span>
      </div>
      <FilterBar
        filter={filter}
        onChange={setFilter}
        projects={useSeen(rows, "project")}
        authors={useSeen(rows, "author")}
        fold={fold}
        onFold={setFoldKept}
        searchRef={searchRef}
      />
      {error ? <ErrorNote error={error} onRetry={() => void pages.loadMore()} /> : null}
      {empty && !error ? (
        isNarrowed(filter) ? (
          <Empty icon={Filter} title={m.runs.noneTitle}>
            {m.runs.none}
          </Empty>
        ) : (
          <FirstRun />
        )
      ) : (
        <RunTable
          lines={drawn}
          more={more}
          loading={rows.length === 0 && loading}
          folds={folds}
          waits={waits}
          sort={filter.sort}
          onSort={onSort}
          selected={selected}
          allSelected={rows.length > 0 && chosen.length === rows.length}
          cursor={cursor}
          onEnd={onEnd}
          onAll={selectAll}
          onSelect={select}
          onSelectRows={selectRows}
          onToggle={toggle}
          onOpen={openRun}
          ref={table}
        />
      )}
      {chosen.length ? <BulkBar rows={chosen} pages={pages} onClear={() => setSelected(new Set())} /> : null}
    </div>
  );
}

const SEEN = 500; //: of the newest runs

/** The words in a column, the same list as long as there are no others. */
function useSeen(rows: readonly Row[], key: "project" | "author"): readonly string[] {
  const words = [...new Set(rows.slice(0, SEEN).map((row) => row[key]))].sort();
  const kept = useRef(words);
  if (words.join("\n") !== kept.current.join("\n")) kept.current = words;
  return kept.current;
}
