import { Tabs } from "@base-ui/react/tabs";
import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { ChevronRight, CopyPlus, RotateCw, Square, Trash2 } from "lucide-react";
import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { api, ask, ProblemError, type Run } from "../api/client";
import { useLaunch } from "../launch/address";
import { LogsTab } from "../logs/LogsTab";
import { m } from "../messages";
import { ENDED } from "../runs/filter";
import { mayLaunch, useMe } from "../session/me";
import { Button } from "../ui/Button";
import { Confirm } from "../ui/Confirm";
import { CopyButton } from "../ui/Copy";
import { relative } from "../ui/format";
import { useKeys } from "../ui/keys";
import { ErrorNote, Skeleton } from "../ui/Notes";
import { StateBadge } from "../ui/StateBadge";
import { Ago, Span } from "../ui/Time";
import { say } from "../ui/Toasts";
import { EventsTab } from "./EventsTab";
import { ManifestTab } from "./ManifestTab";
import { Overview } from "./Overview";
import { useReplicas, useRun, useWhy } from "./queries";
import { ReplicasTab } from "./ReplicasTab";

const ResourcesTab = lazy(() =>
  import("./ResourcesTab").then((module) => ({ default: module.ResourcesTab })),
);
const TABS = ["overview", "replicas", "logs", "resources", "events", "manifest"] as const;
type Tab = (typeof TABS)[number];

export function RunPage() {
  const { runId } = useParams({ strict: false }) as { runId: string };
  const { data: run, error, refetch } = useRun(runId);
  useEffect(() => {
    document.title = run ? `${run.name} · ${m.app.name}` : m.app.name;
    return () => {
      document.title = m.app.name;
    };
  }, [run]);
  if (error && !(run && error instanceof ProblemError && error.problem.status === 0)) {
    return (
      <div className="page">
        <Crumbs />
        <h1 className="cut">{runId}</h1>
        <ErrorNote error={error} onRetry={() => void refetch()} />
      </div>
    );
  }
  if (!run) {
    return (
      <div className="page">
        <Crumbs />
        <h1 className="hidden-label">{runId}</h1>
        <Skeleton />
      </div>
    );
  }
  return <Loaded run={run} />;
}

function Crumbs({ name }: { name?: string }) {
  return (
    <nav className="crumbs" aria-label={m.common.back}>
      <Link to="/runs" className="dim">
        {m.run.breadcrumb}
      </Link>
      <ChevronRight size={13} aria-hidden="true" />
      <span className="cut">{name}</span>
    </nav>
  );
}

function Loaded({ run }: { run: Run }) {
  const search = useSearch({ strict: false }) as { tab?: string };
  const navigate = useNavigate();
  const tab: Tab = TABS.find((one) => one === search.tab) ?? "overview";
  const replicas = useReplicas(run.id, run.attempt);
  const ranks = (replicas.data?.items ?? []).map((replica) => replica.rank);
  const open = (next: Tab) =>
    void navigate({
      to: "/runs/$runId",
      params: { runId: run.id },
      search: next === "overview" ? {} : { tab: next },
      replace: true,
    });
  const tabs = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const [list, chosen] = [tabs.current, tabs.current?.children[TABS.indexOf(tab)]];
    if (!list || !(chosen instanceof HTMLElement)) return;
    list.scrollLeft = chosen.offsetLeft - (list.clientWidth - chosen.offsetWidth) / 2; // on narrow screens
  }, [tab]);
  useKeys(Object.fromEntries(TABS.map((one, i) => [String(i + 1), () => open(one)])));
  return (
    <div className="page run-page">
      <Crumbs name={run.name} />
      <Head run={run} />
      <Tabs.Root value={tab} onValueChange={(next) => open(next as Tab)} className="tabs">
        <Tabs.List ref={tabs} className="tab-list" aria-label={m.run.tabs.label}>
          {TABS.map((one) => (
            <Tabs.Tab key={one} value={one} className="tab">
              {m.run.tabs[one]}
              {one === "replicas" && run.nodes > 1 ? (
                <span className="tab-count num">{run.nodes}</span>
              ) : null}
            </Tabs.Tab>
          ))}
          <Tabs.Indicator className="tab-indicator" renderBeforeHydration={false} />
        </Tabs.List>
        <Tabs.Panel value={tab} className={`tab-panel of-${tab}`}>
          {tab === "overview" ? <Overview run={run} /> : null}
          {tab === "replicas" ? <ReplicasTab run={run} /> : null}
          {tab === "logs" ? <LogsTab run={run} ranks={ranks} /> : null}
          {tab === "resources" ? (
            <Suspense fallback={<Skeleton />}>
              <ResourcesTab run={run} />
            </Suspense>
          ) : null}
          {tab === "events" ? <EventsTab run={run} /> : null}
          {tab === "manifest" ? <ManifestTab run={run} /> : null}
        </Tabs.Panel>
      </Tabs.Root>
    </div>
  );
}

