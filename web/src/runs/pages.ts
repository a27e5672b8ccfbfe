/** The runs that were loaded so far, page by page, kept up to date by events. No view code in here. */
import type { Run, RunEvent } from "../api/client";
import { throttled } from "../api/throttle";
import { ENDED } from "./filter";

/** What a row shows, and no more: a hundred thousand of them must fit into a tab. */
export interface Row {
  readonly id: string;
  readonly name: string;
  readonly state: Run["state"];
  readonly queue: string;
  readonly project: string;
  readonly entity: string;
  readonly author: string;
  readonly job: string | null;
  readonly group: string | null;
  readonly nodes: number;
  readonly gpus: number;
  readonly created_at: string;
  readonly started_at: string | null;
  readonly ended_at: string | null;
  readonly version: number;
}

export interface RunPage {
  readonly items: readonly Run[];
  readonly next: string | null;
}

export type FetchPage = (cursor: string | null, limit: number) => Promise<RunPage>;

export interface Snapshot {
  readonly rows: readonly Row[];
  readonly more: boolean; //: the server has further pages
  readonly loading: boolean;
  readonly error: unknown;
}

export const PAGE = 100;
const HEAD_EVERY = 1000; // ms between two looks at the newest page
const DRAW_EVERY = 80; // ms between two redraws because of events

export function rowOf(run: Run): Row {
  const {
    id,
    name,
    state,
    queue,
    project,
    entity,
    author,
    nodes,
    created_at,
    started_at,
    ended_at,
    version,
  } = run;
  const job = run.job ? `${run.job.name}:v${run.job.version}` : null;
  const kept = {
    id,
    name,
    state,
    queue,
    project,
    entity,
    author,
    nodes,
    created_at,
    started_at,
    ended_at,
    version,
  };
  return { ...kept, job, group: run.group ?? null, gpus: run.resources.gpus };
}

/** The row after the event; the same row if the event tells nothing new. */
export function afterEvent(row: Row, event: RunEvent): Row {
  if (event.seq <= row.version) return row;
  if (event.type !== "state") return { ...row, version: event.seq };
  const state = String(event.data.to) as Row["state"];
  const begins = row.started_at === null && (state === "starting" || state === "running");
  return {
    ...row,
    state,
    version: event.seq,
    started_at: begins ? event.at : row.started_at,
    ended_at: ENDED.has(state) ? event.at : null,
  };
}

/** `rows` with the newest page as the server has it now. */
export function withHead(rows: readonly Row[], head: readonly Row[], headIsAll: boolean): readonly Row[] {
  const last = head.at(-1);
  if (headIsAll || last === undefined) return head;
  const place = rows.findIndex((row) => row.id === last.id);
  return place < 0 ? head : [...head, ...rows.slice(place + 1)];
}

export class RunPages {
  private rows: readonly Row[] = [];
  private next: string | null = null;
  private begun = false;
  private busy = false;
  private error: unknown = null;
  private places = new Map<string, number>();
  private readonly listeners = new Set<() => void>();
  private shown: Snapshot = { rows: [], more: true, loading: true, error: null };
  readonly refreshHead = throttled(() => void this.loadHead(), HEAD_EVERY);
  private readonly drawSoon = throttled(() => this.draw(), DRAW_EVERY);

  constructor(private readonly fetchPage: FetchPage) {}

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly snapshot = (): Snapshot => this.shown;

  /** The next page; nothing if it is on its way, or if there is none. */
  async loadMore(): Promise<void> {
    if (this.busy || (this.begun && this.next === null)) return;
    this.busy = true;
    this.draw();
    try {
      const page = await this.fetchPage(this.next, PAGE);
      const fresh = page.items.map(rowOf).filter((row) => !this.places.has(row.id));
      this.set([...this.rows, ...fresh]);
      this.next = page.next;
      this.begun = true;
      this.error = null;
    } catch (error) {
      this.error = error;
    } finally {
      this.busy = false;
      this.draw();
    }
  }

  /** Look at the newest page again: what was launched or deleted, what came to match or ceased to. */
  private async loadHead(): Promise<void> {
    if (!this.begun) return this.loadMore();
    if (this.busy) return;
    this.busy = true;
    try {
      const page = await this.fetchPage(null, PAGE);
      const kept = withHead(this.rows, page.items.map(rowOf), page.next === null);
      if (kept.length <= page.items.length) this.next = page.next;
      this.set(kept);
      this.error = null;
    } catch (error) {
      this.error = error;
    } finally {
      this.busy = false;
      this.draw();
    }
  }

  take(events: readonly RunEvent[]): void {
    let changed = false;
    let strange = false;
    const rows = this.rows as Row[]; // patched in place: `draw` makes the copy that is shown
    for (const event of events) {
      const place = this.places.get(event.run_id);
      const row = place === undefined ? undefined : rows[place];
      if (place === undefined || row === undefined) {
        strange ||= event.type === "state";
        continue;
      }
      const after = afterEvent(row, event);
      if (after !== row) {
        rows[place] = after;
        changed = true;
      }
    }
    if (changed) this.drawSoon();
    if (strange) this.refreshHead();
  }

  drop(ids: ReadonlySet<string>): void {
    this.set(this.rows.filter((row) => !ids.has(row.id)));
    this.draw();
  }

  private set(rows: readonly Row[]): void {
    this.rows = [...rows];
    this.places = new Map(rows.map((row, place) => [row.id, place]));
  }

  private draw(): void {
    const more = !this.begun || this.next !== null;
    this.shown = { rows: [...this.rows], more, loading: this.busy, error: this.error };
    for (const listener of this.listeners) listener();
  }
}
