import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
  useRouter,
} from "@tanstack/react-router";
import { Compass, TriangleAlert } from "lucide-react";
import { useEffect } from "react";
import { ProblemError } from "./api/client";
import { live } from "./api/live";
import { m } from "./messages";
import { RunsPage } from "./runs/RunsPage";
import { useMe } from "./session/me";
import { SignIn } from "./session/SignIn";
import { Boot } from "./shell/Boot";
import { Shell } from "./shell/Shell";
import { Empty, ErrorNote } from "./ui/Notes";

type Search = { [key: string]: string | undefined };
const words = (search: Record<string, unknown>): Search =>
  Object.fromEntries(Object.entries(search).map(([key, value]) => [key, String(value)]));

const root = createRootRoute({ component: Frame, notFoundComponent: NotFound, errorComponent: Crashed });

function Frame() {
  const me = useMe();
  const signedIn = me.data !== undefined;
  useEffect(() => (signedIn ? live.start() : undefined), [signedIn]);
  if (me.error instanceof ProblemError && me.error.signedOut) return <SignIn />;
  if (me.data) return <Shell me={me.data} />;
  return <Boot>{me.error ? <ErrorNote error={me.error} onRetry={() => void me.refetch()} /> : null}</Boot>;
}

function NotFound() {
  return (
    <Empty icon={Compass} title={m.errors.notFoundTitle} whole>
      <p>{m.errors.notFound}</p>
      <a className="link" href="/runs">
        {m.errors.home}
      </a>
    </Empty>
  );
}

function Crashed({ error }: { error: unknown }) {
  const router = useRouter();
  return (
    <Empty icon={TriangleAlert} title={m.errors.crashed} whole>
      <p>{m.errors.crashedHint}</p>
      <code>{error instanceof Error ? error.message : String(error)}</code>
      <button type="button" className="button primary" onClick={() => void router.invalidate()}>
        {m.errors.reload}
      </button>
    </Empty>
  );
}

const home = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/runs", replace: true });
  },
});
/** As users of W&B type it. */
const launch = createRoute({
  getParentRoute: () => root,
  path: "/launch",
  beforeLoad: () => {
    throw redirect({ to: "/queues", replace: true });
  },
});
const runs = createRoute({
  getParentRoute: () => root,
  path: "/runs",
  validateSearch: words,
  component: RunsPage,
});
const run = createRoute({
  getParentRoute: () => root,
  path: "/runs/$runId",
  validateSearch: words,
  component: lazyRouteComponent(() => import("./run/RunPage"), "RunPage"),
});
const queues = createRoute({
  getParentRoute: () => root,
  path: "/queues",
  validateSearch: words,
  component: lazyRouteComponent(() => import("./queues/QueuesPage"), "QueuesPage"),
});
const queue = createRoute({
  getParentRoute: () => root,
  path: "/queues/$queueName",
  validateSearch: words,
  component: lazyRouteComponent(() => import("./queues/QueuePage"), "QueuePage"),
});
const jobs = createRoute({
  getParentRoute: () => root,
  path: "/jobs",
  validateSearch: words,
  component: lazyRouteComponent(() => import("./jobs/JobsPage"), "JobsPage"),
});
const projectJobs = createRoute({
  getParentRoute: () => root,
  path: "/$entity/$project/jobs",
  validateSearch: words,
  component: lazyRouteComponent(() => import("./jobs/JobsPage"), "JobsPage"),
});
const job = createRoute({
  getParentRoute: () => root,
  path: "/$entity/$project/jobs/$job",
  validateSearch: words,
  component: lazyRouteComponent(() => import("./jobs/JobPage"), "JobPage"),
});
const agents = createRoute({
  getParentRoute: () => root,
  path: "/agents",
  component: lazyRouteComponent(() => import("./agents/AgentsPage"), "AgentsPage"),
});
const agent = createRoute({
  getParentRoute: () => root,
  path: "/agents/$agentName",
  validateSearch: words,
  component: lazyRouteComponent(() => import("./agents/AgentPage"), "AgentPage"),
});
const cluster = createRoute({
  getParentRoute: () => root,
  path: "/cluster",
  component: lazyRouteComponent(() => import("./cluster/ClusterPage"), "ClusterPage"),
});
const settings = createRoute({
  getParentRoute: () => root,
  path: "/settings",
  component: lazyRouteComponent(() => import("./settings/SettingsPage"), "SettingsPage"),
});
const compare = createRoute({
  getParentRoute: () => root,
  path: "/compare",
  validateSearch: words,
  component: lazyRouteComponent(() => import("./compare/ComparePage"), "ComparePage"),
});

export const router = createRouter({
  routeTree: root.addChildren([
    home,
    launch,
    runs,
    run,
    jobs,
    projectJobs,
    job,
    queues,
    queue,
    agents,
    agent,
    cluster,
    settings,
    compare,
  ]),
  defaultPreload: "intent",
  scrollRestoration: false,
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (search) => {
    const given = Object.entries(search).filter(([, value]) => value !== undefined && value !== "");
    const text = new URLSearchParams(given as [string, string][]).toString();
    return text ? `?${text.replaceAll("%2C", ",").replaceAll("%2F", "/").replaceAll("%3A", ":")}` : "";
  },
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
