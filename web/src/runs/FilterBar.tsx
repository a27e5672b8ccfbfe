import { Menu } from "@base-ui/react/menu";
import { useQuery } from "@tanstack/react-query";
import { ChevronDown, Columns3, Search, X } from "lucide-react";
import { memo, type RefObject, useEffect, useState } from "react";
import { api, ask } from "../api/client";
import { m } from "../messages";
import { StateIcon } from "../ui/StateBadge";
import { COLUMNS, setHidden, useHidden } from "./columns";
import { Facet } from "./Facet";
import { ACTIVE, EVERYTHING, isNarrowed, type RunFilter, STATES } from "./filter";

const TYPING_PAUSE = 180;

interface Props {
  filter: RunFilter;
  onChange: (filter: RunFilter) => void;
  projects: readonly string[]; //: of the runs that are listed
  authors: readonly string[];
  fold: boolean;
  onFold: (fold: boolean) => void;
  searchRef: RefObject<HTMLInputElement | null>;
}

export const FilterBar = memo(function FilterBar(props: Props) {
  const { filter, onChange, projects, authors, fold, onFold, searchRef } = props;
  const queues = useQuery({ queryKey: ["queues"], queryFn: () => ask(api.GET("/api/v1/queues")) });
  const people = useQuery({ queryKey: ["entities"], queryFn: () => ask(api.GET("/api/v1/entities")) });
  const jobs = useQuery({
    queryKey: ["jobs", "names"],
    queryFn: () => ask(api.GET("/api/v1/jobs", { params: { query: { limit: 200 } } })),
  });
  const names = (words: readonly string[]) => [...new Set(words)].sort();
  const f = m.runs.facets;
  return (
    <div className="filter-bar">
      <TextFilter
        text={filter.text}
        onChange={(text) => onChange({ ...filter, text })}
        inputRef={searchRef}
      />
      <StateFacet filter={filter} onChange={onChange} />
      <Facet
        label={f.queue}
        value={filter.queue}
        options={names((queues.data?.items ?? []).map((queue) => queue.name))}
        onChange={(queue) => onChange({ ...filter, queue })}
      />
      <Facet
        label={f.project}
        value={filter.project}
        options={names([...projects, ...(jobs.data?.items ?? []).map((job) => job.project)])}
        onChange={(project) => onChange({ ...filter, project })}
      />
      <Facet
        label={f.user}
        value={filter.user}
        options={names([
          ...authors,
          ...(people.data?.items ?? []).flatMap((one) => Object.keys(one.members)),
        ])}
        onChange={(user) => onChange({ ...filter, user })}
      />
      <Facet
        label={f.job}
        value={filter.job}
        options={names((jobs.data?.items ?? []).map((job) => `${job.project}/${job.name}`))}
        onChange={(job) => onChange({ ...filter, job })}
      />
      {filter.group ? (
        <Facet
          label={f.group}
          value={filter.group}
          options={[]}
          onChange={(group) => onChange({ ...filter, group })}
        />
      ) : null}
      {isNarrowed(filter) ? (
        <button
          type="button"
          className="button ghost"
          onClick={() => onChange({ ...EVERYTHING, sort: filter.sort })}
        >
          {m.runs.clearFilters}
        </button>
      ) : null}
      <ViewMenu fold={fold} onFold={onFold} />
    </div>
  );
});

function TextFilter({
  text,
  onChange,
  inputRef,
}: {
  text: string;
  onChange: (text: string) => void;
  inputRef: RefObject<HTMLInputElement | null>;
}) {
  const [typed, setTyped] = useState(text);
  useEffect(() => setTyped(text), [text]);
  useEffect(() => {
    if (typed === text) return;
    const here = location.pathname; // who is on the way to another page is not called back
    const timer = setTimeout(() => location.pathname === here && onChange(typed), TYPING_PAUSE);
    return () => clearTimeout(timer);
  }, [typed, text, onChange]);
  return (
    <div className="search-field">
      <Search size={14} aria-hidden="true" />
      <input
        ref={inputRef}
        type="search"
        className="input"
        placeholder={m.runs.filter}
        aria-label={m.runs.filter}
        maxLength={128}
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          event.preventDefault(); // a browser would empty it
          event.currentTarget.blur();
        }}
      />
      <kbd aria-hidden="true">/</kbd>
    </div>
  );
}

