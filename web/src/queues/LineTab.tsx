/** What a queue has: what runs, and what waits in the order in which it will start. */
import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { GripVertical, Inbox } from "lucide-react";
import { type DragEvent, useState } from "react";
import { api, ask, type Line, type Queue, type Run } from "../api/client";
import { m } from "../messages";
import { mayLaunch, mayManage, useMe } from "../session/me";
import { Command } from "../ui/Copy";
import { Empty, ErrorNote, Skeleton } from "../ui/Notes";
import { Select } from "../ui/Select";
import { StateBadge } from "../ui/StateBadge";
import { Span } from "../ui/Time";
import { complain } from "../ui/Toasts";
import { besideOf, landing, moved } from "./line";
import { MoveHandle } from "./MoveHandle";
import { RUNNING_SHOWN, useLine, useRunning } from "./queries";

const q = m.queue;
const PRIORITIES = ["critical", "high", "medium", "low"] as const;

export function LineTab({ queue }: { queue: Queue }) {
  const line = useLine({ name: queue.name, entity: queue.entity });
  if (queue.running === 0 && queue.waiting === 0 && !line.data?.items.length) {
    return (
      <Empty icon={Inbox} title={q.idle}>
        <p>{q.emptyLine}</p>
        <Held queue={queue} />
      </Empty>
    );
  }
  return (
    <div className="queue-line">
      <Running queue={queue} />
      <section aria-labelledby="waiting-head">
        <h2 id="waiting-head">{q.waiting(queue.waiting)}</h2>
        <Held queue={queue} />
        {line.error ? <ErrorNote error={line.error} onRetry={() => void line.refetch()} /> : null}
        {!line.data && !line.error ? <Skeleton rows={4} /> : null}
        {line.data?.items.length ? <Waiting queue={queue} line={line.data} /> : null}
      </section>
    </div>
  );
}

/** Why nothing of it starts, if that is so. */
function Held({ queue }: { queue: Queue }) {
  if (queue.paused_at) return <p className="warn">{q.paused}</p>;
  if (queue.agents_online > 0) return null;
  return (
    <div className="held">
      <p className="warn">{q.noAgent}</p>
      <Command text={q.noAgentCommand(queue.name)} />
    </div>
  );
}

function Running({ queue }: { queue: Queue }) {
  const { data, isPending } = useRunning({ name: queue.name, entity: queue.entity });
  const items = data?.items ?? [];
  const coming = isPending ? Math.min(queue.running, RUNNING_SHOWN) : 0; // their room, so that nothing jumps
  return (
    <section aria-labelledby="running-head" aria-busy={isPending}>
      <h2 id="running-head">{q.running(queue.running)}</h2>
      <ul className={items.length || coming ? "queue-runs" : ""}>
        {Array.from({ length: coming }, (_, n) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: they are all alike
          <li key={n} aria-hidden="true" />
        ))}
        {items.map((run) => (
          <li key={run.id}>
            <StateBadge state={run.state} />
            <Link to="/runs/$runId" params={{ runId: run.id }} className="run-name cut">
              {run.name}
            </Link>
            <span className="dim">{run.author}</span>
            <span className="dim num queue-gpus">{run.resources.gpus ? q.gpus(run.resources.gpus) : ""}</span>
            <span className="dim">
              <Span from={run.claimed_at ?? run.created_at} to={null} />
            </span>
          </li>
        ))}
      </ul>
      {queue.running > RUNNING_SHOWN ? (
        <Link to="/runs" search={{ queue: queue.name, state: "running" }} className="link">
          {q.moreRunning}
        </Link>
      ) : null}
    </section>
  );
}

