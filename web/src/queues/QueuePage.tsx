import { Tabs } from "@base-ui/react/tabs";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { ChevronRight } from "lucide-react";
import { lazy, Suspense, useEffect } from "react";
import { ProblemError, type Queue } from "../api/client";
import { m } from "../messages";
import { useKeys } from "../ui/keys";
import { ErrorNote, Skeleton } from "../ui/Notes";
import { ConfigTab } from "./ConfigTab";
import { limitWords } from "./draft";
import { LineTab } from "./LineTab";
import { QueueActions } from "./QueueActions";
import { QueueAgentsTab } from "./QueueAgentsTab";
import { useEntity, useQueue } from "./queries";
import { Standing } from "./Standing";
import { VersionsTab } from "./VersionsTab";
import "../design/queues.css";

const UsageTab = lazy(() => import("./UsageTab").then((module) => ({ default: module.UsageTab })));
const TABS = ["line", "usage", "agents", "config", "versions"] as const;
type Tab = (typeof TABS)[number];

export function QueuePage() {
  const { queueName: name } = useParams({ strict: false }) as { queueName: string };
  const search = useSearch({ strict: false }) as { entity?: string };
  const entity = useEntity(search.entity);
  const { data: queue, error, refetch } = useQueue({ name, entity });
  useEffect(() => {
    document.title = `${name} · ${m.app.name}`;
    return () => {
      document.title = m.app.name;
    };
  }, [name]);
  if (error && !(queue && error instanceof ProblemError && error.problem.status === 0)) {
    return (
      <div className="page">
        <Crumbs name={name} />
        <ErrorNote error={error} onRetry={() => void refetch()} />
      </div>
    );
  }
  if (!queue) {
    return (
      <div className="page">
        <Crumbs name={name} />
        <Skeleton />
      </div>
    );
  }
  return <Loaded queue={queue} />;
}

function Crumbs({ name }: { name: string }) {
  return (
    <nav className="crumbs" aria-label={m.common.back}>
      <Link to="/queues" className="dim">
        {m.queues.title}
      </Link>
      <ChevronRight size={13} aria-hidden="true" />
      <span className="cut">{name}</span>
    </nav>
  );
}

function Loaded({ queue }: { queue: Queue }) {
  const search = useSearch({ strict: false }) as { tab?: string; entity?: string };
  const navigate = useNavigate();
  const tab: Tab = TABS.find((one) => one === search.tab) ?? "line";
  const open = (next: Tab) =>
    void navigate({
      to: "/queues/$queueName",
      params: { queueName: queue.name },
      search: { entity: queue.entity, ...(next === "line" ? {} : { tab: next }) },
      replace: true,
    });
  useKeys(Object.fromEntries(TABS.map((one, i) => [String(i + 1), () => open(one)])));
  return (
    <div className="page run-page">
      <Crumbs name={queue.name} />
      <Head queue={queue} />
      <Tabs.Root value={tab} onValueChange={(next) => open(next as Tab)} className="tabs">
        <Tabs.List className="tab-list" aria-label={m.queue.tabs.label}>
          {TABS.map((one) => (
            <Tabs.Tab key={one} value={one} className="tab">
              {m.queue.tabs[one]}
              {one === "line" && queue.waiting ? (
                <span className="tab-count num">{queue.waiting}</span>
              ) : null}
            </Tabs.Tab>
          ))}
          <Tabs.Indicator className="tab-indicator" renderBeforeHydration={false} />
        </Tabs.List>
        <Tabs.Panel value={tab} className="tab-panel">
          {tab === "line" ? <LineTab queue={queue} /> : null}
          {tab === "usage" ? (
            <Suspense fallback={<Skeleton />}>
              <UsageTab queue={queue} />
            </Suspense>
          ) : null}
          {tab === "agents" ? <QueueAgentsTab queue={queue} /> : null}
          {tab === "config" ? <ConfigTab queue={queue} /> : null}
          {tab === "versions" ? <VersionsTab queue={queue} /> : null}
        </Tabs.Panel>
      </Tabs.Root>
    </div>
  );
}

function Head({ queue }: { queue: Queue }) {
  const limits = limitWords(queue);
  return (
    <div className="run-top">
      <div className="run-title">
        <h1 className="cut">{queue.name}</h1>
        <Standing queue={queue} strong />
        <QueueActions queue={queue} />
      </div>
      <div className="run-facts dim">
        <span>
          {queue.entity}, {queue.resource}
        </span>
        <span className="num">
          {m.queues.running} {queue.running}
        </span>
        <span className="num">
          {m.queues.waiting} {queue.waiting}
        </span>
        <span className="num">
          {m.queues.agents} {queue.agents_online}
        </span>
        <span className="num">
          {m.queues.gpus} {m.queues.gpusOf(queue.gpus_used, queue.gpus_total ?? null)}
        </span>
        {limits ? (
          <span className="num">
            {m.queue.limits} {limits}
          </span>
        ) : null}
        <span>
          {m.overview.version(queue.version)}, {m.queue.createdBy(queue.created_by)}
        </span>
        <Link to="/runs" search={{ queue: queue.name }} className="fact-link">
          {m.queue.runsOf}
        </Link>
      </div>
    </div>
  );
}
