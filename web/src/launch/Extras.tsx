/** What fewer launches need: a shape of several processes, what the queue leaves open, the environment. */
import { m } from "../messages";
import { SHAPE, type ShapeKey } from "./draft";
import { Field, Fold, RowList, TextField, useForm } from "./form";
import { useClaims } from "./queries";

const l = m.launch;
const HINTS: Partial<Record<ShapeKey, string>> = {
  procs_per_node: l.procsHint,
  max_restarts: l.restartsHint,
  rdzv_timeout: l.rdzvHint,
  shm: l.shmHint,
};
const FALLBACKS: Partial<Record<ShapeKey, string>> = {
  nodes: "1",
  procs_per_node: "1",
  max_restarts: "0",
  rdzv_timeout: "600",
};

export function Shape() {
  const { draft, around, fault } = useForm();
  const { opens } = around;
  const keys = SHAPE.filter((key) => (key === "shm" ? opens.shm : opens.shape));
  const whole = fault("training");
  return (
    <Fold
      title={l.shape}
      hint={opens.shape ? l.shapeHint : l.shapeOnlyShm}
      filled={keys.some((key) => draft.shape[key])}
      faulty={whole !== undefined || keys.some((key) => fault(`training.${key}`))}
    >
      {keys.map((key) => (
        <ShapeField key={key} of={key} />
      ))}
      {whole ? (
        <p className="field-error wide" id="launch-training" tabIndex={-1}>
          {whole}
        </p>
      ) : null}
    </Fold>
  );
}

function ShapeField({ of }: { of: ShapeKey }) {
  const { draft, change } = useForm();
  const name = `training.${of}`;
  const set = (text: string) => change({ shape: { ...draft.shape, [of]: text } }, name);
  return (
    <Field name={name} label={l[of]} hint={HINTS[of] ?? ""}>
      {(control) =>
        of === "launcher" ? (
          <select
            {...control}
            className="input"
            value={draft.shape.launcher || "auto"}
            onChange={(event) => set(event.target.value)}
          >
            {(["auto", "torchrun", "plain"] as const).map((launcher) => (
              <option key={launcher} value={launcher}>
                {l.launchers[launcher]}
              </option>
            ))}
          </select>
        ) : (
          <input
            {...control}
            className="input mono"
            value={draft.shape[of]}
            placeholder={FALLBACKS[of] ?? ""}
            spellCheck={false}
            autoComplete="off"
            onChange={(event) => set(event.target.value)}
          />
        )
      }
    </Field>
  );
}

/** What the owner of the queue allows a launch to set of its pods. */
export function Pod() {
  const { draft, around, change, fault } = useForm();
  const { resources, workdir, volumes } = around.opens;
  const claims = useClaims(draft.entity, draft.queue, volumes);
  if (!resources.length && !workdir && !volumes) return null;
  const fields = ["resources", "workdir", "volumes", ...draft.volumes.map((row) => `volumes.${row.id}`)];
  return (
    <Fold
      title={l.pod}
      hint={l.podHint}
      filled={
        resources.some((name) => draft.values[name]) || draft.workdir !== "" || draft.volumes.length > 0
      }
      faulty={fields.some((field) => fault(field))}
    >
      {resources.map((name) => (
        <Field key={name} name={`values.${name}`} label={l.resource[name]} hint={l.resourceHint[name]}>
          {(control) => (
            <input
              {...control}
              className="input mono"
              value={draft.values[name] ?? ""}
              spellCheck={false}
              autoComplete="off"
              onChange={(event) =>
                change({ values: { ...draft.values, [name]: event.target.value } }, `values.${name}`)
              }
            />
          )}
        </Field>
      ))}
      {workdir ? <TextField of="workdir" label={l.workdir} mono wide /> : null}
      {volumes ? (
        <>
          <p className="field-hint wide">{claims.length ? l.volumesKnown(claims.length) : l.volumesHint}</p>
          <RowList
            of="volumes"
            words={{ name: l.volumeName, value: l.volumeValue, add: l.addVolume }}
            example={l.volumeExample}
            options={claims}
          />
        </>
      ) : null}
    </Fold>
  );
}

export function Overrides() {
  const { draft, around, fault } = useForm();
  const { overrides } = around.opens;
  if (!overrides.length && !draft.overrides.length) return null;
  return (
    <Fold
      title={l.overrides}
      hint={l.overridesHint}
      filled={draft.overrides.length > 0}
      faulty={fault("overrides") !== undefined || draft.overrides.some((row) => fault(`overrides.${row.id}`))}
    >
      <RowList
        of="overrides"
        words={{ name: l.overrideName, value: l.overrideValue, add: l.addOverride }}
        options={overrides}
      />
    </Fold>
  );
}

export function Environment() {
  const { draft, fault } = useForm();
  return (
    <Fold
      title={l.env}
      hint={l.envHint}
      filled={draft.env.length > 0}
      faulty={fault("env") !== undefined || draft.env.some((row) => fault(`env.${row.id}`))}
    >
      <RowList of="env" words={{ name: l.envName, value: l.envValue, add: l.addEnv }} />
    </Fold>
  );
}
