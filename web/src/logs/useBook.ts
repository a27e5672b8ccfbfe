import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { api, ask } from "../api/client";
import { serverEvents } from "../api/sse";
import { LogBook } from "./book";

/** A run's log as a book; it grows while the run goes on and the page is looked at. */
export function useBook(runId: string, attempt: number, rank: number | null, goesOn: boolean) {
  const query = useQuery({
    queryKey: ["logs", runId, attempt, rank],
    queryFn: () =>
      ask(
        api.GET("/api/v1/runs/{run_id}/logs/map", {
          params: { path: { run_id: runId }, query: { attempt, ...(rank === null ? {} : { rank }) } },
        }),
      ),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    enabled: attempt > 0,
  });
  const book = useMemo(() => {
    if (!query.data) return null;
    return new LogBook(query.data.items, (one, offset, limit) =>
      readBytes(runId, attempt, one, offset, limit),
    );
  }, [query.data, runId, attempt]);
  useFollowing(book, runId, attempt, rank, goesOn);
  return { book, error: query.error, retry: query.refetch };
}

export async function readBytes(runId: string, attempt: number, rank: number, offset: number, limit: number) {
  const url = `/api/v1/runs/${runId}/logs?attempt=${attempt}&rank=${rank}&offset=${offset}&limit=${limit}`;
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

interface Chunk {
  readonly rank: number;
  readonly offset: number;
  readonly text: string;
}

const encoder = new TextEncoder();

function useFollowing(
  book: LogBook | null,
  runId: string,
  attempt: number,
  rank: number | null,
  goesOn: boolean,
) {
  const seen = usePageSeen();
  // Once begun, it is followed to its end: the last lines come after the state that says it is over.
  const [begun, setBegun] = useState(goesOn);
  if (goesOn && !begun) setBegun(true);
  useEffect(() => {
    if (!book || !begun || !seen) return;
    const abort = new AbortController();
    void followLog(book, runId, attempt, rank, abort.signal);
    return () => abort.abort();
  }, [book, runId, attempt, rank, begun, seen]);
}

async function followLog(
  book: LogBook,
  runId: string,
  attempt: number,
  rank: number | null,
  signal: AbortSignal,
) {
  const asked = new URLSearchParams({
    attempt: String(attempt),
    ...(rank === null ? {} : { rank: String(rank) }),
  });
  const url = `/api/v1/runs/${runId}/logs/stream?${asked}`;
  while (!signal.aborted) {
    try {
      const lastEventId = book.table.cursor(attempt);
      for await (const events of serverEvents(url, { signal, lastEventId })) {
        for (const { event, id, data } of events) {
          if (event === "end" || event === "error") return;
          await take(book, runId, attempt, JSON.parse(data) as Chunk, id ?? "");
        }
      }
    } catch (error) {
      if (signal.aborted || (error instanceof Response && error.status < 500)) return;
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

/** A piece of output. Where its bytes were no text, they are read as they are. */
async function take(
  book: LogBook,
  runId: string,
  attempt: number,
  chunk: Chunk,
  cursor: string,
): Promise<void> {
  const known = book.table.length(chunk.rank);
  const places = new Map(
    cursor
      .split(";")[1]
      ?.split(",")
      .map((place) => place.split("=") as [string, string]),
  );
  const end = Number(places.get(String(chunk.rank)) ?? chunk.offset);
  if (end <= known) return;
  let data = encoder.encode(chunk.text);
  if (chunk.offset !== known || data.length !== end - chunk.offset) {
    data = await readBytes(runId, attempt, chunk.rank, known, end - known);
  }
  book.append(chunk.rank, data, Date.now() / 1000);
}

function usePageSeen(): boolean {
  const [seen, setSeen] = useState(!document.hidden);
  useEffect(() => {
    const look = () => setSeen(!document.hidden);
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, []);
  return seen;
}
