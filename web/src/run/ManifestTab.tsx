import { useMemo } from "react";
import type { Run } from "../api/client";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { CopyButton, saveAs } from "../ui/Copy";
import { ErrorNote, Skeleton } from "../ui/Notes";
import { useManifest } from "./queries";
import { YamlView } from "./YamlView";
import { yamlLines, yamlText } from "./yaml";

export function ManifestTab({ run }: { run: Run }) {
  const { data, error, refetch } = useManifest(run.id);
  const lines = useMemo(() => (data ? yamlLines(data.manifest) : []), [data]);
  if (error) return <ErrorNote error={error} onRetry={() => void refetch()} />;
  if (!data) return <Skeleton rows={14} />;
  const text = yamlText(lines);
  return (
    <div className="manifest">
      <div className="block-head">
        <h2>{data.submitted ? m.manifest.submitted : m.manifest.preview}</h2>
        <CopyButton text={text} label={m.manifest.copy} />
        <Button kind="ghost" onClick={() => saveAs(new Blob([text]), `${run.name}-${run.id}.yaml`)}>
          {m.manifest.download}
        </Button>
      </div>
      <YamlView lines={lines} sources={data.sources} label={m.manifest.label} />
    </div>
  );
}
