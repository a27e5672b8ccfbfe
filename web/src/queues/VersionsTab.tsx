import { useQueryClient } from "@tanstack/react-query";
import { History } from "lucide-react";
import { useState } from "react";
import { api, ask, type Queue } from "../api/client";
import { m } from "../messages";
import { mayManage, useMe } from "../session/me";
import { Button } from "../ui/Button";
import { Confirm } from "../ui/Confirm";
import { ErrorNote, Skeleton } from "../ui/Notes";
import { Select } from "../ui/Select";
import { Ago } from "../ui/Time";
import { say } from "../ui/Toasts";
import { diffLines } from "./diff";
import { useDiff, useVersions } from "./queries";

const q = m.queue;

/** What the queue was, what changed when, and the way back. */
export function VersionsTab({ queue }: { queue: Queue }) {
  const name = { name: queue.name, entity: queue.entity };
  const { data, error, refetch } = useVersions(name);
  const me = useMe();
  const client = useQueryClient();
  const [chosen, setChosen] = useState<number | null>(null);
  const [against, setAgainst] = useState<number | null>(null);
  const [back, setBack] = useState<number | null>(null);
  if (error) return <ErrorNote error={error} onRetry={() => void refetch()} />;
  if (!data) return <Skeleton rows={4} />;
  const to = chosen ?? queue.version;
  const from = against ?? to - 1;
  const manages = mayManage(me.data, queue.entity);
  const options = data.items.map(({ version }) => ({
    value: String(version),
    label: m.overview.version(version),
  }));
  const rollBack = async () => {
    if (back === null) return;
    const params = { path: { name: queue.name }, query: { entity: queue.entity } };
    const newer = await ask(api.POST("/api/v1/queues/{name}/rollback", { params, body: { version: back } }));
    client.setQueryData(["queues", name], newer);
    void client.invalidateQueries({ queryKey: ["queues", name] });
    setChosen(null);
    setAgainst(null);
    say(q.rollBackDone(back));
  };
  return (
    <div className="versions">
      <div className="scroll-x">
        <table className="table" aria-label={q.versions}>
          <thead>
            <tr>
              <th scope="col">{q.versionHead}</th>
              <th scope="col">{q.made}</th>
              <th scope="col">{q.by}</th>
              <th scope="col">{q.changed}</th>
              <th scope="col">
                <span className="hidden-label">{q.rollBack}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {data.items.map((one) => (
              <tr key={one.version} className={one.version === to ? "chosen" : ""}>
                <td>
                  <button
                    type="button"
                    className="link version"
                    aria-pressed={one.version === to}
                    onClick={() => {
                      setChosen(one.version);
                      setAgainst(null);
                    }}
                  >
                    {m.overview.version(one.version)}
                  </button>{" "}
                  {one.version === queue.version ? <span className="dim">{q.current}</span> : null}
                </td>
                <td className="dim">
                  <Ago at={one.created_at} />
                </td>
                <td className="dim">{one.created_by}</td>
                <td>
                  {one.version === 1 ? <span className="faint">{q.first}</span> : one.changed.join(", ")}
                </td>
                <td className="right">
                  {manages && one.version !== queue.version ? (
                    <Button kind="ghost" icon={<History size={13} />} onClick={() => setBack(one.version)}>
                      {q.rollBack}
                    </Button>
                  ) : null}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {data.items.length > 1 ? (
        <div className="diff-block">
          <div className="block-head">
            <span className="dim">{q.diffOf}</span>
            <Select
              label={q.diffOf}
              value={String(from || 1)}
              options={options}
              onChange={(next) => setAgainst(Number(next))}
            />
            <span className="dim">{q.diffWith}</span>
            <Select
              label={q.diffWith}
              value={String(to)}
              options={options}
              onChange={(next) => setChosen(Number(next))}
            />
          </div>
          <Diff queue={queue} from={from || 1} to={to} />
        </div>
      ) : null}
      <Confirm
        open={back !== null}
        onClose={() => setBack(null)}
        title={q.rollBackTitle(back ?? 0)}
        action={q.rollBack}
        onConfirm={rollBack}
      >
        <p>{q.rollBackBody(queue.version + 1)}</p>
      </Confirm>
    </div>
  );
}

const SIGNS = { added: "+", removed: "−", same: " ", hunk: "" } as const;

function Diff({ queue, from, to }: { queue: Queue; from: number; to: number }) {
  const { data, error, refetch } = useDiff({ name: queue.name, entity: queue.entity }, from, to);
  if (error) return <ErrorNote error={error} onRetry={() => void refetch()} />;
  if (from === to || data?.diff === "") return <p className="dim">{q.same}</p>;
  if (!data) return <Skeleton rows={4} />;
  return (
    <div className="yaml diff" role="region" aria-label={q.diff(from, to)} tabIndex={0}>
      {diffLines(data.diff).map((line, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines of a diff never move
        <div key={i} className={`diff-line ${line.kind}`}>
          <span className="diff-sign" aria-hidden="true">
            {SIGNS[line.kind]}
          </span>
          {line.kind === "added" ? <span className="hidden-label">{q.added} </span> : null}
          {line.kind === "removed" ? <span className="hidden-label">{q.removed} </span> : null}
          <span>{line.text || " "}</span>
        </div>
      ))}
    </div>
  );
}