function Head({ run }: { run: Run }) {
  const waits = run.state === "queued";
  return (
    <div className="run-top">
      <div className="run-title">
        <h1 className="cut">{run.name}</h1>
        <StateBadge state={run.state} strong />
        <Actions run={run} />
      </div>
      <div className="run-facts dim">
        <span className="mono run-id-copy">
          {run.id}
          <CopyButton text={run.id} label={m.run.copyId} />
        </span>
        {waits ? <Waiting run={run} /> : null}
        {run.started_at ? (
          <span>
            {run.ended_at ? m.run.ran : m.run.runningFor} <Span from={run.started_at} to={run.ended_at} />
          </span>
        ) : null}
        <Link
          to="/queues/$queueName"
          params={{ queueName: run.queue }}
          search={{ entity: run.entity }}
          className="fact-link"
          title={m.overview.queue}
        >
          {run.queue}
        </Link>
        <Link to="/runs" search={{ project: run.project }} className="fact-link">
          {run.entity}/{run.project}
        </Link>
        <span>
          {run.author}, <Ago at={run.created_at} />
        </span>
        {run.attempt > 1 ? <span>{m.run.attempt(run.attempt)}</span> : null}
        {run.rerun_of ? (
          <span>
            {m.run.rerunOf}{" "}
            <Link to="/runs/$runId" params={{ runId: run.rerun_of }} className="link mono">
              {run.rerun_of}
            </Link>
          </span>
        ) : null}
      </div>
    </div>
  );
}

function Waiting({ run }: { run: Run }) {
  const { data: why } = useWhy(run.id);
  return (
    <>
      <span>
        {m.run.waitingFor} <Span from={run.created_at} to={null} />
      </span>
      {why?.place ? <span className="num">{m.run.place(why.place)}</span> : null}
      {why?.eta ? <span>{eta(new Date(why.eta))}</span> : null}
    </>
  );
}

const eta = (at: Date): string =>
  at.getTime() - Date.now() < 15_000 ? m.run.soon : m.run.eta(relative(at, new Date()));

type Deed = "stop" | "rerun" | "delete";

function Actions({ run }: { run: Run }) {
  const navigate = useNavigate();
  const client = useQueryClient();
  const me = useMe();
  const launch = useLaunch();
  const [deed, setDeed] = useState<Deed | null>(null);
  const ended = ENDED.has(run.state);
  if (!mayLaunch(me.data, run.entity)) return null;
  const params = { path: { run_id: run.id } };
  const again = async () => {
    const made = await ask(api.POST("/api/v1/runs/{run_id}/rerun", { params, body: {} as never }));
    say(m.run.rerunDone);
    await navigate({ to: "/runs/$runId", params: { runId: made.id } });
  };
  const stop = async () => {
    client.setQueryData(["run", run.id], await ask(api.POST("/api/v1/runs/{run_id}/stop", { params })));
    say(m.run.stopAsked);
  };
  const remove = async () => {
    await ask(api.DELETE("/api/v1/runs/{run_id}", { params }));
    await navigate({ to: "/runs" });
    client.removeQueries({ queryKey: ["run", run.id] });
    say(m.run.deleteDone);
  };
  return (
    <div className="run-actions">
      {ended ? null : (
        <Button
          icon={<Square size={13} />}
          onClick={() => setDeed("stop")}
          disabled={run.state === "stopping"}
        >
          {m.run.stop}
        </Button>
      )}
      <Button icon={<RotateCw size={13} />} onClick={() => setDeed("rerun")}>
        {m.run.rerun}
      </Button>
      <Button
        icon={<CopyPlus size={13} />}
        title={m.launch.cloneHint}
        onClick={() => launch.open({ from: "run", run: run.id })}
      >
        {m.launch.clone}
      </Button>
      {ended ? (
        <Button
          icon={<Trash2 size={13} />}
          onClick={() => setDeed("delete")}
          aria-label={m.run.delete}
          title={m.run.delete}
        />
      ) : null}
      <Confirm
        open={deed === "stop"}
        onClose={() => setDeed(null)}
        title={m.run.stopTitle}
        action={m.run.stop}
        danger
        onConfirm={stop}
      >
        <p>{run.state === "queued" ? m.run.stopQueued : m.run.stopLive}</p>
      </Confirm>
      <Confirm
        open={deed === "rerun"}
        onClose={() => setDeed(null)}
        title={m.run.rerunTitle}
        action={m.run.rerun}
        onConfirm={again}
      >
        <p>{m.run.rerunBody}</p>
      </Confirm>
      <Confirm
        open={deed === "delete"}
        onClose={() => setDeed(null)}
        title={m.run.deleteTitle}
        action={m.run.delete}
        danger
        onConfirm={remove}
      >
        <dl>
          <dt>{m.run.deleteLost}</dt>
          <dd>{m.run.deleteLostList}</dd>
          <dt>{m.run.deleteKept}</dt>
          <dd>{m.run.deleteKeptList}</dd>
        </dl>
      </Confirm>
    </div>
  );
}
