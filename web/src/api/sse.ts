/** Server-sent events over fetch: unlike EventSource, it can resume where a page left off, and sees a refusal. */
export interface ServerEvent {
  readonly event: string;
  readonly id: string | null;
  readonly data: string;
}

/** Cuts a text that comes in pieces into events. */
export class EventParser {
  private rest = "";

  feed(text: string): ServerEvent[] {
    const blocks = (this.rest + text).split(/\r\n\r\n|\n\n/);
    this.rest = blocks.pop() ?? "";
    return blocks.map(parseBlock).filter((event) => event !== null);
  }
}

function parseBlock(block: string): ServerEvent | null {
  let event = "message";
  let id: string | null = null;
  const data: string[] = [];
  for (const line of block.split(/\r\n|\n/)) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue; // a comment: the server's ping
    const value = line.slice(colon + 1).replace(/^ /, "");
    const name = line.slice(0, colon);
    if (name === "event") event = value;
    else if (name === "id") id = value;
    else if (name === "data") data.push(value);
  }
  return data.length ? { event, id, data: data.join("\n") } : null;
}

const SILENT = 40_000; // ms; the server speaks every 15 s, so that somebody in between has gone

/** The events of one answer, until it ends or falls silent. Throws the Response if it is a refusal. */
export async function* serverEvents(
  url: string,
  options: { signal: AbortSignal; lastEventId: string | null; onOpen?: () => void },
): AsyncGenerator<ServerEvent[]> {
  const headers: Record<string, string> = { Accept: "text/event-stream" };
  if (options.lastEventId !== null) headers["Last-Event-ID"] = options.lastEventId;
  const response = await fetch(url, { headers, signal: options.signal, cache: "no-store" });
  if (!response.ok || response.body === null) throw response;
  options.onOpen?.();
  const parser = new EventParser();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const silent = setTimeout(() => void reader.cancel(), SILENT);
    const { done, value } = await reader.read().finally(() => clearTimeout(silent));
    if (done) return;
    const events = parser.feed(value);
    if (events.length) yield events;
  }
}
