/** The queue's config to edit as a whole, where its owner opened parts of it: what changes becomes overrides. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api, ask, type Queue } from "../api/client";
import { YamlEditor } from "../editor/YamlEditor";
import { m } from "../messages";
import { useSettled } from "../queues/queries";
import { schemaFor } from "../queues/schemas";
import { yamlLines, yamlText } from "../run/yaml";
import { newRow } from "./draft";
import { useForm } from "./form";
import { unwrapped } from "./queue";
import { differences } from "./resourceconfig";
import { scalarText } from "./scalar";

const l = m.launch;

export function ResourceConfig({ queue }: { queue: Queue }) {
  const [open, setOpen] = useState(false);
  return (
    <details className="launch-section" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <h3>{l.resourceConfig}</h3>
      </summary>
      <p className="field-hint">{l.resourceConfigHint}</p>
      {open ? <Editor key={`${queue.entity}/${queue.name} ${queue.version}`} queue={queue} /> : null}
    </details>
  );
}

function Editor({ queue }: { queue: Queue }) {
  const { draft, change } = useForm();
  const config = unwrapped(queue.config);
  const [first] = useState(() => yamlText(yamlLines(config)));
  const [text, setText] = useState(first);
  const settled = useSettled(text);
  const body = { text: settled, resource: queue.resource, variables: queue.variables };
  const { data: parsed } = useQuery({
    queryKey: ["parse", body],
    queryFn: () => ask(api.POST("/api/v1/queues/parse", { body: body as never })),
    enabled: settled !== first,
    placeholderData: keepPreviousData,
  });
  const told =
    settled === first ? { changes: [], removed: [] } : differences(config, parsed?.config ?? config);
  const known = settled === first || parsed?.config != null;
  const rows = JSON.stringify(told.changes);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the rows follow what is written, nothing else
  useEffect(() => {
    if (!known || (settled === first && text !== first)) return;
    const kept = draft.overrides.filter((row) => row.kept);
    const made = told.changes.map(([path, value]) => {
      const old = kept.find((row) => row.name === path);
      return old ? { ...old, value: scalarText(value) } : newRow(path, scalarText(value));
    });
    const rest = kept.filter((row) => !made.some((one) => one.id === row.id));
    if (settled !== first || draft.overrides.some((row) => !row.kept)) {
      change({ overrides: [...rest, ...made] }, "overrides");
    }
  }, [rows, known]);
  return (
    <div className="resource-config">
      <YamlEditor
        value={text}
        onChange={setText}
        problems={settled === first ? [] : (parsed?.errors ?? [])}
        schema={schemaFor(queue.resource)}
        label={l.resourceConfig}
      />
      <p className="field-hint" role="status">
        {told.changes.length ? l.changedPaths(told.changes.map(([path]) => path).join(", ")) : l.changedNone}
      </p>
      {told.removed.length ? <p className="field-error">{l.removedPaths(told.removed.join(", "))}</p> : null}
    </div>
  );
}
