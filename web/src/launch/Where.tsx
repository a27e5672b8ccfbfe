/** Where it runs, under which name, and the values its queue asks for. */
import type { Queue } from "../api/client";
import { m } from "../messages";
import { withoutRecipe } from "./draft";
import { Field, Section, TextField, useForm } from "./form";
import type { Variable } from "./queue";

const l = m.launch;
const PRIORITIES = ["low", "medium", "high", "critical"] as const;

export function Where({ queues, entities }: { queues: readonly Queue[]; entities: readonly string[] }) {
  const { draft, around, change } = useForm();
  const own = queues.filter((queue) => queue.entity === draft.entity);
  const known = own.some((queue) => queue.name === draft.queue);
  return (
    <Section title={l.where}>
      {entities.length > 1 && draft.source !== "run" ? (
        <Field name="entity" label={l.team}>
          {(control) => (
            <select
              {...control}
              className="input"
              value={draft.entity}
              onChange={(event) => {
                const entity = event.target.value;
                const ofJob = draft.source === "job" ? { ...withoutRecipe(draft), job: "" } : {};
                const first = queues.find((queue) => queue.entity === entity)?.name ?? "";
                change({ ...ofJob, entity, queue: first }, "entity");
              }}
            >
              {entities.map((entity) => (
                <option key={entity}>{entity}</option>
              ))}
            </select>
          )}
        </Field>
      ) : null}
      <Field name="queue" label={l.queue} required>
        {(control) => (
          <select
            {...control}
            className="input"
            value={draft.queue}
            onChange={(event) => change({ queue: event.target.value }, "queue")}
          >
            {known ? null : <option value={draft.queue}>{draft.queue}</option>}
            {own.map((queue) => (
              <option key={queue.name} value={queue.name}>
                {l.queueOption(queue.name, queue.resource, standing(queue))}
              </option>
            ))}
          </select>
        )}
      </Field>
      {around.priorities ? (
        <Field name="priority" label={l.priority}>
          {(control) => (
            <select
              {...control}
              className="input"
              value={draft.priority || "medium"}
              onChange={(event) => change({ priority: event.target.value }, "priority")}
            >
              {PRIORITIES.map((priority) => (
                <option key={priority} value={priority}>
                  {l.priorities[priority]}
                </option>
              ))}
            </select>
          )}
        </Field>
      ) : null}
      <TextField of="project" label={l.project} placeholder={l.projectDefault} />
      <TextField of="name" label={l.name} placeholder={l.nameDefault} />
    </Section>
  );
}

function standing(queue: Queue): string {
  if (queue.draining_at) return l.queueClosed;
  if (queue.paused_at) return m.queues.paused.toLowerCase();
  if (queue.agents_online === 0) return m.queues.noAgent.toLowerCase();
  return queue.waiting ? l.queueWaiting(queue.waiting) : "";
}

export function Values() {
  const { draft, around } = useForm();
  const { variables } = around;
  return (
    <Section title={l.values(draft.queue)} hint={variables.length ? "" : l.valuesNone}>
      {variables.map((variable) => (
        <ValueField key={variable.name} variable={variable} />
      ))}
    </Section>
  );
}

function ValueField({ variable }: { variable: Variable }) {
  const { draft, change } = useForm();
  const { name, choices, fallback } = variable;
  const field = `values.${name}`;
  const value = draft.values[name] ?? "";
  const set = (text: string) => change({ values: { ...draft.values, [name]: text } }, field);
  const told = fallback === null || choices.length ? "" : l.byDefault(fallback); // a list shows it itself
  const hint = [variable.description, variable.rule, told];
  return (
    <Field
      name={field}
      label={<code>{name}</code>}
      hint={hint.filter(Boolean).join(" · ")}
      required={fallback === null}
    >
      {(control) =>
        choices.length ? (
          <select {...control} className="input" value={value} onChange={(event) => set(event.target.value)}>
            <option value="">{fallback === null ? "" : l.byDefault(fallback)}</option>
            {choices.map((choice) => (
              <option key={choice}>{choice}</option>
            ))}
          </select>
        ) : (
          <input
            {...control}
            className="input mono"
            value={value}
            placeholder={fallback ?? ""}
            inputMode={variable.type === "integer" ? "numeric" : "text"}
            spellCheck={false}
            autoComplete="off"
            onChange={(event) => set(event.target.value)}
          />
        )
      }
    </Field>
  );
}
