/** What the list of runs is narrowed to, and how that stands in the address. */
import type { RunState } from "../api/client";

export const STATES: readonly RunState[] = [
  "queued",
  "claimed",
  "preparing",
  "pending",
  "starting",
  "running",
  "stopping",
  "succeeded",
  "failed",
  "stopped",
];
export const ENDED: ReadonlySet<string> = new Set(["succeeded", "failed", "stopped"]);
export const ACTIVE: readonly RunState[] = STATES.filter((state) => !ENDED.has(state));

export const SORTS = ["created", "name", "state", "duration", "queue", "project", "author", "gpus"] as const;
export type SortKey = (typeof SORTS)[number];

export interface Sort {
  readonly by: SortKey;
  readonly down: boolean;
}

export interface RunFilter {
  readonly states: readonly RunState[];
  readonly queue: string | null;
  readonly project: string | null;
  readonly user: string | null;
  readonly job: string | null;
  readonly group: string | null;
  readonly text: string;
  readonly sort: Sort;
}

export const NEWEST: Sort = { by: "created", down: true };
export const EVERYTHING: RunFilter = {
  states: [],
  queue: null,
  project: null,
  user: null,
  job: null,
  group: null,
  text: "",
  sort: NEWEST,
};

/** The address as the router hands it over: plain words. */
export type Search = { readonly [key: string]: string | undefined };

export function filterFromSearch(search: Search): RunFilter {
  const asked = (search.state ?? "").split(",");
  return {
    states: STATES.filter((state) => asked.includes(state)),
    queue: search.queue || null,
    project: search.project || null,
    user: search.user || null,
    job: search.job || null,
    group: search.group || null,
    text: search.q ?? "",
    sort: sortFromWord(search.sort),
  };
}

export function searchFromFilter(filter: RunFilter): Search {
  const all: Search = {
    state: filter.states.join(","),
    queue: filter.queue ?? "",
    project: filter.project ?? "",
    user: filter.user ?? "",
    job: filter.job ?? "",
    group: filter.group ?? "",
    q: filter.text,
    sort: sortWord(filter) ?? "",
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value));
}

/** Nothing for the usual order. */
function sortWord({ sort }: RunFilter): string | undefined {
  return sort.by === NEWEST.by && sort.down ? undefined : `${sort.down ? "-" : ""}${sort.by}`;
}

function sortFromWord(word: string | undefined): Sort {
  const by = SORTS.find((key) => key === word?.replace(/^-/, ""));
  return by === undefined ? NEWEST : { by, down: word?.startsWith("-") ?? false };
}

/** As the server takes it. */
export function queryOf(filter: RunFilter) {
  const sort = sortWord(filter);
  return { ...narrowing(filter), ...(sort ? { sort } : {}) };
}

function narrowing(filter: RunFilter) {
  return {
    ...(filter.states.length ? { state: [...filter.states] } : {}),
    ...(filter.queue ? { queue: filter.queue } : {}),
    ...(filter.project ? { project: filter.project } : {}),
    ...(filter.user ? { author: filter.user } : {}),
    ...(filter.job ? { job: filter.job } : {}),
    ...(filter.group ? { group: filter.group } : {}),
    ...(filter.text.trim() ? { text: filter.text.trim() } : {}),
  };
}

export function isNarrowed(filter: RunFilter): boolean {
  return Object.keys(narrowing(filter)).length > 0;
}
