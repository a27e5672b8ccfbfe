/** The inputs of the program: a field for each that its job declares or was launched with. */
import { m } from "../messages";
import { Field, RowList, Section, useForm } from "./form";
import type { InputField } from "./inputs";

const l = m.launch;

export function InputsPart() {
  const { draft, around } = useForm();
  const { inputs } = around;
  return (
    <Section title={l.inputs} hint={inputs.fields.length ? l.inputsHint : l.inputsNone}>
      {inputs.fields.map((field) => (
        <OneInput key={field.name} field={field} />
      ))}
      {inputs.open || draft.extra.length ? (
        <RowList of="extra" words={{ name: l.inputName, value: l.inputValue, add: l.addInput }} />
      ) : null}
    </Section>
  );
}

function OneInput({ field }: { field: InputField }) {
  const { draft, change } = useForm();
  const name = `inputs.${field.name}`;
  const value = draft.inputs[field.name] ?? "";
  const set = (text: string) => change({ inputs: { ...draft.inputs, [field.name]: text } }, name);
  const fallback = field.fallback === undefined ? "" : JSON.stringify(field.fallback);
  const isList = field.kind === "choice" || field.kind === "boolean";
  const told = fallback && !isList ? l.byDefault(fallback) : ""; // a list shows it itself
  const hint = [field.description, field.rule, told].filter(Boolean);
  const choices =
    field.kind === "choice"
      ? field.choices.map((choice) => [JSON.stringify(choice), String(choice)] as const)
      : ([
          ["true", l.yes],
          ["false", l.no],
        ] as const);
  const isLong = field.kind === "json";
  return (
    <Field
      name={name}
      label={<code>{field.name}</code>}
      hint={hint.join(" · ")}
      required={field.required}
      wide={isLong}
    >
      {(control) =>
        isList ? (
          <select {...control} className="input" value={value} onChange={(event) => set(event.target.value)}>
            <option value="">{fallback ? l.byDefault(fallback) : ""}</option>
            {choices.map(([key, label]) => (
              <option key={key} value={key}>
                {label}
              </option>
            ))}
          </select>
        ) : isLong ? (
          <textarea
            {...control}
            className="input mono"
            rows={2}
            value={value}
            placeholder={fallback}
            spellCheck={false}
            onChange={(event) => set(event.target.value)}
          />
        ) : (
          <input
            {...control}
            className="input mono"
            value={value}
            placeholder={fallback}
            spellCheck={false}
            autoComplete="off"
            onChange={(event) => set(event.target.value)}
          />
        )
      }
    </Field>
  );
}
