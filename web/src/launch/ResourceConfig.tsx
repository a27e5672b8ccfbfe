/** The queue's config to edit as a whole, where its owner opened parts of it: what changes becomes overrides. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useLayoutEffect, useMemo, useState } from "react";
import { api, ask, type Queue } from "../api/client";
import { YamlEditor } from "../editor/YamlEditor";
import { m } from "../messages";
import { useSettled } from "../queues/queries";
import { schemaFor } from "../queues/schemas";
import { yamlLines, yamlText } from "../run/yaml";
import { newRow } from "./draft";
import { useForm } from "./form";
import { unwrapped } from "./queue";
import { type Differences, differences } from "./resourceconfig";
import { scalarText } from "./scalar";

const l = m.launch;

export function ResourceConfig({ queue }: { queue: Queue }) {
  const [opened, setOpened] = useState(false); // and from then on what is written stays
  return (
    <details className="launch-section" onToggle={() => setOpened(true)}>
      <summary>
        <h3>{l.resourceConfig}</h3>
      </summary>
      <p className="field-hint">{l.resourceConfigHint}</p>
      {opened ? <Editor key={`${queue.entity}/${queue.name} ${queue.version}`} queue={queue} /> : null}
    </details>
  );
}

function Editor({ queue }: { queue: Queue }) {
  const { draft, change, fault } = useForm();
  const config = unwrapped(queue.config);
  const [first] = useState(() => yamlText(yamlLines(config)));
  const [text, setText] = useState(first);
  const settled = useSettled(text);
  const body = { text: settled, resource: queue.resource, variables: queue.variables };
  const { data: parsed, isPlaceholderData } = useQuery({
    queryKey: ["parse", body],
    queryFn: () => ask(api.POST("/api/v1/queues/parse", { body: body as never })),
    enabled: settled !== first,
    placeholderData: keepPreviousData,
  });
  const read = settled === first ? config : isPlaceholderData ? undefined : parsed?.config;
  const told = useMemo(() => (read ? differences(config, read) : NOTHING_TOLD), [config, read]);
  const unread =
    text === settled && read
      ? told.removed.length
        ? l.removedPaths(told.removed.join(", "))
        : ""
      : l.configUnread;
  // At once: the next key may send the form.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the form follows what is written, nothing else
  useLayoutEffect(() => {
    if (unread) return change({ unread }, "");
    const kept = draft.overrides.filter((row) => row.kept);
    const made = told.changes.map(([path, value]) => {
      const old = kept.find((row) => row.name === path);
      return old ? { ...old, value: scalarText(value) } : newRow(path, scalarText(value));
    });
    const rest = kept.filter((row) => !made.some((one) => one.id === row.id));
    const edited = text !== first || draft.unread !== "";
    change(edited ? { unread, overrides: [...rest, ...made] } : { unread }, edited ? "overrides" : "");
  }, [unread, told]);
  // Of another queue, nothing of it is left.
  // biome-ignore lint/correctness/useExhaustiveDependencies: when it goes
  useEffect(() => () => change({ unread: "" }, ""), []);
  const wrong = fault("unread") ?? (told.removed.length ? unread : "");
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
      {wrong ? (
        <p className="field-error" tabIndex={-1}>
          {wrong}
        </p>
      ) : null}
    </div>
  );
}

const NOTHING_TOLD: Differences = { changes: [], removed: [] };
