/** The grid of runs: a head that stays, and below it only the rows in sight. */
import { ArrowDown, ArrowUp } from "lucide-react";
import { type CSSProperties, memo, type Ref, useEffect, useImperativeHandle, useMemo, useRef } from "react";
import { m } from "../messages";
import { Skeleton } from "../ui/Notes";
import { type Column, tracks, useColumns } from "./columns";
import type { Sort } from "./filter";
import { isGroup, type Line } from "./layout";
import type { Row } from "./pages";
import { GroupLine, RunLine } from "./RunLine";
import { useRowWindow } from "./useRowWindow";

const SIZES = { row: 37, head: 30 }; //: pixels, as in runs.css
const AHEAD = 50; //: rows below the last one drawn, when the next page is asked for

interface Props {
  lines: readonly Line[];
  more: boolean;
  loading: boolean; //: nothing is there yet
  folds: boolean;
  waits: boolean; //: what is shown is of the filter before
  sort: Sort;
  onSort: (sort: Sort) => void;
  selected: ReadonlySet<string>;
  allSelected: boolean;
  cursor: number;
  onEnd: () => void;
  onAll: (on: boolean) => void;
  onSelect: (id: string, range: boolean) => void;
  onSelectRows: (rows: readonly Row[], on: boolean) => void;
  onToggle: (group: string) => void;
  onOpen: (id: string) => void;
  ref: Ref<RunTableHandle>;
}

export interface RunTableHandle {
  /** Brings a line into sight. */
  reveal(index: number): void;
}

export const RunTable = memo(function RunTable(props: Props) {
  const { lines, more, loading, waits, sort, selected, cursor, onEnd, onSelect, onOpen, ref } = props;
  const columns = useColumns();
  const scroller = useRef<HTMLDivElement>(null);
  const { window, reveal } = useRowWindow(scroller, lines.length, SIZES);
  useImperativeHandle(ref, () => ({ reveal }), [reveal]);
  const nearEnd = window.to >= lines.length - AHEAD;
  useEffect(() => {
    if (nearEnd) onEnd();
  }, [nearEnd, onEnd]);
  const style = useMemo(() => {
    const { template, least } = tracks(columns);
    return { "--tracks": template, "--least": `${least}px` } as CSSProperties;
  }, [columns]);
  return (
    <div
      className={`run-list ${waits ? "waits" : ""} ${props.folds ? "folds" : ""}`}
      role="grid"
      aria-label={m.runs.listLabel}
      aria-rowcount={more ? -1 : lines.length + 1}
      aria-multiselectable="true"
      aria-busy={waits}
      ref={scroller}
      style={style}
      tabIndex={-1}
    >
      <Head columns={columns} sort={sort} onSort={props.onSort} all={props.allSelected} onAll={props.onAll} />
      {loading ? (
        <div role="row">
          <div role="gridcell">
            <Skeleton rows={10} />
          </div>
        </div>
      ) : null}
      <div role="rowgroup" className="run-rows" style={{ height: lines.length * SIZES.row }}>
        {lines.slice(window.from, window.to).map((line, n) => {
          const index = window.from + n;
          const place = { columns, index, top: index * SIZES.row, current: index === cursor };
          return isGroup(line) ? (
            <GroupLine
              key={`group-${line.group}`}
              id={line.group}
              rows={line.rows}
              open={line.open}
              allSelected={line.rows.every((row) => selected.has(row.id))}
              onSelect={props.onSelectRows}
              onToggle={props.onToggle}
              {...place}
            />
          ) : (
            <RunLine
              key={line.id}
              row={line}
              selected={selected.has(line.id)}
              onSelect={onSelect}
              onOpen={onOpen}
              {...place}
            />
          );
        })}
      </div>
    </div>
  );
});

function Head({
  columns,
  sort,
  onSort,
  all,
  onAll,
}: {
  columns: readonly Column[];
  sort: Sort;
  onSort: (sort: Sort) => void;
  all: boolean;
  onAll: (on: boolean) => void;
}) {
  return (
    <div role="row" aria-rowindex={1} className="run-head">
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
