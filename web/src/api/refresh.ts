/** Reads again what is on the screen under a key. */
import type { QueryClient, QueryKey } from "@tanstack/react-query";

/**
 * An answer that is on its way for the first time may be older than the news that asks for it, and the library
 * would take it for the newest: it is waited for, and asked for again.
 */
export async function refresh(client: QueryClient, queryKey: QueryKey): Promise<void> {
  const underway = client
    .getQueryCache()
    .findAll({ queryKey })
    .filter((query) => query.state.fetchStatus === "fetching" && query.state.data === undefined);
  await Promise.allSettled(underway.map((query) => query.promise));
  await client.invalidateQueries({ queryKey });
}
