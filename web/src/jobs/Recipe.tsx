/** What a version of a job runs: its source, how it is started, and which inputs it takes. */
import type { ReactNode } from "react";
import type { JobVersion } from "../api/client";
import { inputsOf, isTree } from "../launch/inputs";
import { m } from "../messages";
import { shellWords } from "../ui/format";

const j = m.jobs;

export function Recipe({ version }: { version: JobVersion }) {
  const t = version.training;
  const shape = t
    ? `${m.overview.shape(t.nodes ?? 1, String(t.procs_per_node ?? 1))}, ${t.launcher ?? "auto"}`
    : m.common.none;
  const config = Object.entries(version.config);
  const rows: [string, ReactNode][] = [
    [j.source, <SourceOf key="s" version={version} />],
    [j.entrypoint, <code key="e">{shellWords(version.entrypoint) || m.common.none}</code>],
    [j.arguments, <code key="a">{shellWords(version.arguments) || m.common.none}</code>],
    [j.training, shape],
    ...(config.length
      ? ([
          [
            j.config,
            <code key="c">
              {config.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(" ")}
            </code>,
          ],
        ] as [string, ReactNode][])
      : []),
  ];
  return (
    <aside className="job-side" aria-label={j.recipe(`${version.job}:${j.version(version.version)}`)}>
      <h2>{j.recipe(j.version(version.version))}</h2>
      <dl className="details">
        {rows.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <Inputs declaration={version.inputs} />
    </aside>
  );
}

function SourceOf({ version }: { version: JobVersion }) {
  const { image, git, snapshot } = version;
  return (
    <span className="source">
      {image ? <code>{image}</code> : null}
      {git ? (
        <code>
          {git.url}
          {git.ref ? ` @ ${git.ref}` : ""} {git.commit?.slice(0, 10) ?? ""}
          {git.folder ? ` · ${git.folder}` : ""}
        </code>
      ) : null}
      {snapshot ? (
        <span>
          {j.snapshot} <code className="faint">{snapshot.slice(0, 12)}</code>
        </span>
      ) : null}
    </span>
  );
}

function Inputs({ declaration }: { declaration: JobVersion["inputs"] }) {
  const { fields } = inputsOf(declaration, {});
  const ways = [
    isTree(declaration) && declaration.arguments ? m.jobs.arguments.toLowerCase() : "",
    ...(isTree(declaration) && isTree(declaration.files) ? Object.keys(declaration.files) : []),
  ].filter(Boolean);
  return (
    <div className="job-inputs">
      <h2>{j.inputs}</h2>
      {fields.length === 0 ? <p className="dim">{j.noInputs}</p> : null}
      {fields.length ? (
        <div className="scroll-x" tabIndex={0} role="region" aria-label={j.inputsLabel}>
          <table className="table" aria-label={j.inputsLabel}>
            <thead>
              <tr>
                <th scope="col">{j.input}</th>
                <th scope="col">{j.kind}</th>
                <th scope="col">{j.rule}</th>
                <th scope="col">{j.fallback}</th>
              </tr>
            </thead>
            <tbody>
              {fields.map((field) => (
                <tr key={field.name} title={field.description}>
                  <td>
                    <code>{field.name}</code>
                  </td>
                  <td className="dim">{j.kinds[field.kind]}</td>
                  <td className="dim">{field.choices.map(String).join(", ") || field.rule}</td>
                  <td>
                    {field.required ? (
                      <span className="dim">{m.launch.required}</span>
                    ) : (
                      <code>{field.fallback === undefined ? "" : JSON.stringify(field.fallback)}</code>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : null}
      {ways.length ? <p className="dim">{j.delivered(ways.join(", "))}</p> : null}
    </div>
  );
}
