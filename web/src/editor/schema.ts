/** What may stand where in a document: the part of JSON Schema that completion needs. */
export interface Schema {
  readonly description?: string;
  readonly properties?: { readonly [key: string]: Schema };
  readonly rest?: Schema; //: of keys that are not named
  readonly items?: Schema;
  readonly values?: readonly string[]; //: that are usual here
}

/** A step into a document: a key, or `[]` for the members of a list. */
export type Step = string;
export const MEMBER: Step = "[]";

export function schemaAt(schema: Schema, path: readonly Step[]): Schema | undefined {
  let here: Schema | undefined = schema;
  for (const step of path) {
    here = step === MEMBER ? here?.items : (here?.properties?.[step] ?? here?.rest);
    if (here === undefined) return undefined;
  }
  return here;
}
