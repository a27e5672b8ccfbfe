/** A log to turn pages in: any rows of it, read from the server as they are needed. */
import { Blocks, type ReadBytes } from "./blocks";
import { type LogMap, LogTable, type Span } from "./table";

export interface Line {
  readonly rank: number;
  readonly number: number; //: of the replica, counted from 0
  readonly time: number | null;
  readonly text: string | null; //: null: on its way
  readonly cut: boolean; //: it is longer than what is shown
}

const LONGEST = 16 * 1024; //: bytes of a line that are shown
const SPANS_KEPT = 64;
const decoder = new TextDecoder();

export class LogBook {
  readonly table: LogTable;
  version = 0;
  private readonly blocks: Blocks;
  private readonly begins = new Map<Span, { end: number; starts: number[] }>();
  private readonly listeners = new Set<() => void>();

  constructor(maps: readonly LogMap[], read: ReadBytes) {
    this.table = new LogTable(maps);
    this.blocks = new Blocks(read, () => this.changed());
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };
  readonly snapshot = (): number => this.version;

  lines(from: number, to: number): Line[] {
    const lines: Line[] = [];
    for (let row = Math.max(0, from); row < Math.min(to, this.table.rows); row++) {
      const place = this.table.at(row);
      if (place === null) continue;
      const { span, line } = place;
      const found = this.text(span, line - span.first);
      lines.push({ rank: span.rank, number: line, time: span.time, text: null, cut: false, ...found });
    }
    return lines;
  }

  append(rank: number, data: Uint8Array, time: number): void {
    this.blocks.append(rank, this.table.length(rank), data);
    this.table.grow(rank, data, time);
    this.changed();
  }

  private text(span: Span, nth: number): { text: string; cut: boolean } | null {
    const start = this.starts(span)?.[nth];
    if (start === undefined) return null;
    const limit = Math.min(this.table.length(span.rank), start + LONGEST);
    // Most lines end within their span: look further only for the few that do not.
    for (const end of [Math.min(span.end, limit), limit]) {
      const data = this.blocks.bytes(span.rank, start, end);
      if (data === null) return null;
      const stop = data.indexOf(10);
      if (stop >= 0) return { text: decoder.decode(data.subarray(0, stop)), cut: false };
      if (end === limit) {
        return {
          text: decoder.decode(data),
          cut: limit < this.table.length(span.rank) && data.length >= LONGEST,
        };
      }
    }
    return null;
  }

  /** Where the lines of a span begin; null: its bytes are on their way. */
  private starts(span: Span): number[] | null {
    const known = this.begins.get(span);
    if (known && known.end === span.end) return known.starts;
    const before = Math.max(0, span.start - 1);
    const data = this.blocks.bytes(span.rank, before, span.end);
    if (data === null) return null;
    const starts = span.start === 0 ? [0] : [];
    for (let at = data.indexOf(10); at >= 0 && starts.length < span.count; at = data.indexOf(10, at + 1)) {
      starts.push(before + at + 1);
    }
    this.begins.delete(span);
    this.begins.set(span, { end: span.end, starts });
    for (const oldest of this.begins.keys()) {
      if (this.begins.size <= SPANS_KEPT) break;
      this.begins.delete(oldest);
    }
    return starts;
  }

  private changed(): void {
    this.version++;
    for (const listener of this.listeners) listener();
  }
}
