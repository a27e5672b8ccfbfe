/** A newcomer's first page: what is there already, what comes next, and one press that runs something. */
import { Link, useNavigate } from "@tanstack/react-router";
import { Check, Rocket } from "lucide-react";
import type { ReactNode } from "react";
import { api, ask, type Queue } from "../api/client";
import { useLaunch } from "../launch/address";
import { m } from "../messages";
import { useQueues } from "../queues/queries";
import { mayLaunch, mayManage, useMe } from "../session/me";
import { Button } from "../ui/Button";
import { Command } from "../ui/Copy";
import { Empty, ErrorNote, Skeleton } from "../ui/Notes";
import { complain } from "../ui/Toasts";

const f = m.firstRun;
const EXAMPLE = 'for i in 1 2 3 4 5 6 7 8 9 10; do echo "step $i of 10"; sleep 1; done; echo done';

export function FirstRun() {
  const me = useMe();
  const { data, error, refetch } = useQueues();
  if (error) return <ErrorNote error={error} onRetry={() => void refetch()} />;
  if (!data || !me.data) return <Skeleton />;
  const mine = data.items.filter((queue) => mayLaunch(me.data, queue.entity));
  const served = mine.find((queue) => queue.agents_online > 0);
  const queue = served ?? mine[0];
  if (!mine.length && data.items.length) {
    return (
      <Empty icon={Rocket} title={m.runs.emptyTitle}>
        <p>{f.onlyLook}</p>
      </Empty>
    );
  }
  return (
    <Empty icon={Rocket} title={m.runs.emptyTitle}>
      <ol className="first-steps">
        <Step
          done={queue !== undefined}
          title={f.queue}
          told={queue ? f.queueThere(queue.name) : f.queueHint}
        >
          {queue ? null : <MakeQueue may={mayManage(me.data, me.data.default_entity)} />}
        </Step>
        <Step done={served !== undefined} title={f.agent} told={served ? f.agentThere : f.agentHint}>
          {queue && !served ? <Command text={f.agentCommand(queue.name)} /> : null}
        </Step>
        <Step done={false} title={f.run} told={f.runHint}>
          {served ? <Begin queue={served} /> : null}
        </Step>
      </ol>
    </Empty>
  );
}

function Step({
  done,
  title,
  told,
  children,
}: {
  done: boolean;
  title: string;
  told: string;
  children: ReactNode;
}) {
  return (
    <li className={done ? "done" : ""}>
      <strong>
        {title}
        {done ? (
          <span className="step-done">
            <Check size={14} aria-hidden="true" />
            {f.done}
          </span>
        ) : null}
      </strong>
      <p>{told}</p>
      {children}
    </li>
  );
}

function MakeQueue({ may }: { may: boolean }) {
  if (!may) return <p>{f.queueAsk}</p>;
  return (
    <Link to="/queues" search={{ create: "new" }} className="button primary">
      {f.queueButton}
    </Link>
  );
}

function Begin({ queue }: { queue: Queue }) {
  const navigate = useNavigate();
  const launch = useLaunch();
  const own = () => launch.open({ from: "queue", entity: queue.entity, queue: queue.name });
  const example = async () => {
    try {
      const body = {
        queue: queue.name,
        entity: queue.entity,
        name: "hello",
        command: ["sh", "-c", EXAMPLE],
      };
      const run = await ask(api.POST("/api/v1/launches", { body: body as never }));
      await navigate({ to: "/runs/$runId", params: { runId: run.id }, search: { tab: "logs" } });
    } catch (error) {
      complain(error);
    }
  };
  const needsImage = queue.resource !== "process" && !queue.default_image;
  return (
    <>
      <div className="first-buttons">
        {needsImage ? null : (
          <Button kind="primary" onClick={example}>
            {m.runs.emptyButton}
          </Button>
        )}
        <Button kind={needsImage ? "primary" : "plain"} onClick={own}>
          {f.own}
        </Button>
      </div>
      {needsImage ? null : (
        <>
          <p>{f.terminal}</p>
          <Command text={f.terminalCommand(queue.name)} />
        </>
      )}
    </>
  );
}
