/** The parts every section of the form is made of. A field knows its name, and so what is wrong with it. */
import { Plus, X } from "lucide-react";
import { createContext, type ReactNode, useContext, useState } from "react";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { type Draft, newRow, type Row } from "./draft";
import type { Surroundings } from "./order";

export interface Form {
  readonly draft: Draft;
  readonly around: Surroundings;
  /** `field`: the one that was changed, and now is to say what is wrong with it. */
  readonly change: (part: Partial<Draft>, field: string) => void;
  readonly fault: (field: string) => string | undefined;
}

const FormContext = createContext<Form | null>(null);
export const FormProvider = FormContext.Provider;

export function useForm(): Form {
  const form = useContext(FormContext);
  if (form === null) throw new Error("no form around this field");
  return form;
}

/** Names come from jobs and queues: an id has only what an id may have. */
export const idOf = (field: string): string =>
  `launch-${field.replace(/[^\w-]/g, (one) => `_${one.charCodeAt(0)}`)}`;

interface Control {
  readonly id: string;
  readonly "aria-describedby": string | undefined;
  readonly "aria-invalid": true | undefined;
}

export function Field({
  name,
  label,
  hint = "",
  required = false,
  wide = false,
  children,
}: {
  name: string;
  label: ReactNode;
  hint?: ReactNode;
  required?: boolean;
  wide?: boolean;
  children: (control: Control) => ReactNode;
}) {
  const error = useForm().fault(name);
  const id = idOf(name);
  const described = [hint ? `${id}-hint` : "", error ? `${id}-error` : ""].filter(Boolean).join(" ");
  return (
    <div className={`field ${wide ? "wide" : ""}`}>
      <label htmlFor={id}>
        {label}
        {required ? <span className="faint"> {m.launch.required}</span> : null}
      </label>
      {children({ id, "aria-describedby": described || undefined, "aria-invalid": error ? true : undefined })}
      {error ? (
        <p id={`${id}-error`} className="field-error">
          {error}
        </p>
      ) : null}
      {hint ? (
        <p id={`${id}-hint`} className="field-hint">
          {hint}
        </p>
      ) : null}
    </div>
  );
}

type Text =
  | "version"
  | "image"
  | "gitUrl"
  | "gitRef"
  | "gitFolder"
  | "entrypoint"
  | "project"
  | "name"
  | "workdir";

/** A field of the draft that is one line of text. */
export function TextField({
  of,
  name = of,
  label,
  hint,
  placeholder,
  mono = false,
  wide = false,
  required = false,
}: {
  of: Text;
  name?: string;
  label: string;
  hint?: string;
  placeholder?: string;
  mono?: boolean;
  wide?: boolean;
  required?: boolean;
}) {
  const { draft, change } = useForm();
  return (
    <Field name={name} label={label} hint={hint} wide={wide} required={required}>
      {(control) => (
        <input
          {...control}
          className={`input ${mono ? "mono" : ""}`}
          value={draft[of]}
          placeholder={placeholder}
          spellCheck={false}
          autoComplete="off"
          onChange={(event) => change({ [of]: event.target.value }, name)}
        />
      )}
    </Field>
  );
}

export function Section({ title, hint, children }: { title: string; hint?: ReactNode; children: ReactNode }) {
  return (
    <section className="launch-section" aria-label={title}>
      <h3>{title}</h3>
      {hint ? <p className="field-hint">{hint}</p> : null}
      <div className="fields">{children}</div>
    </section>
  );
}

/** A section that few need: folded, until it has something to show. */
export function Fold({
  title,
  hint,
  filled,
  faulty,
  children,
}: {
  title: string;
  hint?: ReactNode;
  filled: boolean;
  faulty: boolean;
  children: ReactNode;
}) {
  const [open, setOpen] = useState(filled);
  return (
    <details
      className="launch-section"
      open={open || faulty}
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary>
        <h3>{title}</h3>
      </summary>
      {hint ? <p className="field-hint">{hint}</p> : null}
      <div className="fields">{children}</div>
    </details>
  );
}

type Rows = "extra" | "env" | "overrides" | "volumes";

/** Names with values, as many as one likes. */
export function RowList({
  of,
  words,
  options = [],
  example = "",
}: {
  of: Rows;
  words: { readonly name: string; readonly value: string; readonly add: string };
  options?: readonly string[];
  example?: string;
}) {
  const { draft, change, fault } = useForm();
  const rows = draft[of];
  const set = (id: number, part: Partial<Row>) =>
    change({ [of]: rows.map((row) => (row.id === id ? { ...row, ...part } : row)) }, `${of}.${id}`);
  const list = options.length ? `launch-${of}-options` : undefined;
  const whole = fault(of);
  return (
    <div className="row-list wide">
      {rows.map((row, i) => {
        const error = fault(`${of}.${row.id}`);
        const id = idOf(`${of}.${row.id}`);
        const invalid = {
          "aria-invalid": error ? (true as const) : undefined,
          "aria-describedby": error ? `${id}-error` : undefined,
        };
        return (
          <div key={row.id} className="row">
            <input
              id={id}
              className="input mono"
              aria-label={m.launch.rowLabel(words.name, i + 1)}
              placeholder={words.name}
              value={row.name}
              readOnly={row.kept}
              list={list}
              spellCheck={false}
              autoComplete="off"
              {...invalid}
              onChange={(event) => set(row.id, { name: event.target.value })}
            />
            <input
              className="input mono"
              aria-label={m.launch.rowLabel(words.value, i + 1)}
              placeholder={example || words.value}
              value={row.value}
              spellCheck={false}
              autoComplete="off"
              {...invalid}
              onChange={(event) => set(row.id, { value: event.target.value })}
            />
            {row.kept ? (
              <span />
            ) : (
              <Button
                kind="ghost"
                icon={<X size={14} />}
                aria-label={m.launch.remove(m.launch.rowLabel(words.name, i + 1))}
                onClick={() => change({ [of]: rows.filter((one) => one.id !== row.id) }, of)}
              />
            )}
            {error ? (
              <p id={`${id}-error`} className="field-error">
                {error}
              </p>
            ) : null}
          </div>
        );
      })}
      {whole ? (
        <p className="field-error" id={idOf(of)} tabIndex={-1}>
          {whole}
        </p>
      ) : null}
      {list ? (
        <datalist id={list}>
          {options.map((option) => (
            <option key={option} value={option} />
          ))}
        </datalist>
      ) : null}
      <Button
        kind="ghost"
        className="add-row"
        icon={<Plus size={14} />}
        onClick={() => change({ [of]: [...rows, newRow()] }, "")}
      >
        {words.add}
      </Button>
    </div>
  );
}
