import { X } from "lucide-react";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { hasRange, type Row, TYPES, type VariableType } from "./draft";

const f = m.queueForm;
const COLUMNS = ["default", "minimum", "maximum", "choices", "description"] as const;

/** The variables of a config as rows: what a launch may choose, and within which limits. */
export function VariableRows({
  rows,
  used,
  onChange,
}: {
  rows: readonly Row[];
  used: ReadonlySet<string> | null; //: in the config as it stands; null: not known yet
  onChange: (rows: Row[]) => void;
}) {
  if (rows.length === 0) return <p className="dim">{f.variablesNone}</p>;
  const change = (at: number, part: Partial<Row>) =>
    onChange(rows.map((row, i) => (i === at ? { ...row, ...part } : row)));
  return (
    <>
      <p className="dim">{f.variablesHint}</p>
      <div className="scroll-x">
        <table className="table variable-rows" aria-label={f.variables}>
          <thead>
            <tr>
              <th scope="col">{f.column.name}</th>
              <th scope="col">{f.column.type}</th>
              {COLUMNS.map((column) => (
                <th key={column} scope="col">
                  {f.column[column]}
                </th>
              ))}
              <th scope="col">
                <span className="hidden-label">{m.common.clear}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row, at) => {
              const gone = used !== null && !used.has(row.name);
              return (
                <tr key={row.name}>
                  <th scope="row" className="mono">
                    {row.name}
                    {gone ? <span className="warn"> {f.unused}</span> : null}
                  </th>
                  <td>
                    <select
                      className="input"
                      aria-label={f.cell(f.column.type, row.name)}
                      value={row.type}
                      onChange={(event) => change(at, { type: event.target.value as VariableType })}
                    >
                      {TYPES.map((type) => (
                        <option key={type} value={type}>
                          {f.types[type]}
                        </option>
                      ))}
                    </select>
                  </td>
                  {COLUMNS.map((column) => (
                    <td key={column} className={`of-${column}`}>
                      <input
                        className="input"
                        aria-label={f.cell(f.column[column], row.name)}
                        value={row[column]}
                        placeholder={column === "choices" ? f.choicesHint : ""}
                        disabled={(column === "minimum" || column === "maximum") && !hasRange(row.type)}
                        spellCheck={column === "description"}
                        onChange={(event) => change(at, { [column]: event.target.value })}
                      />
                    </td>
                  ))}
                  <td>
                    {gone ? (
                      <Button
                        kind="ghost"
                        icon={<X size={14} />}
                        aria-label={f.drop(row.name)}
                        title={f.drop(row.name)}
                        onClick={() => onChange(rows.filter((_, i) => i !== at))}
                      />
                    ) : null}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </>
  );
}
