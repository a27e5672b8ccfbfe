/** The inputs of a job as fields of a form: those its JSON Schema declares, and those it was launched with. */
import { m } from "../messages";
import { NotReadable, readScalar, scalarText } from "./scalar";

export type Tree = { readonly [key: string]: unknown };
export type Kind = "integer" | "number" | "text" | "boolean" | "choice" | "json" | "any";

export interface InputField {
  readonly name: string; //: `optimizer.lr`, as the server names it
  readonly path: readonly string[];
  readonly kind: Kind;
  readonly required: boolean;
  readonly fallback: unknown; //: what is taken if nothing is given; undefined: nothing
  readonly choices: readonly unknown[];
  readonly rule: string; //: `0 … 10`
  readonly description: string;
}

export interface Inputs {
  readonly fields: readonly InputField[];
  readonly open: boolean; //: may others be given?
}

export function isTree(value: unknown): value is Tree {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function at(tree: unknown, path: readonly string[]): unknown {
  let node = tree;
  for (const step of path) node = isTree(node) ? node[step] : undefined;
  return node;
}

/** The fields of a declaration (`{schema, …}`, as jobs have it) over what was recorded. */
export function inputsOf(declaration: unknown, recorded: Tree): Inputs {
  const schema = isTree(declaration) ? declaration.schema : undefined;
  const declared = isTree(schema) ? [...declaredFields(schema, schema, [], true)] : [];
  const known = (path: readonly string[]) =>
    declared.some((field) => field.path.every((step, i) => path[i] === step));
  return {
    fields: [...declared, ...[...leaves(recorded, [])].filter((field) => !known(field.path))],
    open: !isTree(schema) || schema.additionalProperties !== false,
  };
}

function* declaredFields(
  root: Tree,
  given: unknown,
  path: readonly string[],
  required: boolean,
): Generator<InputField> {
  const schema = resolved(root, given);
  const properties = isTree(schema.properties) ? schema.properties : {};
  if (typeOf(schema) === "object" && Object.keys(properties).length) {
    const needed = Array.isArray(schema.required) ? schema.required : [];
    for (const [name, inner] of Object.entries(properties)) {
      yield* declaredFields(root, inner, [...path, name], required && needed.includes(name));
    }
  } else if (path.length) {
    const choices =
      "const" in schema ? [schema.const] : Array.isArray(schema.enum) ? (schema.enum as unknown[]) : [];
    yield {
      name: path.join("."),
      path,
      kind: choices.length ? "choice" : kindOf(typeOf(schema)),
      required: required && schema.default === undefined,
      fallback: schema.default,
      choices,
      rule: ruleOf(schema),
      description: String(schema.description ?? schema.title ?? ""),
    };
  }
}

/** With its `$ref` followed and its `allOf` put together; of `X or null`, X. */
function resolved(root: Tree, given: unknown): Tree {
  let schema = isTree(given) ? given : {};
  if (typeof schema.$ref === "string" && schema.$ref.startsWith("#/$defs/")) {
    const { $ref, ...own } = schema;
    const name = $ref.slice("#/$defs/".length).replaceAll("~1", "/").replaceAll("~0", "~");
    schema = { ...resolved(root, at(root, ["$defs", name])), ...own };
  }
  if (Array.isArray(schema.allOf)) {
    const { allOf, ...own } = schema;
    const parts = allOf.map((part) => resolved(root, part));
    const properties = Object.assign({}, ...parts.map((part) => part.properties ?? {}), own.properties);
    schema = Object.assign({}, ...parts, own, Object.keys(properties).length ? { properties } : {});
  }
  if (Array.isArray(schema.anyOf)) {
    const some = schema.anyOf.filter((way) => !isTree(way) || way.type !== "null");
    if (some.length === 1) {
      const { anyOf: _, ...own } = schema;
      schema = { ...resolved(root, some[0]), ...own };
    }
  }
  return schema;
}

function typeOf(schema: Tree): string | undefined {
  const type = Array.isArray(schema.type) ? schema.type.filter((one) => one !== "null") : schema.type;
  if (Array.isArray(type)) return type.length === 1 ? String(type[0]) : undefined;
  if (typeof type === "string") return type;
  return isTree(schema.properties) ? "object" : undefined;
}

function kindOf(type: string | undefined): Kind {
  if (type === "integer" || type === "number" || type === "boolean") return type;
  if (type === "string") return "text";
  return type === undefined ? "any" : "json";
}

function ruleOf(schema: Tree): string {
  const low = schema.minimum ?? schema.exclusiveMinimum;
  const high = schema.maximum ?? schema.exclusiveMaximum;
  const parts = [
    m.launch.range(
      low === undefined ? "" : String(low),
      high === undefined ? "" : String(high),
      schema.minimum === undefined,
      schema.maximum === undefined,
    ),
    typeof schema.pattern === "string" ? m.launch.pattern(schema.pattern) : "",
  ];
  return parts.filter(Boolean).join(", ");
}

/** What was recorded, as fields of whatever type. */
function* leaves(tree: Tree, path: readonly string[]): Generator<InputField> {
  for (const [name, value] of Object.entries(tree)) {
    const here = [...path, name];
    if (isTree(value) && Object.keys(value).length) yield* leaves(value, here);
    else {
      yield {
        name: here.join("."),
        path: here,
        kind: "any",
        required: false,
        fallback: undefined,
        choices: [],
        rule: "",
        description: "",
      };
    }
  }
}

/** A value as the field shows it. */
export function textOf(field: InputField, value: unknown): string {
  if (value === undefined) return "";
  if (field.kind === "choice" || field.kind === "json") return JSON.stringify(value);
  if (field.kind === "text" && typeof value === "string") return value;
  return typeof value === "number" || typeof value === "boolean" ? String(value) : scalarText(value);
}

/** What the field says. A text where a number should be goes on as it is: the server says what is wrong. */
export function valueIn(field: InputField, text: string): unknown {
  if (field.kind === "text") return text;
  if (field.kind === "any") return readScalar(text);
  if (field.kind === "json" || field.kind === "choice") {
    try {
      return JSON.parse(text) as unknown;
    } catch {
      throw new NotReadable(text);
    }
  }
  const value = readScalar(/^['"[{]/.test(text) ? JSON.stringify(text) : text);
  return value === null ? text : value;
}

/** The tree with this value in it; undefined where something else is in the way. */
export function withValue(tree: Tree, path: readonly string[], value: unknown): Tree | undefined {
  const [step, ...rest] = path;
  if (step === undefined || step === "") return undefined;
  if (!rest.length) return { ...tree, [step]: value };
  const inner = tree[step] ?? {};
  const changed = isTree(inner) ? withValue(inner, rest, value) : undefined;
  return changed && { ...tree, [step]: changed };
}

export function same(one: unknown, other: unknown): boolean {
  return JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isTree(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, inner]) => [key, sorted(inner)]),
  );
}
