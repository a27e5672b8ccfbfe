import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api, ask } from "../api/client";
import { useMe } from "../session/me";

/** A queue's name and whose it is. */
export interface QueueName {
  readonly name: string;
  readonly entity: string;
}

const params = ({ name, entity }: QueueName) => ({ path: { name }, query: { entity } });

export const useQueues = () =>
  useQuery({ queryKey: ["queues"], queryFn: () => ask(api.GET("/api/v1/queues")) });

/** All that is asked under `queues` is asked again when queues, agents or runs have changed. */
export const useQueue = (queue: QueueName) =>
  useQuery({
    queryKey: ["queues", queue],
    queryFn: () => ask(api.GET("/api/v1/queues/{name}", { params: params(queue) })),
    enabled: queue.entity !== "",
  });

const LINE = 100;

export const useLine = (queue: QueueName) =>
  useQuery({
    queryKey: ["queues", queue, "line"],
    queryFn: () =>
      ask(
        api.GET("/api/v1/queues/{name}/line", {
          params: { path: { name: queue.name }, query: { entity: queue.entity, limit: LINE } },
        }),
      ),
  });

export const RUNNING_SHOWN = 20;
const LIVE = ["claimed", "preparing", "pending", "starting", "running", "stopping"] as const;

export const useRunning = (queue: QueueName) =>
  useQuery({
    queryKey: ["queues", queue, "running"],
    queryFn: () =>
      ask(
        api.GET("/api/v1/runs", {
          params: {
            query: { queue: queue.name, entity: queue.entity, state: [...LIVE], limit: RUNNING_SHOWN },
          },
        }),
      ),
  });

export const useVersions = (queue: QueueName) =>
  useQuery({
    queryKey: ["queues", queue, "versions"],
    queryFn: () =>
      ask(
        api.GET("/api/v1/queues/{name}/versions", {
          params: { path: { name: queue.name }, query: { entity: queue.entity, limit: 200 } },
        }),
      ),
  });

export const useDiff = (queue: QueueName, from: number, to: number) =>
  useQuery({
    queryKey: ["diff", queue, from, to],
    queryFn: () =>
      ask(
        api.GET("/api/v1/queues/{name}/diff", {
          params: { path: { name: queue.name }, query: { entity: queue.entity, from, to } },
        }),
      ),
    staleTime: Number.POSITIVE_INFINITY, // a version never changes
    enabled: from > 0 && to > 0 && from !== to,
  });

const HISTORY_EVERY = 60_000; // ms: it is drawn from thousands of runs, and moves slowly

export const useHistory = (queue: QueueName, hours: number) =>
  useQuery({
    queryKey: ["history", queue, hours],
    queryFn: () =>
      ask(
        api.GET("/api/v1/queues/{name}/history", {
          params: { path: { name: queue.name }, query: { entity: queue.entity, hours, points: 181 } },
        }),
      ),
    refetchInterval: HISTORY_EVERY,
    placeholderData: keepPreviousData,
  });

export const useAgents = () =>
  useQuery({ queryKey: ["agents"], queryFn: () => ask(api.GET("/api/v1/agents")) });

/** The entity in the address, or else one's own. */
export function useEntity(given: string | undefined): string {
  const me = useMe();
  return given || me.data?.default_entity || "";
}

/** A value that follows another when that has been still for a moment. */
export function useSettled<T>(value: T, after = 350): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), after);
    return () => clearTimeout(timer);
  }, [value, after]);
  return settled;
}
