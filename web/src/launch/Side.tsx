/** What would happen: the rendered object, and the same launch to type. */
import { Tabs } from "@base-ui/react/tabs";
import { useMemo, useState } from "react";
import type { Preview } from "../api/client";
import { m } from "../messages";
import { YamlView } from "../run/YamlView";
import { yamlLines } from "../run/yaml";
import { CopyButton } from "../ui/Copy";
import { bytes, cores } from "../ui/format";
import { ErrorNote, Skeleton } from "../ui/Notes";
import type { Order } from "./order";
import { commandLine, python } from "./typed";

const l = m.launch;

export function Side({
  order,
  asked,
  preview,
  error,
}: {
  order: Order;
  asked: boolean;
  preview: Preview | undefined;
  error: unknown;
}) {
  const [tab, setTab] = useState<"preview" | "command" | "python">("preview");
  return (
    <Tabs.Root
      value={tab}
      onValueChange={(next) => setTab(next as typeof tab)}
      className="launch-side"
      render={<section aria-label={l.side} />}
    >
      <Tabs.List className="launch-tabs" aria-label={l.side}>
        <Tabs.Tab value="preview" className="tab">
          {l.preview}
        </Tabs.Tab>
        <Tabs.Tab value="command" className="tab">
          {l.commandLine}
        </Tabs.Tab>
        <Tabs.Tab value="python" className="tab">
          {l.python}
        </Tabs.Tab>
      </Tabs.List>
      <Tabs.Panel value={tab} className="launch-panel">
        {!asked ? (
          <p className="dim launch-none">{l.previewEmpty}</p>
        ) : tab === "preview" ? (
          <PreviewPart preview={preview} error={error} />
        ) : tab === "command" ? (
          <CommandPart order={order} />
        ) : (
          <Code text={python(order)} label={l.thePython} />
        )}
      </Tabs.Panel>
    </Tabs.Root>
  );
}

function PreviewPart({ preview, error }: { preview: Preview | undefined; error: unknown }) {
  const lines = useMemo(() => yamlLines(preview?.manifest ?? {}), [preview]);
  if (error) return <ErrorNote error={error} />;
  if (!preview) return <Skeleton rows={8} />;
  return (
    <>
      <p className="dim launch-told">
        {l.previewOf(preview.queue, preview.queue_version)} · {l.previewChecked} · {preview.checked}
      </p>
      <YamlView lines={lines} sources={preview.sources} label={m.manifest.label} />
    </>
  );
}

function CommandPart({ order }: { order: Order }) {
  const { text, missing } = commandLine(order);
  return (
    <>
      <Code text={text} label={l.theCommand} />
      {missing.length ? <p className="warn">{l.cannotType(missing.join(", "))}</p> : null}
    </>
  );
}

function Code({ text, label }: { text: string; label: string }) {
  return (
    <div className="launch-code">
      <CopyButton text={text} label={l.copy(label)} />
      <pre className="code-block" role="region" tabIndex={0} aria-label={label}>
        {text}
      </pre>
    </div>
  );
}

/** `2 GPU · 4 CPU · 8 GiB` */
export function needs({ resources }: Preview): string {
  const { millicpus = 0, memory = 0, gpus = 0 } = resources;
  const parts = [
    gpus ? `${gpus} GPU` : "",
    millicpus ? `${cores(millicpus)} CPU` : "",
    memory ? bytes(memory) : "",
  ];
  return parts.filter(Boolean).join(" · ");
}
