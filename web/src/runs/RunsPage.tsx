import { useNavigate, useSearch } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDown, ArrowUp, Filter } from "lucide-react";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { m } from "../messages";
import { useKeys } from "../ui/keys";
import { Empty, ErrorNote, Skeleton } from "../ui/Notes";
import { remember, remembered } from "../ui/theme";
import { BulkBar } from "./BulkBar";
import { type Column, useColumns } from "./columns";
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
import { lines, sorted } from "./layout";
import { PAGE, type Row } from "./pages";
import { GroupLine, RunLine } from "./RunLine";
import { useRunPages } from "./useRunPages";

const ROW = 37;
const ENOUGH_TO_SORT = 1000;
const FOLD = "muster.runs.fold";

export function RunsPage() {
  const navigate = useNavigate();
  const search = useSearch({ strict: false }) as Search;
  const filter = useMemo(() => filterFromSearch(search), [search]);
  const setFilter = useCallback(
    (next: RunFilter) => void navigate({ to: "/runs", search: searchFromFilter(next), replace: true }),
    [navigate],
  );
  const { pages, rows, more, loading, error } = useRunPages(filter);
  const [fold, setFold] = useState(remembered(FOLD) !== "no");
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [cursor, setCursor] = useState(-1);
  const anchor = useRef<string | null>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const searchRef = useRef<HTMLInputElement>(null);
  const columns = useColumns();

  const byTime = filter.sort.by === "created";
  const shown = useMemo(() => {
    const ordered = sorted(rows, filter.sort, Date.now());
    return lines(ordered, fold && filter.group === null, open);
  }, [rows, filter.sort, filter.group, fold, open]);

  const virtual = useVirtualizer({
    count: shown.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 16,
    getItemKey: (index) => {
      const line = shown[index];
      return line === undefined ? index : line.kind === "run" ? line.row.id : `group-${line.id}`;
    },
  });
  const visible = virtual.getVirtualItems();
  const lastVisible = visible.at(-1)?.index ?? -1;
  const wantsMore =
    more &&
    !loading &&
    !error &&
    (lastVisible >= shown.length - 40 || (!byTime && rows.length < ENOUGH_TO_SORT));
  useEffect(() => {
    if (wantsMore) void pages.loadMore();
  }, [wantsMore, pages]);

  const chosen = useMemo(() => rows.filter((row) => selected.has(row.id)), [rows, selected]);
  const select = useCallback(
    (id: string, range: boolean) => {
      const ids = shown.flatMap((line) => (line.kind === "run" ? [line.row.id] : []));
      const from = range && anchor.current ? ids.indexOf(anchor.current) : -1;
      anchor.current = id;
      setSelected((before) => {
        const next = new Set(before);
        const to = ids.indexOf(id);
        if (from >= 0) for (const one of ids.slice(Math.min(from, to), Math.max(from, to) + 1)) next.add(one);
        else if (!next.delete(id)) next.add(id);
        return next;
      });
    },
    [shown],
  );
  const selectRows = useCallback((group: readonly Row[], on: boolean) => {
    setSelected((before) => {
      const next = new Set(before);
      for (const row of group) on ? next.add(row.id) : next.delete(row.id);
      return next;
    });
  }, []);
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
    virtual.scrollToIndex(next);
  };
  const here = shown[cursor];
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    "/": () => searchRef.current?.focus(),
    x: () => here?.kind === "run" && select(here.row.id, false),
    Enter: () => (here?.kind === "run" ? openRun(here.row.id) : here && toggle(here.id)),
    Escape: () => setSelected(new Set()),
  });

  const template = `34px ${columns.map((column) => column.width).join(" ")}`;
  const empty = !loading && !more && rows.length === 0;
  const setFoldKept = (next: boolean) => {
    setFold(next);
    remember(FOLD, next ? null : "no");
  };
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
        rows={rows}
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
        <div
          className="run-list"
          role="grid"
          aria-label={m.runs.listLabel}
          aria-rowcount={more ? -1 : shown.length + 1}
          aria-multiselectable="true"
          ref={scroller}
          tabIndex={-1}
        >
          <Head
            columns={columns}
            template={template}
            sort={filter.sort}
            onSort={(sort) => setFilter({ ...filter, sort })}
            all={rows.length > 0 && chosen.length === rows.length}
            onAll={(on) => setSelected(new Set(on ? rows.map((row) => row.id) : []))}
          />
          {rows.length === 0 && loading ? (
            <div role="row">
              <div role="gridcell">
                <Skeleton rows={10} />
              </div>
            </div>
          ) : null}
          <div role="rowgroup" className="run-rows" style={{ height: virtual.getTotalSize() }}>
            {visible.map(({ index, start, key }) => {
              const line = shown[index];
              if (line === undefined) return null;
              const style = { transform: `translateY(${start}px)`, gridTemplateColumns: template };
              return line.kind === "run" ? (
                <RunLine
                  key={key}
                  row={line.row}
                  columns={columns}
                  inGroup={line.inGroup}
                  selected={selected.has(line.row.id)}
                  current={index === cursor}
                  index={index}
                  style={style}
                  onSelect={select}
                  onOpen={openRun}
                />
              ) : (
                <GroupLine
                  key={key}
                  id={line.id}
                  rows={line.rows}
                  open={line.open}
                  current={index === cursor}
                  columns={columns}
                  index={index}
                  style={style}
                  allSelected={line.rows.every((row) => selected.has(row.id))}
                  onSelect={selectRows}
                  onToggle={toggle}
                />
              );
            })}
          </div>
        </div>
      )}
      {!byTime && more && rows.length >= PAGE ? (
        <p className="list-note dim">{m.runs.sortedPart(rows.length)}</p>
      ) : null}
      {chosen.length ? <BulkBar rows={chosen} pages={pages} onClear={() => setSelected(new Set())} /> : null}
    </div>
  );
}

function Head({
  columns,
  template,
  sort,
  onSort,
  all,
  onAll,
}: {
  columns: readonly Column[];
  template: string;
  sort: Sort;
  onSort: (sort: Sort) => void;
  all: boolean;
  onAll: (on: boolean) => void;
}) {
  return (
    <div role="row" aria-rowindex={1} className="run-head" style={{ gridTemplateColumns: template }}>
      <div role="columnheader" className="check-cell">
        <label>
          <span className="hidden-label">{m.runs.selectAll}</span>
          <input type="checkbox" checked={all} onChange={(event) => onAll(event.target.checked)} />
        </label>
      </div>
      {columns.map(({ key, label, sort: by, right }) => {
        const mine = by === sort.by;
        const down = mine ? !sort.down : by === "created" || by === "duration" || by === "gpus";
        return (
          <div
            key={key}
            role="columnheader"
            className={`cell ${right ? "right" : ""}`}
            aria-sort={mine ? (sort.down ? "descending" : "ascending") : undefined}
          >
            {by ? (
              <button type="button" title={m.runs.sortBy(label)} onClick={() => onSort({ by, down })}>
                {label}
                {mine ? (
                  sort.down ? (
                    <ArrowDown size={12} aria-hidden="true" />
                  ) : (
                    <ArrowUp size={12} aria-hidden="true" />
                  )
                ) : null}
              </button>
            ) : (
              label
            )}
          </div>
        );
      })}
    </div>
  );
}
