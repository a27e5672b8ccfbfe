/** Which row of the screen is which line of which replica: all replicas together, by the time they wrote.
 *
 * The server tells the spans of each log (`map_logs`): where they begin, how many lines begin in each, when
 * it was written. Rows are spans in the order of time, and what comes later is added at the end.
 */
export interface LogMap {
  readonly rank: number;
  readonly length: number;
  readonly lines: number;
  readonly ended: boolean;
  readonly offsets: readonly number[];
  readonly firsts: readonly number[];
  readonly times: readonly (number | null)[];
}

export interface Span {
  readonly rank: number;
  readonly start: number; //: bytes
  end: number;
  readonly first: number; //: line of the replica, counted from 0
  count: number; //: lines that begin in it
  readonly time: number | null; //: Unix seconds
  row: number; //: of its first line
}

export interface Place {
  readonly span: Span;
  readonly line: number; //: of the replica
}

interface Tail {
  length: number;
  lines: number;
  ended: boolean; //: the next byte begins a line
}

const SPAN = 64 * 1024;

export class LogTable {
  rows = 0;
  private readonly spans: Span[] = [];
  private readonly ofRank = new Map<number, Span[]>();
  private readonly tails = new Map<number, Tail>();

  constructor(maps: readonly LogMap[]) {
    const all: Span[] = [];
    for (const map of maps) {
      this.tails.set(map.rank, { length: map.length, lines: map.lines, ended: map.ended });
      map.offsets.forEach((start, i) => {
        const first = map.firsts[i] ?? 0;
        const end = map.offsets[i + 1] ?? map.length;
        const count = (map.firsts[i + 1] ?? map.lines) - first;
        all.push({ rank: map.rank, start, end, first, count, time: map.times[i] ?? null, row: 0 });
      });
    }
    all.sort((a, b) => (a.time ?? 0) - (b.time ?? 0) || a.rank - b.rank || a.start - b.start);
    for (const span of all) this.add(span);
  }

  get ranks(): number[] {
    return [...this.tails.keys()].sort((a, b) => a - b);
  }

  length(rank: number): number {
    return this.tails.get(rank)?.length ?? 0;
  }

  linesOf(rank: number): number {
    return this.tails.get(rank)?.lines ?? 0;
  }

  /** Where to go on following: `attempt;rank=offset,…`. */
  cursor(attempt: number): string {
    return `${attempt};${this.ranks.map((rank) => `${rank}=${this.length(rank)}`).join(",")}`;
  }

  at(row: number): Place | null {
    if (row < 0 || row >= this.rows) return null;
    const span = this.spans[lastWhere(this.spans, (one) => one.row <= row)];
    return span ? { span, line: span.first + (row - span.row) } : null;
  }

  rowOf(rank: number, line: number): number | null {
    const spans = this.ofRank.get(rank);
    const span = spans?.[lastWhere(spans, (one) => one.first <= line)];
    return span && line < span.first + span.count ? span.row + (line - span.first) : null;
  }

  /** Bytes that follow what is known of this replica. */
  grow(rank: number, data: Uint8Array, time: number): void {
    const tail = this.tails.get(rank) ?? { length: 0, lines: 0, ended: true };
    this.tails.set(rank, tail);
    let begun = tail.ended && data.length > 0 ? 1 : 0;
    const last = data.length - 1;
    for (let at = data.indexOf(10); at >= 0 && at < last; at = data.indexOf(10, at + 1)) begun++;
    const newest = this.spans.at(-1);
    const start = tail.length;
    tail.length += data.length;
    const fits =
      newest?.rank === rank &&
      newest.end === start &&
      tail.length - newest.start <= SPAN &&
      time - (newest.time ?? 0) < 1;
    if (newest && fits) {
      newest.end = tail.length;
      newest.count += begun;
      this.rows += begun;
    } else {
      this.add({ rank, start, end: tail.length, first: tail.lines, count: begun, time, row: 0 });
    }
    tail.lines += begun;
    if (data.length) tail.ended = data[last] === 10;
  }

  private add(span: Span): void {
    span.row = this.rows;
    this.rows += span.count;
    const mine = this.ofRank.get(span.rank) ?? [];
    this.ofRank.set(span.rank, mine);
    // A span without a line of its own would hide the one before it from the search by row.
    if (span.count === 0 && mine.length) {
      const before = mine.at(-1);
      if (before && before === this.spans.at(-1)) before.end = span.end;
      return;
    }
    mine.push(span);
    this.spans.push(span);
  }
}

/** The place of the last item for which `holds` is true; those for which it is come first. -1: none. */
function lastWhere<T>(items: readonly T[], holds: (item: T) => boolean): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const item = items[middle];
    if (item !== undefined && holds(item)) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
