/** What could be typed at a place: keys and values of the schema, and what Muster fills in. */
import { m } from "../messages";
import { placeOf } from "./place";
import { type Schema, schemaAt } from "./schema";

export interface Suggestion {
  readonly label: string;
  readonly insert: string;
  readonly detail?: string | undefined;
}
export interface Suggestions {
  readonly typed: string;
  readonly eager: boolean; //: to be shown although nothing was typed yet
  readonly options: readonly Suggestion[];
}

const MACROS = [
  "image_uri",
  "run_id",
  "run_name",
  "project_name",
  "entity_name",
  "author",
  "queue_name",
  "attempt",
];

export function suggestions(lines: readonly string[], start: string, schema: Schema): Suggestions | null {
  const macro = /\$\{?(\w*)$/.exec(start);
  if (macro) {
    const options = MACROS.map((name) => ({
      label: `\${${name}}`,
      insert: `\${${name}}`,
      detail: m.editor.macros[name],
    }));
    return { typed: macro[0], eager: true, options };
  }
  const place = placeOf(lines, start);
  if (!place) return null;
  if (place.kind === "value") {
    const values = schemaAt(schema, place.path)?.values ?? [];
    if (!values.length) return null;
    return {
      typed: place.typed,
      eager: false,
      options: values.map((value) => ({ label: value, insert: value })),
    };
  }
  const keys = Object.entries(schemaAt(schema, place.path)?.properties ?? {});
  if (!keys.length) return null;
  const indent = start.length - place.typed.length;
  const options = keys.map(([name, of]) => ({
    label: name,
    insert: `${name}:${opening(of, indent)}`,
    detail: of.description,
  }));
  return { typed: place.typed, eager: false, options };
}

/** What follows the colon: the first line of what belongs there. */
function opening(of: Schema, indent: number): string {
  const deeper = " ".repeat(indent + 2);
  if (of.items) return `\n${deeper}- `;
  return of.properties ? `\n${deeper}` : " ";
}
