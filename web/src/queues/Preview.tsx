import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo, useRef } from "react";
import { api, ask } from "../api/client";
import { m } from "../messages";
import { YamlView } from "../run/YamlView";
import { yamlLines } from "../run/yaml";
import { ErrorNote } from "../ui/Notes";
import { declarations, type Row, type Rules, rulesBody } from "./draft";
import { useSettled } from "./queries";

const f = m.queueForm;

/** What a launch would start, drawn anew while the config is written. */
export function Preview({
  draft,
  ready,
}: {
  draft: { name: string; resource: string; text: string; rows: readonly Row[]; rules: Rules };
  ready: boolean;
}) {
  const { name, resource, text, rows, rules } = draft;
  const asked = useMemo(
    () => ({
      text,
      resource,
      name: name.trim() || "queue",
      variables: declarations(rows),
      ...rulesBody(rules),
    }),
    [text, resource, name, rows, rules],
  );
  const body = useSettled(asked);
  const { data, error } = useQuery({
    queryKey: ["trial", body],
    queryFn: () => ask(api.POST("/api/v1/queues/preview", { body })),
    enabled: ready,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
    placeholderData: keepPreviousData,
  });
  const good = useRef(data); // stays while what is being written cannot be rendered
  if (data) good.current = data;
  const shown = good.current;
  const lines = useMemo(() => (shown ? yamlLines(shown.manifest) : []), [shown]);
  const old = !ready || (error && !data);
  return (
    <aside className="preview" aria-label={f.preview}>
      <h3>{f.preview}</h3>
      <p className="dim">{!shown ? f.previewWaits : old ? f.previewOld : `${f.previewHint} ${f.sample}`}</p>
      {error && ready ? <ErrorNote error={error} /> : null}
      {shown ? <YamlView lines={lines} sources={shown.sources} label={f.previewLabel} /> : null}
    </aside>
  );
}
