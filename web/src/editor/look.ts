import { EditorView } from "@codemirror/view";

/** The editor in the colours of the design: custom properties reach into the shadow tree. */
export const look = EditorView.theme({
  "&": {
    fontSize: "12.5px",
    color: "var(--ink)",
    backgroundColor: "var(--bg-raised)",
    height: "100%",
    colorScheme: "inherit",
  },
  "&.cm-focused": { outline: "2px solid var(--focus)", outlineOffset: "-1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6", overflow: "auto" },
  ".cm-content": { padding: "8px 0", caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": {
    backgroundColor: "var(--bg-sunken)",
    color: "var(--ink-3)",
    border: "0",
    borderRight: "1px solid var(--line)",
  },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--bg-hover) 70%, transparent)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--bg-selected)" },
  ".cm-tooltip": {
    border: "1px solid var(--line)",
    borderRadius: "var(--radius)",
    backgroundColor: "var(--bg-raised)",
    color: "var(--ink)",
    boxShadow: "var(--shadow-l)",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "220px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "2px 8px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": {
    backgroundColor: "var(--bg-selected)",
    color: "var(--ink)",
  },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "650" },
  ".cm-completionInfo": {
    padding: "6px 9px",
    maxWidth: "280px",
    fontFamily: "var(--font)",
    color: "var(--ink-2)",
  },
  ".cm-diagnostic": { padding: "5px 9px", fontFamily: "var(--font)", borderLeft: "3px solid var(--red)" },
  ".cm-lintRange-error": {
    backgroundImage: "none",
    textDecoration: "underline wavy var(--red)",
    textUnderlineOffset: "3px",
  },
  ".cm-gutter-lint .cm-gutterElement": { padding: "0 2px" },
  ".cm-lint-marker-error": {
    content: "normal",
    width: "9px",
    height: "9px",
    marginTop: "5px",
    borderRadius: "50%",
    backgroundColor: "var(--red)",
  },
});