function StateFacet({ filter, onChange }: { filter: RunFilter; onChange: (filter: RunFilter) => void }) {
  const chosen = new Set<string>(filter.states);
  const toggle = (state: string, on: boolean) =>
    onChange({ ...filter, states: STATES.filter((one) => (one === state ? on : chosen.has(one))) });
  const isActive = filter.states.length === ACTIVE.length && ACTIVE.every((state) => chosen.has(state));
  const word = isActive ? m.runs.preset.active : filter.states.map((state) => m.states[state]).join(", ");
  return (
    <span className={`facet ${chosen.size ? "set" : ""}`}>
      <Menu.Root>
        <Menu.Trigger className="button plain facet-button">
          <span className="dim">{m.runs.facets.state}</span>
          {chosen.size ? (
            <strong className="cut">{word}</strong>
          ) : (
            <ChevronDown size={13} aria-hidden="true" />
          )}
        </Menu.Trigger>
        <Menu.Portal>
          <Menu.Positioner className="positioner" align="start" sideOffset={4}>
            <Menu.Popup className="menu">
              <Menu.Item className="menu-item" onClick={() => onChange({ ...filter, states: ACTIVE })}>
                {m.runs.preset.active}
              </Menu.Item>
              <Menu.Separator className="menu-line" />
              {STATES.map((state) => (
                <Menu.CheckboxItem
                  key={state}
                  className="menu-item"
                  checked={chosen.has(state)}
                  onCheckedChange={(on) => toggle(state, on)}
                  closeOnClick={false}
                >
                  <StateIcon state={state} />
                  {m.states[state]}
                  <Menu.CheckboxItemIndicator className="menu-check">✓</Menu.CheckboxItemIndicator>
                </Menu.CheckboxItem>
              ))}
            </Menu.Popup>
          </Menu.Positioner>
        </Menu.Portal>
      </Menu.Root>
      {chosen.size ? (
        <button
          type="button"
          className="facet-clear"
          aria-label={`${m.common.clear}: ${m.runs.facets.state}`}
          onClick={() => onChange({ ...filter, states: [] })}
        >
          <X size={12} />
        </button>
      ) : null}
    </span>
  );
}

function ViewMenu({ fold, onFold }: { fold: boolean; onFold: (fold: boolean) => void }) {
  const hidden = useHidden();
  return (
    <Menu.Root>
      <Menu.Trigger className="button plain view-menu" aria-label={m.runs.columns} title={m.runs.columns}>
        <Columns3 size={14} aria-hidden="true" />
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner className="positioner" align="end" sideOffset={4}>
          <Menu.Popup className="menu">
            <Menu.CheckboxItem
              className="menu-item"
              checked={fold}
              onCheckedChange={onFold}
              closeOnClick={false}
            >
              {m.runs.foldGroups}
              <Menu.CheckboxItemIndicator className="menu-check">✓</Menu.CheckboxItemIndicator>
            </Menu.CheckboxItem>
            <Menu.Separator className="menu-line" />
            <Menu.Group>
              <Menu.GroupLabel className="menu-label">{m.runs.columns}</Menu.GroupLabel>
              {COLUMNS.filter((column) => !column.fixed).map(({ key, label }) => (
                <Menu.CheckboxItem
                  key={key}
                  className="menu-item"
                  checked={!hidden.includes(key)}
                  onCheckedChange={(on) =>
                    setHidden(on ? hidden.filter((one) => one !== key) : [...hidden, key])
                  }
                  closeOnClick={false}
                >
                  {label}
                  <Menu.CheckboxItemIndicator className="menu-check">✓</Menu.CheckboxItemIndicator>
                </Menu.CheckboxItem>
              ))}
            </Menu.Group>
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}
