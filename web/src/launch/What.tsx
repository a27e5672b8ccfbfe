/** What runs: a job, an image, code in a repository, or a bare command. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useId, useState } from "react";
import { api, ask } from "../api/client";
import { m } from "../messages";
import { SOURCES, withoutRecipe, withSource } from "./draft";
import { Field, Section, TextField, useForm } from "./form";

const l = m.launch;

export function What() {
  const { draft, change } = useForm();
  if (draft.source === "run") {
    return (
      <Section title={l.what}>
        <TextField of="entrypoint" label={l.entrypoint} mono wide />
        <CommandField label={l.arguments} />
      </Section>
    );
  }
  return (
    <Section title={l.what}>
      <fieldset className="segments wide" aria-label={l.sourceLabel}>
        {SOURCES.map((source) => (
          <label key={source}>
            <input
              type="radio"
              name="launch-source"
              checked={draft.source === source}
              onChange={() => change(withSource(draft, source), "")}
            />
            <span>{l.source[source]}</span>
          </label>
        ))}
      </fieldset>
      <p className="field-hint wide">{l.sourceHint[draft.source]}</p>
      {draft.source === "job" ? <JobFields /> : null}
      {draft.source === "image" ? (
        <TextField of="image" label={l.image} placeholder={l.imageExample} mono wide required />
      ) : null}
      {draft.source === "git" ? (
        <>
          <TextField
            of="gitUrl"
            name="git.url"
            label={l.gitUrl}
            placeholder={l.gitExample}
            mono
            wide
            required
          />
          <TextField of="gitRef" name="git.ref" label={l.gitRef} mono />
          <TextField of="gitFolder" name="git.folder" label={l.gitFolder} mono />
        </>
      ) : null}
      {draft.source === "job" ? (
        draft.job ? (
          <>
            <TextField of="entrypoint" label={l.entrypoint} mono wide />
            <CommandField label={l.arguments} />
          </>
        ) : null
      ) : (
        <CommandField label={l.command} hint={l.commandHint} required={draft.source !== "image"} />
      )}
    </Section>
  );
}

function CommandField({
  label,
  hint,
  required = false,
}: {
  label: string;
  hint?: string;
  required?: boolean;
}) {
  const { draft, change } = useForm();
  return (
    <Field name="command" label={label} hint={hint} required={required} wide>
      {(control) => (
        <textarea
          {...control}
          className="input mono"
          rows={2}
          value={draft.command}
          placeholder={draft.source === "job" || draft.source === "run" ? "" : l.commandPlaceholder}
          spellCheck={false}
          onChange={(event) => change({ command: event.target.value }, "command")}
        />
      )}
    </Field>
  );
}

/** The job's name is taken when it is one of those there are, or when the field is left. */
function JobFields() {
  const { draft, change } = useForm();
  const [text, setText] = useState(draft.job);
  const list = useId();
  const jobs = useQuery({
    queryKey: ["jobs", "of", draft.entity],
    queryFn: () => ask(api.GET("/api/v1/jobs", { params: { query: { entity: draft.entity, limit: 500 } } })),
  });
  const names = (jobs.data?.items ?? []).map((job) => `${job.project}/${job.name}`);
  const take = (job: string) => {
    const project = job.includes("/") ? job.slice(0, job.indexOf("/")) : draft.project;
    if (job === draft.job) return;
    change({ ...(draft.job ? withoutRecipe(draft) : {}), job, version: "latest", project }, "job");
  };
  const known = names.includes(text); // the list may come after the typing
  // biome-ignore lint/correctness/useExhaustiveDependencies: what is typed is taken once, when it is known
  useEffect(() => {
    if (known) take(text);
  }, [known, text]);
  return (
    <>
      <Field name="job" label={l.job} required>
        {(control) => (
          <>
            <input
              {...control}
              className="input mono"
              list={list}
              value={text}
              placeholder={l.jobPlaceholder}
              spellCheck={false}
              autoComplete="off"
              onChange={(event) => setText(event.target.value)}
              onBlur={() => take(text.trim())}
            />
            <datalist id={list}>
              {names.map((name) => (
                <option key={name} value={name} />
              ))}
            </datalist>
          </>
        )}
      </Field>
      <VersionField />
    </>
  );
}

function VersionField() {
  const { draft, change } = useForm();
  const slash = draft.job.indexOf("/");
  const [project, name] = [draft.job.slice(0, Math.max(0, slash)), draft.job.slice(slash + 1)];
  const versions = useQuery({
    queryKey: ["jobs", "versions", draft.entity, draft.job],
    enabled: name !== "",
    queryFn: () =>
      ask(
        api.GET("/api/v1/jobs/{name}/versions", {
          params: {
            path: { name },
            query: { entity: draft.entity, limit: 200, ...(project ? { project } : {}) },
          },
        }),
      ),
  });
  const items = versions.data?.items ?? [];
  const aliases = items.flatMap(({ aliases, version }) =>
    aliases.map((alias) => [alias, `v${version}`] as const),
  );
  const known = new Set([...aliases.map(([alias]) => alias), ...items.map(({ version }) => `v${version}`)]);
  return (
    <Field name="version" label={l.version}>
      {(control) => (
        <select
          {...control}
          className="input"
          value={draft.version}
          onChange={(event) => change({ version: event.target.value }, "version")}
        >
          {known.has(draft.version) ? null : <option value={draft.version}>{draft.version}</option>}
          {aliases.map(([alias, version]) => (
            <option key={alias} value={alias}>
              {l.versionAlias(alias, version)}
            </option>
          ))}
          {items.map(({ version }) => (
            <option key={version} value={`v${version}`}>{`v${version}`}</option>
          ))}
        </select>
      )}
    </Field>
  );
}
