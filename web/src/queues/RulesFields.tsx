import { useId, useState } from "react";
import { m } from "../messages";
import { Select } from "../ui/Select";
import { ALLOWED, type Rules } from "./draft";

const f = m.queueForm;
const LIMITS = ["runs", "gpus", "userRuns", "userGpus"] as const;
const ORDERS = Object.entries(m.queue.orders).map(([value, label]) => ({ value, label }));
const SECURITIES = Object.entries(f.securities).map(([value, label]) => ({ value, label }));

/** What an owner rules besides the config. */
export function RulesFields({ rules, onChange }: { rules: Rules; onChange: (rules: Rules) => void }) {
  const ids = useId();
  const set = (part: Partial<Rules>) => onChange({ ...rules, ...part });
  return (
    <details className="rules">
      <summary>{f.rules}</summary>
      <div className="fields">
        {LIMITS.map((name) => (
          <label key={name} htmlFor={`${ids}-${name}`}>
            {f[name]}
            <input
              id={`${ids}-${name}`}
              className="input"
              type="number"
              min={0}
              step={1}
              placeholder={f.noLimit}
              value={rules[name]}
              onChange={(event) => set({ [name]: event.target.value })}
            />
          </label>
        ))}
        <div className="field">
          <span>{f.order}</span>
          <Select
            label={f.order}
            value={rules.order}
            options={ORDERS}
            onChange={(order) => set({ order: order as Rules["order"] })}
          />
        </div>
        <div className="field">
          <span>{f.security}</span>
          <Select
            label={f.security}
            value={rules.security}
            options={SECURITIES}
            onChange={(security) => set({ security: security as Rules["security"] })}
          />
        </div>
        <label htmlFor={`${ids}-image`}>
          {f.image}
          <input
            id={`${ids}-image`}
            className="input"
            value={rules.image}
            placeholder={f.imageHint}
            spellCheck={false}
            onChange={(event) => set({ image: event.target.value })}
          />
        </label>
        <label htmlFor={`${ids}-overridable`} className="wide">
          {f.overridable}
          <Paths
            id={`${ids}-overridable`}
            paths={rules.overridable}
            onChange={(overridable) => set({ overridable })}
          />
        </label>
        <fieldset className="allow wide">
          <legend>{f.allow}</legend>
          {ALLOWED.map((what) => (
            <label key={what} htmlFor={`${ids}-allow-${what}`} className="check">
              <input
                id={`${ids}-allow-${what}`}
                type="checkbox"
                checked={rules.allow.includes(what)}
                onChange={(event) =>
                  set({
                    allow: ALLOWED.filter((one) =>
                      one === what ? event.target.checked : rules.allow.includes(one),
                    ),
                  })
                }
              />
              {f.allowed[what]}
            </label>
          ))}
        </fieldset>
        <label htmlFor={`${ids}-priorities`} className="check">
          <input
            id={`${ids}-priorities`}
            type="checkbox"
            checked={rules.priorities}
            onChange={(event) => set({ priorities: event.target.checked })}
          />
          {f.priorities}
        </label>
      </div>
    </details>
  );
}

/** Paths with commas between them; as one types, not as they are read. */
function Paths({
  id,
  paths,
  onChange,
}: {
  id: string;
  paths: readonly string[] | null;
  onChange: (paths: readonly string[] | null) => void;
}) {
  const [text, setText] = useState((paths ?? []).join(", "));
  const change = (typed: string) => {
    setText(typed);
    const read = typed.split(",").map((path) => path.trim());
    onChange(typed.trim() ? read.filter(Boolean) : null);
  };
  return (
    <input
      id={id}
      className="input mono"
      value={text}
      placeholder={f.overridableHint}
      spellCheck={false}
      autoComplete="off"
      onChange={(event) => change(event.target.value)}
    />
  );
}
