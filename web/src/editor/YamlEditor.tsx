import { lazy, Suspense } from "react";
import { m } from "../messages";
import { Skeleton } from "../ui/Notes";
import type { Problem } from "./problems";
import type { Schema } from "./schema";
import "../design/editor.css";

export type { Problem, Schema };

export interface YamlEditorProps {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly problems: readonly Problem[];
  readonly schema?: Schema | undefined;
  readonly readOnly?: boolean;
  readonly label: string;
}

const CodeEditor = lazy(() => import("./CodeEditor").then((module) => ({ default: module.CodeEditor })));

/** As high as the editor that takes its place. */
function Waiting() {
  return (
    <div className="yaml-editor-host">
      <Skeleton rows={8} />
    </div>
  );
}

/** A text field for YAML and JSON: colours, completion from a schema, problems marked where they are and
 * listed below. Its code is loaded when one is shown first. */
export function YamlEditor(props: YamlEditorProps) {
  return (
    <div className="yaml-editor">
      <Suspense fallback={<Waiting />}>
        <CodeEditor {...props} />
      </Suspense>
      {props.readOnly ? null : <p className="hidden-label">{m.editor.keys}</p>}
    </div>
  );
}
