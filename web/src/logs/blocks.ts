/** The bytes of logs, in blocks that are read when they are needed and forgotten when others are. */
export const BLOCK = 64 * 1024;
const KEPT = 256; //: blocks
const AT_ONCE = 8; //: requests

export type ReadBytes = (rank: number, offset: number, limit: number) => Promise<Uint8Array>;

export class Blocks {
  private readonly blocks = new Map<string, Uint8Array>();
  private readonly coming = new Set<string>();
  /** What came by itself while the block before it was on its way. */
  private readonly early = new Map<string, { place: number; part: Uint8Array }[]>();

  constructor(
    private readonly read: ReadBytes,
    private readonly onCame: () => void,
  ) {}

  /** These bytes, as far as they are here; null: they are asked for, and `onCame` tells. */
  bytes(rank: number, start: number, end: number): Uint8Array | null {
    const first = Math.floor(start / BLOCK);
    const last = Math.floor(Math.max(start, end - 1) / BLOCK);
    const parts: Uint8Array[] = [];
    let complete = true;
    for (let block = first; block <= last; block++) {
      const base = block * BLOCK;
      const needed = Math.min(end - base, BLOCK);
      const data = this.block(rank, block, needed);
      if (data === null) complete = false;
      else parts.push(data.subarray(Math.max(0, start - base), needed));
    }
    if (!complete) return null;
    if (parts.length === 1) return parts[0] ?? null;
    const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  }

  /** Bytes that came by themselves: kept where they continue a block that is here, or begin one. */
  append(rank: number, offset: number, data: Uint8Array): void {
    let at = 0;
    while (at < data.length) {
      const position = offset + at;
      const block = Math.floor(position / BLOCK);
      const inBlock = position - block * BLOCK;
      const part = data.subarray(at, at + BLOCK - inBlock);
      this.extend(`${rank}:${block}`, inBlock, part);
      at += part.length;
    }
  }

  private extend(key: string, place: number, part: Uint8Array): void {
    const known = this.blocks.get(key);
    const length = known?.length ?? 0;
    if (place > length) {
      if (this.coming.has(key)) this.early.set(key, [...(this.early.get(key) ?? []), { place, part }]);
      return;
    }
    if (place + part.length <= length) return;
    const longer = new Uint8Array(place + part.length);
    if (known) longer.set(known.subarray(0, place));
    longer.set(part, place);
    this.keep(key, longer);
  }

  private block(rank: number, block: number, needed: number): Uint8Array | null {
    const key = `${rank}:${block}`;
    const known = this.blocks.get(key);
    if (known && known.length >= needed) {
      this.blocks.delete(key);
      this.blocks.set(key, known); // the newest used is the last to go
      return known;
    }
    if (!this.coming.has(key) && this.coming.size < AT_ONCE) void this.load(rank, block, key);
    return null;
  }

  private async load(rank: number, block: number, key: string): Promise<void> {
    this.coming.add(key);
    try {
      const data = await this.read(rank, block * BLOCK, BLOCK);
      if (data.length >= (this.blocks.get(key)?.length ?? 0)) this.keep(key, data);
      for (const { place, part } of this.early.get(key) ?? []) this.extend(key, place, part);
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 1000)); // then whoever needs it asks again
    } finally {
      this.coming.delete(key);
      this.early.delete(key);
      this.onCame();
    }
  }

  private keep(key: string, data: Uint8Array): void {
    this.blocks.delete(key);
    this.blocks.set(key, data);
    for (const oldest of this.blocks.keys()) {
      if (this.blocks.size <= KEPT) break;
      this.blocks.delete(oldest);
    }
  }
}
