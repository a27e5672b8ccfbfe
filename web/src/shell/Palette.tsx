/** Search and jump: pages, queues, runs by name or id. */
import { Dialog } from "@base-ui/react/dialog";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, type ReactNode, useDeferredValue, useEffect, useId, useState } from "react";
import { api, ask } from "../api/client";
import { m } from "../messages";
import { StateIcon } from "../ui/StateBadge";
import { isDark, setTheme } from "../ui/theme";

interface Entry {
  readonly id: string;
  readonly part: string;
  readonly label: string;
  readonly note?: string;
  readonly icon?: ReactNode;
  readonly go: () => void;
}

export function Palette({
  open,
  onClose,
  onShortcuts,
  onLaunch,
}: {
  open: boolean;
  onClose: () => void;
  onShortcuts: () => void;
  onLaunch: () => void;
}) {
  return (
    <Dialog.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="palette" aria-label={m.palette.label}>
          <Search onClose={onClose} onShortcuts={onShortcuts} onLaunch={onLaunch} />
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

interface Deeds {
  onShortcuts: () => void;
  onLaunch: () => void;
}

function Search({ onClose, ...deeds }: { onClose: () => void } & Deeds) {
  const [text, setText] = useState("");
  const [picked, setPicked] = useState(""); // the id of an entry; the first is, if nobody picked
  const [entered, setEntered] = useState(false); // before what was typed had been looked up
  const list = useId();
  const { entries, settled } = useEntries(text.trim(), deeds);
  const found = entries.findIndex((entry) => entry.id === picked);
  const current = Math.max(0, found);
  const pick = (id: string) => {
    setPicked(id);
    setEntered(false);
  };
  const choose = (entry: Entry | undefined) => {
    if (!entry) return;
    onClose();
    entry.go();
  };
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      pick(entries.at((current + step) % Math.max(1, entries.length))?.id ?? "");
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (settled) choose(entries[current]);
      else setEntered(true);
    }
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: it waits for the answer, not for the entries
  useEffect(() => {
    if (!entered || !settled) return;
    setEntered(false);
    if (!picked || found >= 0) choose(entries[current]); // what was picked may not match what was typed
  }, [entered, settled]);
  return (
    <>
      <input
        className="palette-input"
        role="combobox"
        aria-expanded="true"
        aria-controls={list}
        aria-activedescendant={entries[current] ? `${list}-${entries[current].id}` : undefined}
        aria-label={m.palette.label}
        placeholder={m.palette.placeholder}
        value={text}
        onKeyDown={onKey}
        onChange={(event) => {
          setText(event.target.value);
          pick("");
        }}
      />
      <div
        id={list}
        role="listbox"
        aria-label={m.palette.label}
        aria-busy={!settled}
        className="palette-list"
      >
        {entries.map((entry, i) => (
          <div key={entry.id} role="presentation">
            {entry.part !== entries[i - 1]?.part ? <div className="menu-label">{entry.part}</div> : null}
            {/* biome-ignore lint/a11y/useKeyWithClickEvents: keys are handled in the input, which keeps the focus */}
            <div
              id={`${list}-${entry.id}`}
              role="option"
              tabIndex={-1}
              aria-selected={i === current}
              className="menu-item"
              data-highlighted={i === current ? "" : undefined}
              onMouseMove={() => entry.id !== picked && pick(entry.id)}
              onClick={() => choose(entry)}
              ref={i === current ? (element) => element?.scrollIntoView({ block: "nearest" }) : undefined}
            >
              {entry.icon}
              <span className="cut">{entry.label}</span>
              <span className="menu-note mono">{entry.note}</span>
            </div>
          </div>
        ))}
        {settled && entries.length === 0 ? <p className="faint palette-none">{m.palette.empty}</p> : null}
      </div>
    </>
  );
}

/** What matches the text. Until it is settled, runs and jobs are those of what was typed before. */
function useEntries(text: string, { onShortcuts, onLaunch }: Deeds): { entries: Entry[]; settled: boolean } {
  const navigate = useNavigate();
  const asked = useDeferredValue(text);
  const queues = useQuery({ queryKey: ["queues"], queryFn: () => ask(api.GET("/api/v1/queues")) });
  const runs = useQuery({
    queryKey: ["palette", asked],
    queryFn: () =>
      ask(api.GET("/api/v1/runs", { params: { query: { limit: 8, ...(asked ? { text: asked } : {}) } } })),
    placeholderData: (before) => before,
  });
  const jobs = useQuery({
    queryKey: ["palette", "jobs", asked],
    enabled: asked !== "",
    queryFn: () => ask(api.GET("/api/v1/jobs", { params: { query: { limit: 5, text: asked } } })),
  });
  const answered = [runs, jobs, queues].every((one) => !one.isLoading && !one.isPlaceholderData);
  const matches = (label: string) => label.toLowerCase().includes(text.toLowerCase());
  const pages: Entry[] = [
    {
      id: "runs",
      part: m.palette.pages,
      label: m.nav.runs,
      note: "g r",
      go: () => navigate({ to: "/runs" }),
    },
    {
      id: "jobs",
      part: m.palette.pages,
      label: m.nav.jobs,
      note: "g j",
      go: () => navigate({ to: "/jobs" }),
    },
    {
      id: "queues",
      part: m.palette.pages,
      label: m.nav.queues,
      note: "g q",
      go: () => navigate({ to: "/queues" }),
    },
    {
      id: "agents",
      part: m.palette.pages,
      label: m.nav.agents,
      note: "g a",
      go: () => navigate({ to: "/agents" }),
    },
    {
      id: "cluster",
      part: m.palette.pages,
      label: m.nav.cluster,
      note: "g c",
      go: () => navigate({ to: "/cluster" }),
    },
    {
      id: "settings",
      part: m.palette.pages,
      label: m.settings.title,
      go: () => navigate({ to: "/settings" }),
    },
    { id: "launch", part: m.palette.actions, label: m.shortcuts.launch, note: "l", go: onLaunch },
    {
      id: "theme",
      part: m.palette.actions,
      label: m.palette.theme,
      go: () => setTheme(isDark() ? "light" : "dark"),
    },
    { id: "keys", part: m.palette.actions, label: m.nav.shortcuts, note: "?", go: onShortcuts },
  ];
  const entries = [
    ...(runs.data?.items ?? []).map((run) => ({
      id: run.id,
      part: m.palette.runs,
      label: run.name,
      note: run.id,
      icon: <StateIcon state={run.state} />,
      go: () => navigate({ to: "/runs/$runId", params: { runId: run.id } }),
    })),
    ...pages.filter((entry) => matches(entry.label)),
    ...(text ? (jobs.data?.items ?? []) : []).map(({ entity, project, name }) => ({
      id: `job-${entity}-${project}-${name}`,
      part: m.palette.jobs,
      label: name,
      note: `${entity}/${project}`,
      go: () => navigate({ to: "/$entity/$project/jobs/$job", params: { entity, project, job: name } }),
    })),
    ...(queues.data?.items ?? [])
      .filter((queue) => text && matches(queue.name))
      .slice(0, 5)
      .map((queue) => ({
        id: `queue-${queue.entity}-${queue.name}`,
        part: m.palette.queues,
        label: queue.name,
        note: queue.entity,
        go: () =>
          navigate({
            to: "/queues/$queueName",
            params: { queueName: queue.name },
            search: { entity: queue.entity },
          }),
      })),
  ];
  return { entries, settled: asked === text && answered };
}
