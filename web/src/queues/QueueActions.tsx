import { Menu } from "@base-ui/react/menu";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Droplets, Ellipsis, Pause, Pencil, Play, Trash2 } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { api, ask, type Queue } from "../api/client";
import { m } from "../messages";
import { mayManage, useMe } from "../session/me";
import { Button } from "../ui/Button";
import { Confirm } from "../ui/Confirm";
import { complain, say } from "../ui/Toasts";

const QueueDrawer = lazy(() => import("./QueueDrawer").then((module) => ({ default: module.QueueDrawer })));

type Deed = "edit" | "drain" | "delete";

/** What the owners of a queue may do with it. */
export function QueueActions({ queue }: { queue: Queue }) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const me = useMe();
  const [deed, setDeed] = useState<Deed | null>(null);
  const [busy, setBusy] = useState(false);
  if (!mayManage(me.data, queue.entity)) return null;
  const { name, entity } = queue;
  const params = { path: { name }, query: { entity } };
  const shut = queue.paused_at !== null || queue.draining_at !== null;
  const done = (newer: Queue, word: string) => {
    client.setQueryData(["queues", { name, entity }], newer);
    say(word);
  };
  const toggle = async () => {
    setBusy(true);
    try {
      if (shut)
        done(await ask(api.POST("/api/v1/queues/{name}/resume", { params })), m.queue.resumeDone(name));
      else done(await ask(api.POST("/api/v1/queues/{name}/pause", { params })), m.queue.pauseDone(name));
    } catch (error) {
      complain(error);
    } finally {
      setBusy(false);
    }
  };
  const drain = async () =>
    done(await ask(api.POST("/api/v1/queues/{name}/drain", { params })), m.queue.drainDone(name));
  const remove = async () => {
    await ask(api.DELETE("/api/v1/queues/{name}", { params }));
    await navigate({ to: "/queues" });
    client.removeQueries({ queryKey: ["queues", { name, entity }] });
    void client.invalidateQueries({ queryKey: ["queues"] });
    say(m.queue.deleteDone(name));
  };
  return (
    <div className="run-actions">
      <Button icon={<Pencil size={13} />} onClick={() => setDeed("edit")}>
        {m.queue.edit}
      </Button>
      <Button icon={shut ? <Play size={13} /> : <Pause size={13} />} onClick={toggle} disabled={busy}>
        {shut ? m.queue.resume : m.queue.pause}
      </Button>
      <Menu.Root>
        <Menu.Trigger
          render={
            <Button icon={<Ellipsis size={15} />} aria-label={m.queue.actions} title={m.queue.actions} />
          }
        />
        <Menu.Portal>
          <Menu.Positioner align="end" sideOffset={4} className="positioner">
            <Menu.Popup className="menu">
              <Menu.Item
                className="menu-item"
                disabled={queue.draining_at !== null}
                onClick={() => setDeed("drain")}
              >
                <Droplets size={14} aria-hidden="true" />
                {m.queue.drain}
              </Menu.Item>
              <Menu.Item className="menu-item" onClick={() => setDeed("delete")}>
                <Trash2 size={14} aria-hidden="true" />
                {m.queue.delete}
              </Menu.Item>
            </Menu.Popup>
          </Menu.Positioner>
        </Menu.Portal>
      </Menu.Root>
      <Confirm
        open={deed === "drain"}
        onClose={() => setDeed(null)}
        title={m.queue.drainTitle(name)}
        action={m.queue.drain}
        onConfirm={drain}
      >
        <p>{m.queue.drainBody}</p>
      </Confirm>
      <Confirm
        open={deed === "delete"}
        onClose={() => setDeed(null)}
        title={m.queue.deleteTitle(name)}
        action={m.queue.delete}
        danger
        onConfirm={remove}
      >
        <dl>
          <dt>{m.queue.deleteLost}</dt>
          <dd>{m.queue.deleteLostList}</dd>
          <dt>{m.queue.deleteKept}</dt>
          <dd>{m.queue.deleteKeptList}</dd>
        </dl>
        <p>{m.queue.deleteRuns}</p>
      </Confirm>
      {deed === "edit" ? (
        <Suspense fallback={null}>
          <QueueDrawer queue={queue} onClose={() => setDeed(null)} />
        </Suspense>
      ) : null}
    </div>
  );
}
