import type { YamlLine } from "./yaml";

/** Data as YAML to read, and beside each value where it came from, where that is known. */
export function YamlView({
  lines,
  sources,
  label,
}: {
  lines: readonly YamlLine[];
  sources?: Readonly<Record<string, string>> | undefined;
  label: string;
}) {
  return (
    <div className="yaml" role="region" aria-label={label} tabIndex={0}>
      {lines.map((line, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: lines are the same or all new
        <Line key={i} line={line} source={line.value === null ? undefined : sources?.[line.pointer]} />
      ))}
    </div>
  );
}

function Line({ line, source }: { line: YamlLine; source: string | undefined }) {
  const word = source?.split(" ")[0]?.replace(",", "") ?? "";
  const hang = `${2 * (line.indent + line.dashes) + 2}ch`; // a long value goes on deeper than its key
  return (
    <div className="yaml-line">
      <span className="yaml-text" style={{ paddingLeft: hang, textIndent: `-${hang}` }}>
        {"  ".repeat(line.indent)}
        {line.dashes ? <span className="faint">{"- ".repeat(line.dashes)}</span> : null}
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
