import { useMemo } from "react";
import type { Queue } from "../api/client";
import { m } from "../messages";
import { YamlView } from "../run/YamlView";
import { yamlLines, yamlText } from "../run/yaml";
import { CopyButton } from "../ui/Copy";
import { allowedWords, limitWords } from "./draft";

const q = m.queue;

/** What a queue is: its config, its variables, its rules. */
export function ConfigTab({ queue }: { queue: Queue }) {
  const lines = useMemo(() => yamlLines(queue.config), [queue.config]);
  return (
    <div className="overview">
      <div className="overview-main">
        <section>
          <div className="block-head">
            <h2>{q.config}</h2>
            <CopyButton text={yamlText(lines)} label={q.copyConfig} />
          </div>
          <YamlView lines={lines} label={q.config} />
        </section>
        <section>
          <h2>{q.variables}</h2>
          <Variables queue={queue} />
        </section>
      </div>
      <Rules queue={queue} />
    </div>
  );
}

function Variables({ queue }: { queue: Queue }) {
  const all = Object.entries(queue.variables) as [string, Record<string, unknown>][];
  if (all.length === 0) return <p className="dim">{q.noVariables}</p>;
  return (
    <div className="scroll-x">
      <table className="table" aria-label={q.variables}>
        <thead>
          <tr>
            <th scope="col">{q.variable.name}</th>
            <th scope="col">{q.variable.type}</th>
            <th scope="col">{q.variable.default}</th>
            <th scope="col">{q.variable.allowed}</th>
            <th scope="col">{q.variable.description}</th>
          </tr>
        </thead>
        <tbody>
          {all.map(([name, said]) => (
            <tr key={name}>
              <td className="mono">{name}</td>
              <td className="dim">{String(said.type)}</td>
              <td className="mono">
                {said.default === undefined ? (
                  <span className="dim">{q.variable.required}</span>
                ) : (
                  String(said.default)
                )}
              </td>
              <td className="num">{allowedWords(said, q.variable.any)}</td>
              <td className="dim">{String(said.description ?? "")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Rules({ queue }: { queue: Queue }) {
  const facts: [string, string][] = [
    [q.limits, limitWords(queue) || q.noLimits],
    [q.order, q.orders[queue.order ?? "share"]],
    [q.launchPriorities, queue.priorities === false ? q.off : q.on],
    [q.security, m.queueForm.securities[queue.security ?? "baseline"]],
    ...(queue.default_image ? [[q.image, queue.default_image] as [string, string]] : []),
    ...(queue.overridable?.length ? [[q.overridable, queue.overridable.join(", ")] as [string, string]] : []),
    ...(queue.allow?.length ? [[q.allow, queue.allow.join(", ")] as [string, string]] : []),
  ];
  return (
    <dl className="details">
      {facts.map(([what, value]) => (
        <div key={what}>
          <dt>{what}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
