import { ChartLine } from "lucide-react";
import { useMemo, useState } from "react";
import type { Queue } from "../api/client";
import { m } from "../messages";
import { Chart } from "../run/Chart";
import { Empty, ErrorNote, Skeleton } from "../ui/Notes";
import { Select } from "../ui/Select";
import { useHistory } from "./queries";

const q = m.queue;
const SPANS = Object.entries(q.spans).map(([value, label]) => ({ value, label }));
const whole = (n: number) => (Number.isInteger(n) ? n.toLocaleString(m.language) : "");

/** How many waited and ran over time. */
export function UsageTab({ queue }: { queue: Queue }) {
  const [hours, setHours] = useState("24");
  const { data, error, refetch } = useHistory({ name: queue.name, entity: queue.entity }, Number(hours));
  const drawn = useMemo(() => {
    if (!data) return null;
    return {
      at: data.at.map((at) => Date.parse(at) / 1000),
      runs: [
        { label: q.chartRunning, values: data.running },
        { label: q.chartWaiting, values: data.waiting },
      ],
      gpus: [{ label: q.chartGpus, values: data.gpus }],
      empty: ![...data.running, ...data.waiting].some(Boolean),
      anyGpus: data.gpus.some(Boolean) || Boolean(queue.gpus_total),
    };
  }, [data, queue.gpus_total]);
  return (
    <div className="queue-usage">
      <Select label={q.chartSpan} value={hours} options={SPANS} onChange={setHours} />
      {error ? <ErrorNote error={error} onRetry={() => void refetch()} /> : null}
      {!drawn && !error ? <Skeleton /> : null}
      {drawn?.empty ? (
        <Empty icon={ChartLine} title={q.chartNoteTitle}>
          {q.chartNote}
        </Empty>
      ) : null}
      {drawn && !drawn.empty ? (
        <div className="charts">
          <Chart
            title={q.chartRuns}
            at={drawn.at}
            curves={drawn.runs}
            format={whole}
            limit={queue.limits?.runs ?? null}
          />
          {drawn.anyGpus ? (
            <Chart
              title={q.chartGpus}
              at={drawn.at}
              curves={drawn.gpus}
              format={whole}
              limit={queue.limits?.gpus ?? queue.gpus_total ?? null}
            />
          ) : null}
        </div>
      ) : null}
      {data && !data.whole ? <p className="dim">{q.chartPart}</p> : null}
    </div>
  );
}
