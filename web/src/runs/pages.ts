/** The runs that were loaded so far, page by page, kept up to date by events. No view code in here. */
import type { Run, RunEvent } from "../api/client";
import { passes } from "../api/problem";
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
const HEAD_EVERY = 100; // ms between two looks at the newest page,
const HEAD_AT_LEAST = 2000; // and where the server is so busy that a look takes long:
const HEAD_SHARE = 5; // no more than one part in so many of the time is spent with looking
const DRAW_EVERY = 80; // ms between two redraws because of events
const FIRST_PAUSE = 1000; // ms before another try
const LONGEST_PAUSE = 15_000;
const REREAD_PAGE = 500;
const REREAD_MOST = 5000; // rows; what lies below is read again when somebody scrolls there

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

/** `row`, unless a newer version of it is known already: an answer may be older than an event that overtook it. */
function newer(row: Row, known: Row | undefined): Row {
  return known !== undefined && known.version > row.version ? known : row;
}

export class RunPages {
  private rows: Row[] = [];
  private next: string | null = null;
  private begun = false;
  private busy = false;
  private moreWanted = false;
  private headWanted = false;
  private rereadWanted = false;
  private error: unknown = null;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private pause = FIRST_PAUSE;
  private lookTook = 0;
  private places: Map<string, number> | null = new Map(); //: null: to be made when it is asked for
  private meanwhile: RunEvent[] = []; //: that came while a page was on its way
  private readonly listeners = new Set<() => void>();
  private shown: Snapshot = { rows: [], more: true, loading: true, error: null };
  /** For what is new. It is on the first page of the newest; in another order it may be anywhere. */
  readonly refresh = throttled(
    () => this.want(this.newestFirst ? "head" : "all"),
    () => {
      const fair = Math.max(HEAD_EVERY, HEAD_SHARE * this.lookTook);
      return this.newestFirst ? Math.min(HEAD_AT_LEAST, fair) : fair;
    },
  );
  private readonly drawSoon = throttled(() => this.draw(), DRAW_EVERY);

  constructor(
    private readonly fetchPage: FetchPage,
    private readonly belongs: (row: Row) => boolean = () => true,
    private readonly newestFirst = true,
  ) {}

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly snapshot = (): Snapshot => this.shown;

  /** The first page, unless it is on its way; of a list that was read before, what is new. */
  begin(): void {
    if (this.begun) this.refresh();
    else if (!this.busy) void this.loadMore();
  }

  /** The next page, after what is on its way; nothing if there is none. */
  async loadMore(): Promise<void> {
    this.moreWanted = this.busy;
    if (this.busy || (this.begun && this.next === null)) return;
    this.draw(true);
    await this.reading(async () => {
      const page = await this.fetchPage(this.next, PAGE);
      const places = this.index();
      for (const row of this.caughtUp(page.items)) {
        if (places.has(row.id)) continue;
        places.set(row.id, this.rows.length);
        this.rows.push(row);
      }
      this.next = page.next;
      this.begun = true;
    });
  }

  /** Something may have been missed: read all again that was read so far. */
  readonly reread = (): void => this.want("all");

  private want(what: "head" | "all"): void {
    if (what === "head") this.headWanted = true;
    else this.rereadWanted = true;
    this.catchUp();
  }

  /** What was wanted while a page was on its way is not forgotten. */
  private catchUp(): void {
    if (this.busy) return;
    if (this.headWanted || this.rereadWanted) {
      const all = this.rereadWanted && this.rows.length > PAGE;
      this.headWanted = false;
      this.rereadWanted = false;
      void (all ? this.loadAgain() : this.begun ? this.loadHead() : this.loadMore());
    } else if (this.moreWanted) {
      void this.loadMore();
    }
  }

  /** Look at the newest page again: what was launched or deleted, what came to match or ceased to. */
  private async loadHead(): Promise<void> {
    await this.reading(async () => {
      const asked = performance.now();
      const page = await this.fetchPage(null, PAGE);
      this.lookTook = performance.now() - asked;
      const kept = withHead(this.rows, this.caughtUp(page.items), page.next === null);
      if (kept.length <= page.items.length) this.next = page.next;
      this.set(kept);
    });
  }

  private async loadAgain(): Promise<void> {
    await this.reading(async () => {
      const asked = performance.now();
      const wanted = Math.min(this.rows.length, REREAD_MOST);
      const found: Row[] = [];
      let next: string | null = null;
      do {
        const page: RunPage = await this.fetchPage(next, REREAD_PAGE);
        found.push(...this.caughtUp(page.items));
        next = page.next;
      } while (next !== null && found.length < wanted);
      if (!this.newestFirst) this.lookTook = performance.now() - asked; // else: not what a look at its head takes
      this.next = next;
      this.set(found);
    });
  }

  private async reading(work: () => Promise<void>): Promise<void> {
    this.busy = true;
    this.meanwhile = [];
    try {
      await work();
      this.error = null;
      this.pause = FIRST_PAUSE;
    } catch (error) {
      this.error = error;
      if (passes(error)) this.tryAgainLater();
    } finally {
      this.busy = false;
      this.draw();
      this.catchUp();
    }
  }

  /** As long as somebody looks. */
  private tryAgainLater(): void {
    clearTimeout(this.retry);
    this.retry = setTimeout(() => this.listeners.size && this.reread(), this.pause);
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
  }

  /** Rows of an answer, with what was told since it was asked for. */
  private caughtUp(runs: readonly Run[]): Row[] {
    const places = this.index();
    return runs
      .map((run) => {
        const row = newer(rowOf(run), this.rows[places.get(run.id) ?? -1]);
        const told = this.meanwhile.filter((event) => event.run_id === run.id);
        return told.reduce(afterEvent, row);
      })
      .filter(this.belongs);
  }

  take(events: readonly RunEvent[]): void {
    if (this.busy) this.meanwhile.push(...events);
    let changed = false;
    let strange = false;
    const gone = new Set<string>();
    const places = this.index();
    for (const event of events) {
      const place = places.get(event.run_id);
      const row = place === undefined ? undefined : this.rows[place];
      if (place === undefined || row === undefined) {
        strange ||= event.type === "state";
        continue;
      }
      const after = afterEvent(row, event);
      if (after === row) continue;
      this.rows[place] = after; // patched in place: `draw` makes the copy that is shown
      changed = true;
      if (!this.belongs(after)) gone.add(after.id);
    }
    if (gone.size) this.set(this.rows.filter((row) => !gone.has(row.id) || this.belongs(row)));
    if (changed) this.drawSoon();
    if (strange) this.refresh();
  }

  drop(ids: ReadonlySet<string>): void {
    this.set(this.rows.filter((row) => !ids.has(row.id)));
    this.draw();
  }

  private set(rows: readonly Row[]): void {
    this.rows = [...rows];
    this.places = null;
  }

  private index(): Map<string, number> {
    this.places ??= new Map(this.rows.map((row, place) => [row.id, place]));
    return this.places;
  }

  private draw(loading = this.busy): void {
    const more = !this.begun || this.next !== null;
    this.shown = { rows: [...this.rows], more, loading, error: this.error };
    for (const listener of this.listeners) listener();
  }
}
