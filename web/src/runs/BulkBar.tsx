import { useNavigate } from "@tanstack/react-router";
import { GitCompareArrows, RotateCw, Square, Trash2, X } from "lucide-react";
import { useState } from "react";
import { api, ask } from "../api/client";
import { m } from "../messages";
import { mayLaunch, useMe } from "../session/me";
import { Button } from "../ui/Button";
import { Confirm } from "../ui/Confirm";
import { complain, say } from "../ui/Toasts";
import { ENDED } from "./filter";
import type { Row, RunPages } from "./pages";

const AT_ONCE = 6; //: requests

/** Does `work` for each, a few at a time; how many worked, and the first error. */
export async function forEach<T>(
  items: readonly T[],
  work: (item: T) => Promise<unknown>,
  onStep: (done: number) => void,
) {
  const waiting = [...items];
  let done = 0;
  let error: unknown = null;
  let failed = 0;
  const worker = async () => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) {
      try {
        await work(item);
        onStep(++done);
      } catch (problem) {
        failed++;
        error ??= problem;
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return { done, failed, error };
}

type Deed = "stop" | "rerun" | "delete";

export function BulkBar({
  rows,
  pages,
  onClear,
}: {
  rows: readonly Row[];
  pages: RunPages;
  onClear: () => void;
}) {
  const navigate = useNavigate();
  const [deed, setDeed] = useState<Deed | null>(null);
  const [progress, setProgress] = useState(0);
  const me = useMe();
  const mine = rows.filter((row) => mayLaunch(me.data, row.entity));
  const live = mine.filter((row) => !ENDED.has(row.state));
  const ended = mine.filter((row) => ENDED.has(row.state));
  const b = m.bulk;
  const of = { stop: live, rerun: mine, delete: ended };
  const run = async (which: Deed) => {
    setProgress(0);
    const calls = {
      stop: (row: Row) => ask(api.POST("/api/v1/runs/{run_id}/stop", path(row))),
      rerun: (row: Row) => ask(api.POST("/api/v1/runs/{run_id}/rerun", { ...path(row), body: {} as never })),
      delete: (row: Row) => ask(api.DELETE("/api/v1/runs/{run_id}", path(row))),
    };
    const { done, failed, error } = await forEach(
      of[which],
      calls[which] as (row: Row) => Promise<unknown>,
      setProgress,
    );
    if (which === "delete") pages.refresh();
    if (done) say({ stop: b.stopped, rerun: b.rerunDone, delete: b.deleted }[which](done));
    if (failed) complain(error);
    if (which === "delete" && !failed) pages.drop(new Set(of.delete.map((row) => row.id)));
    onClear();
  };
  const title = { stop: b.stopTitle, rerun: b.rerunTitle, delete: b.deleteTitle };
  const text = { stop: b.stop, rerun: b.rerun, delete: b.delete };
  const left = deed === "stop" ? ended.length : deed === "delete" ? live.length : 0;
  return (
    <div className="bulk-bar" role="toolbar" aria-label={m.runs.selected(rows.length)}>
      <strong className="num">{m.runs.selected(rows.length)}</strong>
      {mine.length ? (
        <>
          <Button icon={<Square size={13} />} disabled={!live.length} onClick={() => setDeed("stop")}>
            {m.runs.stop}
          </Button>
          <Button icon={<RotateCw size={13} />} onClick={() => setDeed("rerun")}>
            {m.runs.rerun}
          </Button>
        </>
      ) : null}
      <Button
        icon={<GitCompareArrows size={13} />}
        disabled={rows.length < 2}
        onClick={() => navigate({ to: "/compare", search: { runs: rows.map((row) => row.id).join(",") } })}
      >
        {m.runs.compare}
      </Button>
      {mine.length ? (
        <Button icon={<Trash2 size={13} />} disabled={!ended.length} onClick={() => setDeed("delete")}>
          {m.runs.delete}
        </Button>
      ) : null}
      <Button kind="ghost" icon={<X size={14} />} aria-label={m.runs.clearSelection} onClick={onClear} />
      <Confirm
        open={deed !== null}
        onClose={() => setDeed(null)}
        title={deed ? title[deed](of[deed].length) : ""}
        action={deed ? m.runs[deed] : ""}
        danger={deed === "delete" || deed === "stop"}
        onConfirm={() => (deed ? run(deed) : Promise.resolve())}
      >
        <p>{deed ? text[deed] : ""}</p>
        {left ? <p className="dim">{deed === "stop" ? b.skipped(left) : b.skippedLive(left)}</p> : null}
        {progress ? <p className="num">{b.working(progress, deed ? of[deed].length : 0)}</p> : null}
      </Confirm>
    </div>
  );
}

const path = (row: Row) => ({ params: { path: { run_id: row.id } } });
