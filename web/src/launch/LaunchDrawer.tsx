/** Launching something: a drawer over whatever page one is on, with an address of its own. */
import { Dialog } from "@base-ui/react/dialog";
import { useQuery } from "@tanstack/react-query";
import { Layers, Lock, X } from "lucide-react";
import type { ReactNode } from "react";
import { api, ask, type JobVersion, type Me, type Queue, type Run } from "../api/client";
import "../design/launch.css";
import { m } from "../messages";
import { useRun } from "../run/queries";
import { mayLaunch } from "../session/me";
import { Command } from "../ui/Copy";
import { Empty, ErrorNote, Skeleton } from "../ui/Notes";
import { type Begin, launchOpener, readBegin } from "./address";
import { baseOfRun, type Draft, EMPTY, withRun } from "./draft";
import { firstField, LaunchForm } from "./LaunchForm";
import { useQueues } from "./queries";

const l = m.launch;

/** `text`: what the address says; null: the drawer is closed. */
export function LaunchDrawer({ text, me, onClose }: { text: string | null; me: Me; onClose: () => void }) {
  return (
    <Dialog.Root open={text !== null} onOpenChange={(next) => !next && onClose()} disablePointerDismissal>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup
          className="launch-drawer"
          initialFocus={() => firstField() ?? true}
          finalFocus={() => launchOpener() ?? true}
        >
          {text === null ? null : <Loaded key={text} begin={readBegin(text)} me={me} />}
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

/** The drawer's head; what is in it says the rest. */
function Head({ title, lead }: { title: string; lead?: ReactNode }) {
  return (
    <header className="launch-head">
      <div>
        <Dialog.Title className="launch-title">{title}</Dialog.Title>
        {lead ? <Dialog.Description className="dim">{lead}</Dialog.Description> : null}
      </div>
      <Dialog.Close className="button ghost icon-only" aria-label={m.common.close}>
        <X size={16} />
      </Dialog.Close>
    </header>
  );
}

function Loaded({ begin, me }: { begin: Begin; me: Me }) {
  const queues = useQueues();
  const items = (queues.data?.items ?? []).filter((queue) => mayLaunch(me, queue.entity));
  if (queues.error) return <Note error={queues.error} />;
  if (!queues.data) return <Note />;
  if (!items.length) return <Nowhere me={me} seen={queues.data.items[0]?.entity} />;
  if (begin.from === "run") return <OfRun id={begin.run} queues={items} me={me} />;
  const draft = draftOf(begin, items, me);
  return (
    <>
      <Head title={l.title} />
      <LaunchForm initial={draft} queues={items} me={me} run={null} />
    </>
  );
}

function Note({ error }: { error?: unknown }) {
  return (
    <>
      <Head title={l.title} />
      <div className="launch-note">{error ? <ErrorNote error={error} /> : <Skeleton rows={8} />}</div>
    </>
  );
}

/** `seen`: somebody whose queues one may look at. */
function Nowhere({ me, seen }: { me: Me; seen: string | undefined }) {
  return (
    <>
      <Head title={l.title} />
      {seen !== undefined ? (
        <Empty icon={Lock} title={l.notAllowedTitle}>
          <p>{l.notAllowed}</p>
          <Command text={l.notAllowedCommand(seen, me.name)} />
        </Empty>
      ) : (
        <Empty icon={Layers} title={l.noQueueTitle}>
          <p>{l.noQueue}</p>
          <Command text={l.noQueueCommand} />
        </Empty>
      )}
    </>
  );
}

function draftOf(begin: Exclude<Begin, { from: "run" }>, queues: readonly Queue[], me: Me): Draft {
  const entity =
    begin.from !== "new" && queues.some((queue) => queue.entity === begin.entity)
      ? begin.entity
      : (queues.find((queue) => queue.entity === me.default_entity) ?? queues[0])?.entity;
  const own = queues.filter((queue) => queue.entity === entity);
  const open = own.filter((queue) => !queue.draining_at);
  const first = open.find((queue) => queue.name === "local") ?? open[0] ?? own[0];
  const draft = { ...EMPTY, entity: entity ?? "", queue: first?.name ?? "" };
  if (begin.from === "queue") return { ...draft, queue: begin.queue };
  if (begin.from === "job") {
    const { project, job, version } = begin;
    return { ...draft, source: "job", job: `${project}/${job}`, project, version };
  }
  return draft;
}

/** A rerun with changes begins from the run, and from what its job declares. */
function OfRun({ id, queues, me }: { id: string; queues: readonly Queue[]; me: Me }) {
  const run = useRun(id);
  const version = useVersionOf(run.data);
  if (run.error) return <Note error={run.error} />;
  if (!run.data || version === undefined) return <Note />;
  const base = baseOfRun(run.data, version);
  return (
    <>
      <Head title={l.titleRun(run.data.name)} lead={l.leadRun} />
      <LaunchForm
        initial={withRun(EMPTY, run.data, base)}
        queues={queues}
        me={me}
        run={{ run: run.data, base }}
      />
    </>
  );
}

/** The version of its job; null where there is none any more, undefined while it is looked up. */
function useVersionOf(run: Run | undefined): JobVersion | null | undefined {
  const name = run?.job?.name ?? "";
  const found = useQuery({
    queryKey: ["jobs", "version", run?.entity, run?.project, name, `v${run?.job?.version}`],
    enabled: name !== "",
    retry: false,
    queryFn: () =>
      ask(
        api.GET("/api/v1/jobs/{name}/versions/{version}", {
          params: {
            path: { name, version: `v${run?.job?.version}` },
            query: { entity: run?.entity ?? null, project: run?.project ?? null },
          },
        }),
      ),
  });
  if (run === undefined) return undefined;
  if (!name || found.error) return null;
  return found.data;
}
