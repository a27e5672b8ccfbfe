/** What the server finds in a config while it is being written. */
import { keepPreviousData, type QueryClient, queryOptions, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, ask } from "../api/client";
import { declarations, type Row } from "./draft";
import { useSettled } from "./queries";

const parseOptions = (text: string, resource: string, rows: readonly Row[]) => {
  const body = { text, resource, variables: declarations(rows) };
  return queryOptions({
    queryKey: ["parse", body],
    queryFn: () => ask(api.POST("/api/v1/queues/parse", { body })),
    staleTime: Number.POSITIVE_INFINITY, // the same text always has the same in it
    gcTime: 60_000,
  });
};

/** As it stands now, without waiting for a pause in the typing. */
export const parseNow = (client: QueryClient, text: string, resource: string, rows: readonly Row[]) =>
  client.fetchQuery(parseOptions(text, resource, rows));

export function useParsed(text: string, resource: string, rows: readonly Row[]) {
  const written = useMemo(() => ({ text, resource, rows }), [text, resource, rows]);
  const settled = useSettled(written);
  const { data, error, isFetching } = useQuery({
    ...parseOptions(settled.text, settled.resource, settled.rows),
    placeholderData: keepPreviousData,
  });
  return { parsed: data, error, checking: isFetching || settled !== written };
}
