import { ListTree } from "lucide-react";
import type { Run, RunEvent } from "../api/client";
import { m } from "../messages";
import { clock, exact } from "../ui/format";
import { Empty, ErrorNote, Skeleton } from "../ui/Notes";
import { StateIcon } from "../ui/StateBadge";
import { useEvents } from "./queries";

const e = m.events;

export function EventsTab({ run }: { run: Run }) {
  const { data, error, refetch } = useEvents(run.id);
  if (error) return <ErrorNote error={error} onRetry={() => void refetch()} />;
  if (!data) return <Skeleton />;
  if (!data.items.length) {
    return (
      <Empty icon={ListTree} title={e.emptyTitle}>
        {e.empty}
      </Empty>
    );
  }
  return (
    <div className="scroll-x">
      <table className="table events" aria-label={e.label}>
        <thead>
          <tr>
            <th scope="col">{e.time}</th>
            <th scope="col">{e.what}</th>
            <th scope="col">{e.by}</th>
            <th scope="col" className="right">
              {e.attempt}
            </th>
          </tr>
        </thead>
        <tbody>
          {data.items.map((event) => (
            <tr key={event.seq}>
              <td className="num dim" title={exact(new Date(event.at))}>
                {clock(new Date(event.at))}
              </td>
              <td>
                <What event={event} />
              </td>
              <td className="dim whole">{event.actor}</td>
              <td className="right num dim">{event.attempt || ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const word = (value: unknown): string => (value === undefined || value === null ? "" : String(value));

/** An event in words. */
export function What({ event }: { event: Pick<RunEvent, "type" | "data" | "attempt"> }) {
  const { type, data } = event;
  const note = word(data.reason) || word(data.message);
  switch (type) {
    case "state":
      return (
        <span className="state">
          <StateIcon state={word(data.to)} />
          {m.states[word(data.to)] ?? word(data.to)}
          {note ? <span className="dim">{note}</span> : null}
        </span>
      );
    case "replica":
      return (
        <span className="dim">
          {e.replica(Number(data.rank), word(data.state))} {note}
        </span>
      );
    case "attempt":
      return (
        <span className="dim">
          {data.end ? e.attemptEnded(event.attempt, word(data.end)) : e.attemptBegan(event.attempt)} {note}
        </span>
      );
    case "lease":
      return <span className="dim">{e.lease(word(data.agent))}</span>;
    case "stop":
      return <span>{e.stop}</span>;
    default:
      return (
        <span className={word(data.level) === "warning" ? "warn" : ""}>{note || JSON.stringify(data)}</span>
      );
  }
}
