import { Activity } from "lucide-react";
import { useMemo } from "react";
import type { Run, UsageSeries } from "../api/client";
import { m } from "../messages";
import { ENDED } from "../runs/filter";
import { bytes } from "../ui/format";
import { Empty, ErrorNote, Skeleton } from "../ui/Notes";
import { Chart } from "./Chart";
import { useUsage } from "./queries";
import { aligned, isMeasured } from "./usage";

const r = m.resources;

interface Plan {
  readonly title: string;
  readonly names: readonly { readonly name: string; readonly word: string }[];
  readonly format: (value: number) => string;
  readonly limit: (run: Run) => number | null;
}

const one = (name: string) => [{ name, word: "" }];
const PLANS: readonly Plan[] = [
  {
    title: `${r.cpu} (${r.cpuUnit})`,
    names: one("cpu"),
    format: (value) => value.toFixed(value < 1 ? 2 : value < 10 ? 1 : 0),
    limit: (run) => (run.resources.millicpus ? run.resources.millicpus / 1000 / run.nodes : null),
  },
  {
    title: r.memory,
    names: one("memory"),
    format: bytes,
    limit: (run) => (run.resources.memory ? run.resources.memory / run.nodes : null),
  },
  {
    title: `${r.gpu} (%)`,
    names: one("gpu"),
    format: (value) => `${Math.round(value * 100)}`,
    limit: () => null,
  },
  { title: r.gpuMemory, names: one("gpu_memory"), format: bytes, limit: () => null },
  { title: r.diskUsed, names: one("disk_used"), format: bytes, limit: () => null },
  {
    title: `${r.disk} (/s)`,
    names: [
      { name: "disk_read", word: r.read },
      { name: "disk_write", word: r.write },
    ],
    format: bytes,
    limit: () => null,
  },
  {
    title: `${r.network} (/s)`,
    names: [
      { name: "net_received", word: r.received },
      { name: "net_sent", word: r.sent },
    ],
    format: bytes,
    limit: () => null,
  },
];

export function ResourcesTab({ run }: { run: Run }) {
  const { data, error, refetch, isPending } = useUsage(run.id, run.attempt, !ENDED.has(run.state));
  const series = useMemo(() => data?.items ?? [], [data]);
  if (error) return <ErrorNote error={error} onRetry={() => void refetch()} />;
  if (isPending && run.attempt > 0) return <Skeleton />;
  const plans = PLANS.filter((plan) => plan.names.some(({ name }) => isMeasured(series, name)));
  if (!plans.length) {
    return (
      <Empty icon={Activity} title={r.emptyTitle}>
        {r.empty}
      </Empty>
    );
  }
  return (
    <div className="charts">
      {plans.map((plan) => (
        <Planned key={plan.title} plan={plan} run={run} series={series} />
      ))}
    </div>
  );
}

function Planned({ plan, run, series }: { plan: Plan; run: Run; series: readonly UsageSeries[] }) {
  const { at, curves } = useMemo(() => aligned(series, plan.names), [series, plan]);
  return (
    <Chart
      title={plan.title}
      at={at}
      curves={curves}
      format={plan.format}
      limit={plan.limit(run)}
      binary={plan.format === bytes}
    />
  );
}
