/** The drawer in which a queue is written: made new, or changed into a new version. */
import { Dialog } from "@base-ui/react/dialog";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { ScanSearch, X } from "lucide-react";
import { useId, useMemo, useRef, useState } from "react";
import { api, ask, ProblemError, type Queue } from "../api/client";
import { type Problem, YamlEditor } from "../editor/YamlEditor";
import { m } from "../messages";
import { yamlLines, yamlText } from "../run/yaml";
import { mayManage, useMe } from "../session/me";
import { Button } from "../ui/Button";
import { Confirm } from "../ui/Confirm";
import { ErrorNote } from "../ui/Notes";
import { Select } from "../ui/Select";
import { say } from "../ui/Toasts";
import {
  declarations,
  NO_RULES,
  opensBody,
  type Row,
  type Rules,
  rowOf,
  rowsOf,
  rulesBody,
  rulesOf,
} from "./draft";
import { Preview } from "./Preview";
import { RulesFields } from "./RulesFields";
import { schemaFor } from "./schemas";
import { TEMPLATES, type TemplateName } from "./templates";
import { parseNow, useParsed } from "./useParsed";
import { VariableRows } from "./VariableRows";
import "../design/queues.css";

const f = m.queueForm;
const RESOURCES = Object.entries(f.resources).map(([value, label]) => ({ value, label }));
const STARTS = Object.entries(f.templates).map(([value, label]) => ({
  value,
  label,
  disabled: !(value in TEMPLATES),
}));

/** A draft, as far as it is written. */
interface Draft {
  readonly entity: string;
  readonly name: string;
  readonly resource: string;
  readonly text: string;
  readonly rows: readonly Row[];
  readonly rules: Rules;
}

const draftOf = (queue: Queue): Draft => ({
  entity: queue.entity,
  name: queue.name,
  resource: queue.resource,
  text: yamlText(yamlLines(queue.config)),
  rows: Object.entries(queue.variables).map(([name, said]) => rowOf(name, said as Record<string, unknown>)),
  rules: rulesOf(queue),
});

const blank = (entity: string): Draft => ({
  entity,
  name: "",
  resource: TEMPLATES.process.resource,
  text: TEMPLATES.process.text,
  rows: [],
  rules: NO_RULES,
});

const firstField = (): HTMLElement | null =>
  document.querySelector<HTMLElement>(".drawer .fields input:not(:disabled)");

export function QueueDrawer({ queue, onClose }: { queue?: Queue; onClose: () => void }) {
  const me = useMe();
  const [dirty, setDirty] = useState(false);
  const [leaving, setLeaving] = useState(false);
  const close = () => (dirty ? setLeaving(true) : onClose());
  return (
    <Dialog.Root open onOpenChange={(next) => !next && close()} disablePointerDismissal>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop of-drawer" />
        <Dialog.Popup className="drawer" initialFocus={() => firstField() ?? true}>
          <div className="drawer-head">
            <Dialog.Title>{queue ? f.editTitle(queue.name) : f.createTitle}</Dialog.Title>
            <Dialog.Description className="dim">
              {queue ? f.editLead(queue.version + 1) : f.lead}
            </Dialog.Description>
            <Button kind="ghost" icon={<X size={16} />} aria-label={m.common.close} onClick={close} />
          </div>
          {me.data ? (
            <Form
              queue={queue}
              first={queue ? draftOf(queue) : blank(me.data.default_entity)}
              onDirty={() => setDirty(true)}
              onCancel={close}
              onDone={onClose}
            />
          ) : null}
        </Dialog.Popup>
      </Dialog.Portal>
      <Confirm
        open={leaving}
        onClose={() => setLeaving(false)}
        title={f.discardTitle}
        action={f.discard}
        danger
        onConfirm={async () => onClose()}
      >
        <p>{f.discardBody}</p>
      </Confirm>
    </Dialog.Root>
  );
}

