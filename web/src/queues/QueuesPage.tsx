import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Layers } from "lucide-react";
import { api, ask, type Queue } from "../api/client";
import { m } from "../messages";
import { Empty, ErrorNote, Skeleton } from "../ui/Notes";

const q = m.queues;

export function QueuesPage() {
  const { data, error, refetch } = useQuery({
    queryKey: ["queues"],
    queryFn: () => ask(api.GET("/api/v1/queues")),
  });
  return (
    <div className="page">
      <div className="page-head">
        <h1>{q.title}</h1>
      </div>
      {error ? <ErrorNote error={error} onRetry={() => void refetch()} /> : null}
      {!data && !error ? <Skeleton /> : null}
      {data?.items.length === 0 ? (
        <Empty icon={Layers} title={q.emptyTitle}>
          {q.empty}
        </Empty>
      ) : null}
      {data?.items.length ? (
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
                  {q.running}
                </th>
                <th scope="col" className="right">
                  {q.agents}
                </th>
                <th scope="col" className="right">
                  {q.version}
                </th>
              </tr>
            </thead>
            <tbody>
              {data.items.map((queue) => (
                <Line key={`${queue.entity}/${queue.name}`} queue={queue} />
              ))}
            </tbody>
          </table>
        </div>
      ) : null}
    </div>
  );
}

function Line({ queue }: { queue: Queue }) {
  return (
    <tr>
      <td>
        <Link to="/runs" search={{ queue: queue.name }} className="run-name">
          {queue.name}
        </Link>{" "}
        <span className="faint">{queue.entity}</span>
      </td>
      <td className="dim">{queue.resource}</td>
      <td>
        <Standing queue={queue} />
      </td>
      <td className="right num">{queue.waiting}</td>
      <td className="right num">{queue.running}</td>
      <td className="right num">{queue.agents_online}</td>
      <td className="right num dim">{m.overview.version(queue.version)}</td>
    </tr>
  );
}

function Standing({ queue }: { queue: Queue }) {
  if (queue.paused_at) return <span className="warn">{q.paused}</span>;
  if (queue.draining_at) return <span className="warn">{q.draining}</span>;
  if (queue.agents_online === 0) return <span className="warn">{q.noAgent}</span>;
  return <span className="dim">{q.open}</span>;
}
