/** One event stream for the whole tab: what changed on the server reaches every open view through here.
 *
 * A hidden tab lets go of its connection (a browser has six of them for a server) and catches up when it is
 * looked at again: from the last event it heard, or, after a long time, by reading everything anew.
 */
import type { RunEvent } from "./client";
import { serverEvents } from "./sse";

export type Link = "connecting" | "live" | "lost" | "paused";

type OnEvents = (events: RunEvent[]) => void;

const HIDDEN_FOR = 20_000;
const TOO_LONG = 10 * 60_000;
const FIRST_PAUSE = 500;
const SETTLE = 400; // what was asked for before the stream was open has come by then
const LONGEST_PAUSE = 15_000;

export class LiveFeed {
  link: Link = "connecting";
  private readonly listeners = new Set<OnEvents>();
  private readonly onResync = new Set<() => void>();
  private readonly onPlaces = new Set<() => void>();
  private readonly onLink = new Set<() => void>();
  private readonly url: string;
  private cursor: string | null = null;
  private heardAt = 0;
  private abort: AbortController | null = null;
  private hiding: ReturnType<typeof setTimeout> | undefined;

  constructor(url = "/api/v1/events?places=true") {
    this.url = url;
  }

  start(): () => void {
    const look = () => (document.hidden ? this.hide() : this.show());
    // The old connection may be dead without knowing.
    const anew = () => {
      if (this.abort === null) return;
      this.abort.abort();
      this.abort = null;
      this.show();
    };
    document.addEventListener("visibilitychange", look);
    window.addEventListener("online", anew);
    this.show();
    return () => {
      document.removeEventListener("visibilitychange", look);
      window.removeEventListener("online", anew);
      clearTimeout(this.hiding);
      this.abort?.abort();
      this.abort = null;
    };
  }

  listen(listener: OnEvents): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Something may have been missed: read everything again. */
  resync(listener: () => void): () => void {
    this.onResync.add(listener);
    return () => this.onResync.delete(listener);
  }

  /** Queues or agents came, went, or stand otherwise. */
  places(listener: () => void): () => void {
    this.onPlaces.add(listener);
    return () => this.onPlaces.delete(listener);
  }

  readonly watchLink = (listener: () => void): (() => void) => {
    this.onLink.add(listener);
    return () => this.onLink.delete(listener);
  };

  private hide(): void {
    clearTimeout(this.hiding);
    this.hiding = setTimeout(() => {
      this.abort?.abort();
      this.abort = null;
      this.setLink("paused");
    }, HIDDEN_FOR);
  }

  private show(): void {
    clearTimeout(this.hiding);
    if (this.abort !== null) return;
    this.abort = new AbortController();
    void this.follow(this.abort.signal);
  }

  private async follow(signal: AbortSignal): Promise<void> {
    let pause = FIRST_PAUSE;
    while (!signal.aborted) {
      if (this.cursor !== null && Date.now() - this.heardAt > TOO_LONG) {
        this.cursor = null;
        this.tellResync();
      }
      try {
        const onOpen = () => {
          // Without a cursor nobody knows what happened between the lists we have and this moment.
          if (this.cursor === null) setTimeout(() => this.tellResync(), SETTLE);
          this.setLink("live");
          pause = FIRST_PAUSE;
        };
        for await (const events of serverEvents(this.url, { signal, lastEventId: this.cursor, onOpen })) {
          this.take(events);
        }
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Response && error.status === 401) this.tellResync();
      }
      if (signal.aborted) return;
      this.setLink("lost");
      await new Promise((resolve) => setTimeout(resolve, pause * (0.5 + Math.random())));
      pause = Math.min(pause * 2, LONGEST_PAUSE);
    }
  }

  private take(events: { event: string; id: string | null; data: string }[]): void {
    const told: RunEvent[] = [];
    for (const { event, id, data } of events) {
      if (id !== null) this.cursor = id;
      if (event === "resync" || event === "error") this.tellResync();
      else if (event === "places") for (const listener of this.onPlaces) listener();
      else told.push(JSON.parse(data) as RunEvent);
    }
    this.heardAt = Date.now();
    if (told.length) for (const listener of this.listeners) listener(told);
  }

  private tellResync(): void {
    for (const listener of this.onResync) listener();
  }

  private setLink(link: Link): void {
    if (this.link === link) return;
    this.link = link;
    for (const listener of this.onLink) listener();
  }
}

export const live = new LiveFeed();
