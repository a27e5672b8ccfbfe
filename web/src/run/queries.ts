import { useQuery } from "@tanstack/react-query";
import { api, ask } from "../api/client";

const path = (run_id: string) => ({ path: { run_id } });

export const useRun = (id: string) =>
  useQuery({
    queryKey: ["run", id],
    queryFn: () => ask(api.GET("/api/v1/runs/{run_id}", { params: path(id) })),
  });

export const useWhy = (id: string) =>
  useQuery({
    queryKey: ["run", id, "why"],
    queryFn: () => ask(api.GET("/api/v1/runs/{run_id}/why", { params: path(id) })),
  });

export const useReplicas = (id: string, attempt: number) =>
  useQuery({
    queryKey: ["run", id, "replicas", attempt],
    queryFn: () => {
      const query = attempt ? { attempt } : {};
      return ask(api.GET("/api/v1/runs/{run_id}/replicas", { params: { ...path(id), query } }));
    },
  });

export const useEvents = (id: string) =>
  useQuery({
    queryKey: ["run", id, "events"],
    queryFn: () => ask(api.GET("/api/v1/runs/{run_id}/events", { params: path(id) })),
  });

export const useManifest = (id: string) =>
  useQuery({
    queryKey: ["run", id, "manifest"],
    queryFn: () => ask(api.GET("/api/v1/runs/{run_id}/manifest", { params: path(id) })),
  });

const SAMPLES_EVERY = 10_000; // ms, as the agent measures

export const useUsage = (id: string, attempt: number, goesOn: boolean) =>
  useQuery({
    queryKey: ["usage", id, attempt],
    queryFn: () =>
      ask(
        api.GET("/api/v1/runs/{run_id}/usage", {
          params: { ...path(id), query: { attempt, max_points: 600 } },
        }),
      ),
    enabled: attempt > 0,
    refetchInterval: goesOn ? SAMPLES_EVERY : false,
  });
