/** The editor itself. It lives in a shadow tree: there its styles are adopted sheets, which the policy of the
 * pages allows; style elements it does not. */
import {
  acceptCompletion,
  autocompletion,
  type CompletionContext,
  type CompletionResult,
  completionKeymap,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, HighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { Annotation, Compartment, EditorState } from "@codemirror/state";
import { EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { CircleAlert } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { flushSync } from "react-dom";
import { m } from "../messages";
import { suggestions } from "./complete";
import { look } from "./look";
import { type Problem, spanOf } from "./problems";
import type { Schema } from "./schema";
import type { YamlEditorProps } from "./YamlEditor";

const fromOutside = Annotation.define<boolean>();

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--ansi-blue)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--ansi-green)" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: "var(--ansi-magenta)" },
  { tag: tags.comment, color: "var(--ink-3)" },
  { tag: [tags.punctuation, tags.separator, tags.squareBracket, tags.brace], color: "var(--ink-2)" },
  { tag: [tags.meta, tags.labelName, tags.typeName], color: "var(--ansi-cyan)" },
]);

export function CodeEditor({ value, onChange, problems, schema, readOnly = false, label }: YamlEditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const locked = useRef(new Compartment());
  const named = useRef(new Compartment());
  const [line, setLine] = useState(1);
  const told = useRef<string[]>([]); //: what was typed and has not come back as `value` yet
  const latest = useRef({ onChange, schema });
  latest.current = { onChange, schema };

  // biome-ignore lint/correctness/useExhaustiveDependencies: made once; what changes is told to it below
  useEffect(() => {
    const place = host.current;
    if (!place) return;
    const root = place.shadowRoot ?? place.attachShadow({ mode: "open" });
    const made = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: value,
        extensions: [
          lineNumbers(),
          lintGutter(),
          history(),
          highlightActiveLine(),
          bracketMatching(),
          indentUnit.of("  "),
          EditorState.tabSize.of(2),
          yaml(),
          syntaxHighlighting(colours),
          autocompletion({ override: [(context) => complete(context, latest.current.schema)], icons: false }),
          keymap.of([
            ...completionKeymap,
            { key: "Tab", run: acceptCompletion }, // else it leaves the editor, as everywhere
            ...historyKeymap,
            ...lintKeymap,
            ...defaultKeymap,
          ]),
          locked.current.of(lockedTo(readOnly)),
          named.current.of(namedAs(label)),
          EditorView.updateListener.of((update) => {
            if (update.selectionSet || update.docChanged) {
              setLine(update.state.doc.lineAt(update.state.selection.main.head).number);
            }
            const own = update.transactions.every((one) => one.annotation(fromOutside) === undefined);
            if (!update.docChanged || !own) return;
            const text = update.state.doc.toString();
            told.current.push(text);
            flushSync(() => latest.current.onChange(text)); // before the next key: it may send the form
          }),
          look,
        ],
      }),
    });
    view.current = made;
    // What closed a list of completions must not close the dialog around the editor, too.
    const keep = (event: KeyboardEvent) => {
      if (event.key === "Escape" && event.defaultPrevented) event.stopPropagation();
    };
    place.addEventListener("keydown", keep);
    return () => {
      place.removeEventListener("keydown", keep);
      made.destroy();
      view.current = null;
    };
  }, []);

  useEffect(() => {
    const made = view.current;
    const echo = told.current.lastIndexOf(value);
    told.current.splice(0, echo + 1);
    // Where drawing is slower than typing, what was told a moment ago comes back: it is no news.
    if (!made || echo >= 0 || made.state.doc.toString() === value) return;
    made.dispatch({
      changes: { from: 0, to: made.state.doc.length, insert: value },
      annotations: fromOutside.of(true),
    });
  }, [value]);

  useEffect(() => {
    view.current?.dispatch({ effects: locked.current.reconfigure(lockedTo(readOnly)) });
  }, [readOnly]);
  useEffect(() => {
    view.current?.dispatch({ effects: named.current.reconfigure(namedAs(label)) });
  }, [label]);

  useEffect(() => {
    const made = view.current;
    if (made) made.dispatch(setDiagnostics(made.state, diagnostics(made.state.doc.toString(), problems)));
  }, [problems]);

  const go = (problem: Problem) => {
    const made = view.current;
    const span = made && spanOf(made.state.doc.toString(), problem.line, problem.column);
    if (!span) return;
    made.dispatch({ selection: { anchor: span.from }, scrollIntoView: true });
    made.focus();
  };
  return (
    <>
      <div ref={host} className="yaml-editor-host" />
      <ul className="problems" aria-label={m.editor.problems} aria-live="polite">
        {problems.map((problem) => (
          <li
            key={`${problem.line}:${problem.column}:${problem.message}`}
            className={problem.line === line ? "here" : ""}
          >
            <CircleAlert size={14} aria-hidden="true" />
            <span>
              {problem.line !== null ? (
                <button type="button" className="link" onClick={() => go(problem)}>
                  {m.editor.at(problem.line, problem.column)}
                </button>
              ) : null}{" "}
              {problem.message}
              {problem.hint ? <span className="dim"> {problem.hint}</span> : null}
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}

const lockedTo = (readOnly: boolean) => [
  EditorState.readOnly.of(readOnly),
  EditorView.editable.of(!readOnly),
  readOnly ? EditorView.contentAttributes.of({ tabindex: "0" }) : [],
];
const namedAs = (label: string) => EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" });

function diagnostics(text: string, problems: readonly Problem[]): Diagnostic[] {
  return problems
    .flatMap((problem) => {
      const span = spanOf(text, problem.line, problem.column);
      const message = problem.hint ? `${problem.message}. ${problem.hint}` : problem.message;
      return span ? [{ ...span, message, severity: "error" as const }] : [];
    })
    .sort((one, other) => one.from - other.from);
}

function complete(context: CompletionContext, schema: Schema | undefined): CompletionResult | null {
  const line = context.state.doc.lineAt(context.pos);
  const start = line.text.slice(0, context.pos - line.from);
  const before = context.state.doc.sliceString(0, line.from).split("\n").slice(0, -1);
  const found = suggestions(before, start, schema ?? {});
  if (!found || (!context.explicit && found.typed === "" && !found.eager)) return null;
  return {
    from: context.pos - found.typed.length,
    options: found.options.map(({ label, insert, detail }) => ({
      label,
      apply: insert,
      ...(detail ? { info: () => note(detail) } : {}),
    })),
    validFor: /^[\w./{}$-]*$/,
  };
}

function note(text: string): HTMLElement {
  const element = document.createElement("div");
  element.textContent = text;
  return element;
}
