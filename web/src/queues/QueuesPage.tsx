import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Layers, Plus } from "lucide-react";
import { lazy, Suspense } from "react";
import type { Queue } from "../api/client";
import { m } from "../messages";
import { mayManage, useMe } from "../session/me";
import { Button } from "../ui/Button";
import { Empty, ErrorNote, Skeleton } from "../ui/Notes";
import { Span } from "../ui/Time";
import { useQueues } from "./queries";
import { Standing } from "./Standing";
import "../design/queues.css";

const q = m.queues;
const QueueDrawer = lazy(() => import("./QueueDrawer").then((module) => ({ default: module.QueueDrawer })));

export function QueuesPage() {
  const { data, error, refetch } = useQueues();
  const me = useMe();
  const navigate = useNavigate();
  const creating = (useSearch({ strict: false }) as { create?: string }).create !== undefined;
  const open = (now: boolean) => void navigate({ to: "/queues", search: now ? { create: "new" } : {} });
  const may = Object.keys(me.data?.roles ?? {}).some((entity) => mayManage(me.data, entity));
  const button = may ? (
    <Button kind="primary" icon={<Plus size={14} />} onClick={() => open(true)}>
      {q.create}
    </Button>
  ) : null;
  return (
    <div className="page">
      <div className="page-head">
        <h1>{q.title}</h1>
        <div className="run-actions">{button}</div>
      </div>
      {error ? <ErrorNote error={error} onRetry={() => void refetch()} /> : null}
      {!data && !error ? <Skeleton /> : null}
      {data?.items.length === 0 ? (
        <Empty icon={Layers} title={q.emptyTitle}>
          <p>{q.empty}</p>
          {button}
        </Empty>
      ) : null}
      {data?.items.length ? <QueueTable queues={data.items} /> : null}
      {creating ? (
        <Suspense fallback={null}>
          <QueueDrawer onClose={() => open(false)} />
        </Suspense>
      ) : null}
    </div>
  );
}

function QueueTable({ queues }: { queues: readonly Queue[] }) {
  return (
    <div className="scroll-x">
      <table className="table" aria-label={q.label}>
        <thead>
          <tr>
            <th scope="col">{q.name}</th>
            <th scope="col">{q.resource}</th>
            <th scope="col">{q.status}</th>
            <th scope="col" className="right">
              {q.waiting}
            </th>
            <th scope="col" className="right">
              {q.oldest}
            </th>
            <th scope="col" className="right">
              {q.running}
            </th>
            <th scope="col" className="right">
              {q.agents}
            </th>
            <th scope="col" className="right">
              {q.gpus}
            </th>
            <th scope="col" className="right">
              {q.version}
            </th>
          </tr>
        </thead>
        <tbody>
          {queues.map((queue) => (
            <Line key={`${queue.entity}/${queue.name}`} queue={queue} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Line({ queue }: { queue: Queue }) {
  return (
    <tr>
      <td>
        <Link
          to="/queues/$queueName"
          params={{ queueName: queue.name }}
          search={{ entity: queue.entity }}
          className="run-name"
        >
          {queue.name}
        </Link>{" "}
        <span className="faint">{queue.entity}</span>
      </td>
      <td className="dim">{queue.resource}</td>
      <td>
        <Standing queue={queue} />
      </td>
      <td className="right num">{queue.waiting}</td>
      <td className="right dim">
        {queue.oldest_waiting_at ? <Span from={queue.oldest_waiting_at} to={null} /> : m.common.never}
      </td>
      <td className="right num">{queue.running}</td>
      <td className="right num">{queue.agents_online}</td>
      <td className="right num">{q.gpusOf(queue.gpus_used, queue.gpus_total ?? null)}</td>
      <td className="right num dim">{m.overview.version(queue.version)}</td>
    </tr>
  );
}