function Waiting({ queue, line }: { queue: Queue; line: Line }) {
  const client = useQueryClient();
  const me = useMe();
  const [dragged, setDragged] = useState<number | null>(null);
  const [over, setOver] = useState<{ at: number; lower: boolean } | null>(null);
  const [told, setTold] = useState("");
  const manages = mayManage(me.data, queue.entity);
  const launches = mayLaunch(me.data, queue.entity) && (queue.priorities || manages);
  const key = ["queues", { name: queue.name, entity: queue.entity }, "line"];
  const ids = line.items.map((run) => run.id);

  const change = async (after: Line, work: () => Promise<unknown>, word: string) => {
    await client.cancelQueries({ queryKey: key });
    client.setQueryData(key, after);
    try {
      await work();
      setTold(word);
    } catch (error) {
      complain(error);
    } finally {
      void client.invalidateQueries({ queryKey: key });
    }
  };
  const place = (run: Run, body: { priority?: Run["priority"]; before?: string; behind?: string }) =>
    ask(api.POST("/api/v1/runs/{run_id}/place", { params: { path: { run_id: run.id } }, body }));
  const move = (from: number, to: number) => {
    const run = line.items[from];
    const beside = besideOf(ids, from, Math.max(0, Math.min(to, ids.length - 1)));
    if (!run || !beside) return;
    const items = moved(line.items, from, to);
    void change({ ...line, items }, () => place(run, beside), q.moved(run.name, items.indexOf(run) + 1));
  };
  const prioritize = (run: Run, priority: Run["priority"]) => {
    const items = line.items.map((one) => (one.id === run.id ? { ...one, priority } : one));
    const word = q.prioritized(run.name, q.priorities[priority]);
    void change({ ...line, items }, () => place(run, { priority }), word);
  };
  const onDragOver = (event: DragEvent, at: number) => {
    if (dragged === null) return;
    event.preventDefault();
    const box = event.currentTarget.getBoundingClientRect();
    setOver({ at, lower: event.clientY > box.top + box.height / 2 });
  };
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    if (dragged !== null && over !== null) move(dragged, landing(dragged, over.at, over.lower));
    setDragged(null);
    setOver(null);
  };
  return (
    <>
      {queue.order === "share" && line.users > 1 && manages ? <p className="dim">{q.share}</p> : null}
      <p className="hidden-label" role="status">
        {told}
      </p>
      <ol className="queue-runs">
        {line.items.map((run, i) => (
          <li
            key={run.id}
            className={[
              dragged === i ? "dragged" : "",
              over?.at === i ? (over.lower ? "drop-below" : "drop-above") : "",
            ].join(" ")}
            draggable={manages}
            onDragStart={(event) => {
              event.dataTransfer.effectAllowed = "move";
              event.dataTransfer.setData("text/plain", run.name);
              setDragged(i);
            }}
            onDragEnd={() => {
              setDragged(null);
              setOver(null);
            }}
            onDragOver={(event) => onDragOver(event, i)}
            onDrop={onDrop}
          >
            {manages ? <GripVertical size={14} className="grip" aria-hidden="true" /> : null}
            <span className="place num dim">{i + 1}</span>
            <Link to="/runs/$runId" params={{ runId: run.id }} className="run-name cut" draggable={false}>
              {run.name}
            </Link>
            <span className="dim">{run.author}</span>
            <span className="dim num queue-gpus">{run.resources.gpus ? q.gpus(run.resources.gpus) : ""}</span>
            <span className="dim">
              <Span from={run.created_at} to={null} />
            </span>
            {launches ? (
              <Select
                label={q.priorityOf(run.name)}
                value={run.priority}
                options={PRIORITIES.map((value) => ({ value, label: q.priorities[value] }))}
                onChange={(next) => next !== run.priority && prioritize(run, next as Run["priority"])}
              />
            ) : (
              <span>{q.priorities[run.priority]}</span>
            )}
            {manages ? (
              <MoveHandle
                name={run.name}
                first={i === 0}
                last={i === ids.length - 1}
                onMove={(where) => move(i, { front: 0, up: i - 1, down: i + 1, end: ids.length - 1 }[where])}
              />
            ) : null}
          </li>
        ))}
      </ol>
      {line.more ? <p className="dim">{q.more(line.more)}</p> : null}
    </>
  );
}