function Form({
  queue,
  first,
  onDirty,
  onCancel,
  onDone,
}: {
  queue: Queue | undefined;
  first: Draft;
  onDirty: () => void;
  onCancel: () => void;
  onDone: () => void;
}) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const me = useMe();
  const [draft, setDraft] = useState(first);
  const [template, setTemplate] = useState<TemplateName>("process");
  const [wanted, setWanted] = useState<TemplateName | null>(null);
  const [refused, setRefused] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const started = useRef(first.text); // as the template had it
  const ids = useId();
  const { parsed, checking, error } = useParsed(draft.text, draft.resource, draft.rows);
  const problems = useMemo(() => problemsOf(parsed?.errors ?? [], refused), [parsed, refused]);
  const set = (part: Partial<Draft>) => {
    setDraft((before) => ({ ...before, ...part }));
    setRefused(null);
    onDirty();
  };
  const start = (name: TemplateName) => {
    const { resource, text } = TEMPLATES[name];
    started.current = text;
    setTemplate(name);
    set({ resource, text, rows: [] });
  };
  const choose = (name: string) => {
    const known = name as TemplateName;
    if (draft.text.trim() && draft.text !== started.current) setWanted(known);
    else start(known);
  };
  const parse = async () => {
    setBusy(true);
    try {
      const found = await parseNow(client, draft.text, draft.resource, draft.rows);
      const stated = found.rules && Object.keys(found.rules).length > 0;
      set({
        rows: rowsOf(found.variables, draft.rows),
        ...(stated ? { rules: rulesOf(found.rules ?? {}) } : {}),
      });
    } catch (problem) {
      setRefused(problem);
    } finally {
      setBusy(false);
    }
  };
  const save = async () => {
    setBusy(true);
    setRefused(null);
    try {
      const found = await parseNow(client, draft.text, draft.resource, draft.rows);
      const stated = found.rules && Object.keys(found.rules).length > 0;
      const rules = stated ? rulesOf({ ...opensBody(draft.rules), ...found.rules }) : draft.rules;
      const body = {
        config: found.config ?? draft.text,
        variables: declarations(draft.rows),
        ...opensBody(rules),
        ...rulesBody(draft.rules),
      };
      const { name, entity, resource } = draft;
      const made = queue
        ? await ask(
            api.PATCH("/api/v1/queues/{name}", { params: { path: { name }, query: { entity } }, body }),
          )
        : await ask(api.POST("/api/v1/queues", { body: { ...body, name, entity, resource } }));
      void client.invalidateQueries({ queryKey: ["queues"] });
      if (!queue) say(f.created(made.name));
      else say(made.version === queue.version ? f.unchanged : f.saved(made.name, made.version));
      onDone();
      if (!queue) {
        await navigate({
          to: "/queues/$queueName",
          params: { queueName: made.name },
          search: { entity: made.entity },
        });
      }
    } catch (problem) {
      setRefused(problem);
    } finally {
      setBusy(false);
    }
  };
  const entities = Object.keys(me.data?.roles ?? {}).filter((entity) => mayManage(me.data, entity));
  const missing = (parsed?.variables ?? []).filter((one) => one.declared === null).map((one) => one.name);
  return (
    <>
      <div className="drawer-body">
        <div className="drawer-main">
          <div className="fields">
            <label htmlFor={`${ids}-name`}>
              {f.name}
              <input
                id={`${ids}-name`}
                className="input"
                value={draft.name}
                disabled={queue !== undefined}
                placeholder={f.nameHint}
                autoComplete="off"
                spellCheck={false}
                onChange={(event) => set({ name: event.target.value })}
              />
            </label>
            <div className="field">
              <span>{f.entity}</span>
              {queue || entities.length < 2 ? (
                <span className="fixed">{draft.entity}</span>
              ) : (
                <Select
                  label={f.entity}
                  value={draft.entity}
                  options={entities.map((value) => ({ value, label: value }))}
                  onChange={(entity) => set({ entity })}
                />
              )}
            </div>
            <div className="field">
              <span>{f.resource}</span>
              {queue ? (
                <span className="fixed">{draft.resource}</span>
              ) : (
                <Select
                  label={f.resource}
                  value={draft.resource}
                  options={RESOURCES}
                  onChange={(resource) => set({ resource })}
                />
              )}
            </div>
            {queue ? null : (
              <div className="field">
                <span>{f.template}</span>
                <Select label={f.template} value={template} options={STARTS} onChange={choose} />
              </div>
            )}
          </div>
          <section>
            <div className="block-head">
              <h3>{f.config}</h3>
            </div>
            <YamlEditor
              label={f.configLabel}
              value={draft.text}
              onChange={(text) => set({ text })}
              problems={problems}
              schema={schemaFor(draft.resource)}
            />
            <div className="parse-bar">
              <Button icon={<ScanSearch size={14} />} onClick={parse} disabled={busy}>
                {f.parse}
              </Button>
              <span className="dim" role="status">
                {statusOf(parsed, checking, missing)}
              </span>
            </div>
            {error ? <ErrorNote error={error} /> : null}
          </section>
          <section>
            <h3>{f.variables}</h3>
            <VariableRows
              rows={draft.rows}
              used={parsed && !parsed.errors.length ? new Set(parsed.variables.map((one) => one.name)) : null}
              onChange={(rows) => set({ rows })}
            />
          </section>
          <RulesFields rules={draft.rules} onChange={(rules) => set({ rules })} />
        </div>
        <Preview draft={draft} ready={parsed?.usable ?? false} />
      </div>
      <div className="drawer-foot">
        {refused ? <ErrorNote error={refused} /> : null}
        <div className="dialog-actions">
          <Button onClick={onCancel}>{m.common.cancel}</Button>
          <Button kind="primary" onClick={save} disabled={busy || (!queue && draft.name.trim() === "")}>
            {queue ? f.save : f.create}
          </Button>
        </div>
      </div>
      <Confirm
        open={wanted !== null}
        onClose={() => setWanted(null)}
        title={f.replaceTitle}
        action={f.replace}
        onConfirm={async () => {
          if (wanted) start(wanted);
        }}
      >
        <p>{f.replaceBody}</p>
      </Confirm>
    </>
  );
}

function statusOf(
  parsed: ReturnType<typeof useParsed>["parsed"],
  checking: boolean,
  missing: readonly string[],
): string {
  if (!parsed) return checking ? f.checking : "";
  if (parsed.errors.length) return "";
  const found = f.found(parsed.variables.length, parsed.macros.length);
  return missing.length ? f.missing(missing.join(", ")) : `${found}. ${f.fine}`;
}

/** What the server found, and where: also in what it just refused. */
function problemsOf(errors: readonly Problem[], refused: unknown): Problem[] {
  const problems = [...errors];
  if (refused instanceof ProblemError && typeof refused.problem.facts?.line === "number") {
    const { detail, hint, facts } = refused.problem;
    const line = facts.line as number;
    if (!problems.some((problem) => problem.line === line))
      problems.push({ message: detail, hint, line, column: (facts.column as number | undefined) ?? null });
  }
  return problems;
}
