import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import { type Me, ProblemError, type Queue, type Run } from "../api/client";
import { m } from "../messages";
import { mayLaunch } from "../session/me";
import { modKey } from "../ui/keys";
import { complain, say } from "../ui/Toasts";
import { type Base, baseOfJob, type Draft, type Faults, lacking, NOTHING, withRecipe } from "./draft";
import { Environment, Overrides, Pod, Shape } from "./Extras";
import { FormProvider } from "./form";
import { InputsPart } from "./InputsPart";
import { inputsOf } from "./inputs";
import { orderOf } from "./order";
import { faultsOf } from "./problem";
import { launch, newKey, useJobVersion, usePreview } from "./queries";
import { opensOf, variablesOf } from "./queue";
import { ResourceConfig } from "./ResourceConfig";
import { needs, Side } from "./Side";
import { What } from "./What";
import { Values, Where } from "./Where";

const l = m.launch;

export const firstField = (): HTMLElement | null =>
  document.querySelector<HTMLElement>(
    ".launch-form :is(textarea, input:not([type=radio]), select):not([readonly])",
  );

export function LaunchForm({
  initial,
  queues,
  me,
  run,
}: {
  initial: Draft;
  queues: readonly Queue[];
  me: Me;
  run: { readonly run: Run; readonly base: Base } | null;
}) {
  const navigate = useNavigate();
  const [draft, setDraft] = useState(initial);
  const [tried, setTried] = useState(false);
  const [busy, setBusy] = useState(false);
  const [refused, setRefused] = useState<{ text: string; error: ProblemError } | null>(null);
  const key = useRef({ text: "", key: "" });
  const body = useRef<HTMLFormElement>(null);

  const job = useRecipe(draft, setDraft);
  const base = run?.base ?? job.base;
  const queue = queues.find((one) => one.entity === draft.entity && one.name === draft.queue);
  const around = useMemo(() => {
    const rules = queue ?? { ...NO_QUEUE };
    return {
      base,
      inputs: inputsOf(base.inputs, base.config),
      variables: variablesOf(rules),
      opens: opensOf(rules),
      priorities: rules.priorities !== false,
      defaultEntity: me.default_entity,
    };
  }, [queue, base, me.default_entity]);

  const { order, faults: own } = useMemo(() => orderOf(draft, around), [draft, around]);
  const text = JSON.stringify(order);
  const missing = lacking(draft);
  const asked = !Object.keys(missing).length;
  const sound = asked && !Object.keys(own).length && !job.pending && !job.error;
  const preview = usePreview(order, sound);
  const problem =
    refused?.text === text
      ? refused.error
      : job.error instanceof ProblemError
        ? job.error
        : sound && preview.current && preview.error instanceof ProblemError
          ? preview.error
          : null;
  const faults: Faults = {
    ...(problem ? faultsOf(problem.problem, draft) : {}),
    ...own,
    ...(tried ? missing : {}),
  };
  const shown = Object.entries(faults).filter(([field]) => tried || draft.typed.has(field));

  useEffect(() => firstField()?.focus(), []);
  // What is wrong is looked for when it has been drawn.
  const [look, setLook] = useState(0);
  useEffect(() => {
    if (look)
      body.current?.querySelector<HTMLElement>("[aria-invalid=true], .field-error[tabindex]")?.focus();
  }, [look]);

  const submit = async (event?: FormEvent) => {
    event?.preventDefault();
    if (busy || job.pending) return;
    setTried(true);
    if (!asked || Object.keys(own).length) return setLook((n) => n + 1);
    setBusy(true);
    if (key.current.text !== text) key.current = { text, key: newKey() };
    try {
      const made = await launch(order, key.current.key);
      key.current = { text: "", key: "" };
      say(l.done(made.name));
      await navigate({ to: "/runs/$runId", params: { runId: made.id } });
    } catch (error) {
      setBusy(false);
      if (!(error instanceof ProblemError)) return complain(error);
      setRefused({ text, error });
      setLook((n) => n + 1);
    }
  };
  // Enter alone launches nothing: it would be pressed by habit, in the middle of the form.
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== "Enter") return;
    const mod = event.metaKey || event.ctrlKey;
    if (mod || event.target instanceof HTMLInputElement) event.preventDefault();
    if (mod) void submit();
  };
  const form = {
    draft,
    around,
    change: (part: Partial<Draft>, field: string) => {
      const whole = field.split(".")[0] ?? ""; // what is said of all its rows counts, too
      setDraft((before) => {
        const after = { ...before, ...part };
        return field ? { ...after, typed: new Set([...after.typed, field, whole]) } : after;
      });
    },
    fault: (field: string) => (tried || draft.typed.has(field) ? faults[field] : undefined),
  };
  const entities = [...new Set(queues.map((queue) => queue.entity))].filter((one) => mayLaunch(me, one));
  return (
    <FormProvider value={form}>
      <div className="launch-body">
        <form
          className="launch-form"
          ref={body}
          onSubmit={submit}
          onKeyDown={onKey}
          id="launch-form"
          noValidate
        >
          <What />
          <Where queues={queues} entities={entities} />
          <Values />
          <InputsPart />
          <Shape />
          <Pod />
          <Overrides />
          {queue && around.opens.overrides.length ? <ResourceConfig queue={queue} /> : null}
          <Environment />
        </form>
        <Side order={order} asked={sound || problem !== null} preview={preview.data} error={problem} />
      </div>
      <footer className="launch-foot">
        <div className="launch-sum" role="status">
          {tried && shown.length ? (
            <span className="bad">{l.wrong(shown.length)}</span>
          ) : tried && problem ? (
            <span className="bad">{problem.problem.detail}</span>
          ) : sound && !problem && preview.data ? (
            <span className="dim num">{needs(preview.data)}</span>
          ) : null}
        </div>
        <button type="submit" form="launch-form" className="button primary" disabled={busy || job.pending}>
          {busy ? l.busy : l.button}
          <kbd aria-hidden="true">{modKey("↵")}</kbd>
        </button>
      </footer>
    </FormProvider>
  );
}

const NO_QUEUE = {
  resource: "process",
  config: {},
  variables: {},
  allow: [],
  overridable: null,
} as unknown as Queue;

/** What the chosen version of the chosen job says, put into the form when it has come. */
function useRecipe(draft: Draft, setDraft: (change: (before: Draft) => Draft) => void) {
  const slash = draft.job.indexOf("/");
  const found = useJobVersion({
    entity: draft.entity,
    project: draft.job.slice(0, Math.max(0, slash)),
    name: draft.source === "job" ? draft.job.slice(slash + 1) : "",
    version: draft.version,
  });
  const wanted = draft.source === "job" && draft.job !== "";
  const version = wanted ? found.data : undefined;
  const fresh = useMemo(() => (version ? baseOfJob(version) : null), [version]);
  const last = useRef(NOTHING); // shown while another version is on its way
  if (fresh) last.current = fresh;
  else if (!wanted) last.current = NOTHING;
  const label = version ? `${version.entity}/${version.project}/${version.job}:${version.version}` : "";
  const filledWith = useRef(""); // another word for the same version changes nothing
  useEffect(() => {
    if (!wanted) filledWith.current = "";
    else if (fresh && label !== filledWith.current) {
      filledWith.current = label;
      setDraft((before) => withRecipe(before, fresh));
    }
  }, [wanted, label, fresh, setDraft]);
  return {
    base: last.current,
    pending: wanted && !found.data && !found.error,
    error: wanted ? found.error : null,
  };
}
