import { useMemo } from "react";
import type { Run } from "../api/client";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { CopyButton, saveAs } from "../ui/Copy";
import { ErrorNote, Skeleton } from "../ui/Notes";
import { useManifest } from "./queries";
import { type YamlLine, yamlLines, yamlText } from "./yaml";

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
      <div className="yaml" role="region" aria-label={m.manifest.label} tabIndex={0}>
        {lines.map((line, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the lines of a manifest never move
          <Line key={i} line={line} source={line.value === null ? undefined : data.sources?.[line.pointer]} />
        ))}
      </div>
    </div>
  );
}

function Line({ line, source }: { line: YamlLine; source: string | undefined }) {
  const word = source?.split(" ")[0]?.replace(",", "") ?? "";
  return (
    <div className="yaml-line">
      <span className="yaml-text">
        {"  ".repeat(line.indent)}
        {line.dash ? <span className="faint">- </span> : null}
        {line.key !== null ? <span className="yaml-key">{line.key}:</span> : null}
        {line.value !== null ? (
          <span className={`yaml-${line.kind}`}>
            {line.key !== null ? " " : ""}
            {line.value}
          </span>
        ) : null}
      </span>
      {source ? <span className={`yaml-source ${word}`}>{source}</span> : null}
    </div>
  );
}
