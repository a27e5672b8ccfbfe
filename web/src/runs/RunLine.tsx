import { ChevronRight } from "lucide-react";
import { type MouseEvent, memo, type ReactNode } from "react";
import { m } from "../messages";
import { StateIcon, stateName } from "../ui/StateBadge";
import { Ago, Span } from "../ui/Time";
import type { Column, ColumnKey } from "./columns";
import type { Row } from "./pages";

interface Cell {
  readonly look: string; //: classes
  readonly show: (row: Row) => ReactNode;
}

/** As few elements as there can be: where all rows change at once, each of them costs. */
const CELLS: Record<ColumnKey, Cell> = {
  state: {
    look: "state",
    show: (row) => (
      <>
        <StateIcon state={row.state} />
        {stateName(row.state)}
      </>
    ),
  },
  name: {
    look: "name",
    show: (row) => (
      <>
        {/* Not the router's Link: it listens to every change of the address, and there are many of these. */}
        <a href={`/runs/${row.id}`} className="run-name cut">
          {row.name}
        </a>
        <span className="faint mono run-id">{row.id}</span>
      </>
    ),
  },
  job: { look: "plain cut dim", show: (row) => row.job },
  queue: { look: "plain cut dim", show: (row) => row.queue },
  project: { look: "plain cut dim", show: (row) => row.project },
  author: { look: "plain cut dim", show: (row) => row.author },
  nodes: { look: "plain num dim", show: (row) => (row.nodes > 1 ? row.nodes : "") },
  gpus: { look: "plain num dim", show: (row) => row.gpus || "" },
  created: { look: "plain dim", show: (row) => <Ago at={row.created_at} /> },
  duration: {
    look: "plain",
    show: (row) =>
      row.started_at ? <Span from={row.started_at} to={row.ended_at} /> : <span className="faint">—</span>,
  },
};

interface Props {
  row: Row;
  columns: readonly Column[];
  selected: boolean;
  current: boolean;
  index: number;
  top: number; //: pixels
  onSelect: (id: string, range: boolean) => void;
  onOpen: (id: string) => void;
}

/** Whether a click is to open the run here: not one for a new tab, on a control, or at the end of a selection. */
function opens(event: MouseEvent): boolean {
  const target = event.target as HTMLElement;
  if (target.closest(".check-cell, button") || event.defaultPrevented) return false;
  if (target.closest("a") === null) return !getSelection()?.toString();
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return false;
  event.preventDefault();
  return true;
}

export const RunLine = memo(function RunLine(props: Props) {
  const { row, columns, selected, current, index, top, onSelect, onOpen } = props;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the name in the row is a link; this only widens it
    <div
      role="row"
      tabIndex={-1}
      aria-rowindex={index + 2}
      aria-selected={selected}
      className={`run-line ${selected ? "selected" : ""} ${current ? "current" : ""} ${row.group === null ? "" : "in-group"}`}
      style={{ transform: `translateY(${top}px)` }}
      onClick={(event) => opens(event) && onOpen(row.id)}
    >
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: the box in it has its own key; this only widens it */}
      <div role="gridcell" className="check-cell" onClick={(event) => onSelect(row.id, event.shiftKey)}>
        <input type="checkbox" aria-label={m.runs.select(row.name)} checked={selected} onChange={() => {}} />
      </div>
      {columns.map(({ key, right }) => (
        <div key={key} role="gridcell" className={`cell ${CELLS[key].look} ${right ? "right" : ""}`}>
          {CELLS[key].show(row)}
        </div>
      ))}
    </div>
  );
});

interface GroupProps {
  id: string;
  rows: readonly Row[];
  open: boolean;
  current: boolean;
  columns: readonly Column[];
  index: number;
  top: number; //: pixels
  allSelected: boolean;
  onSelect: (rows: readonly Row[], on: boolean) => void;
  onToggle: (id: string) => void;
}

/** A folded group: how many of its runs are in which state. */
export const GroupLine = memo(function GroupLine(props: GroupProps) {
  const { id, rows, open, current, columns, index, top, allSelected, onSelect, onToggle } = props;
  const first = rows[0];
  const states = new Map<string, number>();
  for (const row of rows) states.set(row.state, (states.get(row.state) ?? 0) + 1);
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      className={`run-line group-line ${current ? "current" : ""}`}
      style={{ transform: `translateY(${top}px)` }}
    >
      <div role="gridcell" className="check-cell">
        <label>
          <span className="hidden-label">{m.runs.select(id)}</span>
          <input
            type="checkbox"
            checked={allSelected}
            onChange={(event) => onSelect(rows, event.target.checked)}
          />
        </label>
      </div>
      <div role="gridcell" className="cell group-cell" style={{ gridColumn: `2 / span ${columns.length}` }}>
        <button
          type="button"
          className="group-toggle"
          aria-expanded={open}
          title={open ? m.runs.fold(id) : m.runs.unfold(id)}
          onClick={() => onToggle(id)}
        >
          <ChevronRight size={14} className={open ? "open" : ""} aria-hidden="true" />
          <span className="hidden-label">{open ? m.runs.fold(id) : m.runs.unfold(id)}</span>
          <strong>{first?.name.replace(/[-_]?\d+$/, "") || m.runs.groupName}</strong>
          <span className="faint mono run-id">{id}</span>
          <span className="dim">{m.runs.group(rows.length)}</span>
        </button>
        <span className="group-states">
          {[...states].map(([state, n]) => (
            <span key={state} className="state" title={m.states[state]}>
              <StateIcon state={state} />
              <span className="num">{n}</span>
              <span className="hidden-label">{m.states[state]}</span>
            </span>
          ))}
        </span>
        <span className="group-end dim">{first ? <Ago at={first.created_at} /> : null}</span>
      </div>
    </div>
  );
});
