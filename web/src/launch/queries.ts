import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api, ask, type Preview, type Run } from "../api/client";
import type { Asked, Order } from "./order";
import { namespaceOf } from "./queue";

export const useQueues = () =>
  useQuery({ queryKey: ["queues"], queryFn: () => ask(api.GET("/api/v1/queues")) });

export interface JobPlace {
  readonly entity: string;
  readonly project: string;
  readonly name: string;
  readonly version: string;
}

/** One version of a job; nothing is asked while there is no name. */
export const useJobVersion = ({ entity, project, name, version }: JobPlace) =>
  useQuery({
    queryKey: ["jobs", "version", entity, project, name, version],
    enabled: name !== "",
    retry: false,
    queryFn: () =>
      ask(
        api.GET("/api/v1/jobs/{name}/versions/{version}", {
          params: { path: { name, version }, query: { entity, ...(project ? { project } : {}) } },
        }),
      ),
  });

/** The volume claims that runs of this queue may mount, as far as its agents tell of them. */
export function useClaims(entity: string, queue: string, wanted: boolean): string[] {
  const queues = useQueues();
  const { data } = useQuery({
    queryKey: ["agents", "clusters"],
    enabled: wanted,
    queryFn: () => ask(api.GET("/api/v1/clusters")),
  });
  const config = queues.data?.items.find((one) => one.entity === entity && one.name === queue)?.config;
  const namespace = namespaceOf(config);
  const names = (data?.items ?? [])
    .filter((one) => one.entity === entity && one.queues.includes(queue))
    .flatMap((one) => (one.claims ?? []).filter((claim) => claim.namespace === (namespace || one.namespace)))
    .map((claim) => claim.name);
  return [...new Set(names)].sort();
}

const SETTLED = 250; // ms without a change

/** What the server makes of it, soon after the typing has paused. */
export function usePreview(order: Order, enabled: boolean) {
  const text = JSON.stringify(order);
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), SETTLED);
    return () => clearTimeout(timer);
  }, [text]);
  const found = useQuery({
    queryKey: ["preview", settled],
    enabled: enabled && settled === text,
    queryFn: () => preview(JSON.parse(settled) as Order),
    placeholderData: (before) => before,
    retry: false,
    gcTime: 60_000,
  });
  return { ...found, current: settled === text };
}

// The generated types ask for every key with a default; the server does not.
const sent = (body: Asked) => body as never;

const preview = ({ run, body }: Order): Promise<Preview> =>
  run === null
    ? ask(api.POST("/api/v1/launches/preview", { body: sent(body) }))
    : ask(
        api.POST("/api/v1/runs/{run_id}/rerun/preview", {
          params: { path: { run_id: run } },
          body: sent(body),
        }),
      );

/** `key`: sent again with the same, it launches nothing twice. */
export const launch = ({ run, body }: Order, key: string): Promise<Run> => {
  const header = { "Idempotency-Key": key };
  return run === null
    ? ask(api.POST("/api/v1/launches", { params: { header }, body: sent(body) }))
    : ask(
        api.POST("/api/v1/runs/{run_id}/rerun", {
          params: { path: { run_id: run }, header },
          body: sent(body),
        }),
      );
};

/** Also where the page is not of a secure origin, and `randomUUID` therefore missing. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
