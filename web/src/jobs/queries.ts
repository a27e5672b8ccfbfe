import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { api, ask } from "../api/client";

export interface Place {
  readonly entity: string;
  readonly project: string;
  readonly job: string;
}

const PAGE = 50;
const NEWEST = 10;

/** Of a project, or of all that one may see. */
export const useJobs = (of: { entity?: string; project?: string; text: string }) =>
  useInfiniteQuery({
    queryKey: ["jobs", "list", of],
    queryFn: ({ pageParam }) =>
      ask(
        api.GET("/api/v1/jobs", {
          params: {
            query: {
              limit: PAGE,
              ...(of.entity ? { entity: of.entity } : {}),
              ...(of.project ? { project: of.project } : {}),
              ...(of.text ? { text: of.text } : {}),
              ...(pageParam ? { cursor: pageParam } : {}),
            },
          },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
    placeholderData: (before) => before,
  });

const where = ({ entity, project }: Place) => ({ entity, project });

export const useJob = (place: Place) =>
  useQuery({
    queryKey: ["jobs", "one", place],
    queryFn: () =>
      ask(api.GET("/api/v1/jobs/{name}", { params: { path: { name: place.job }, query: where(place) } })),
  });

export const useVersions = (place: Place) =>
  useInfiniteQuery({
    queryKey: ["jobs", "versions of", place],
    queryFn: ({ pageParam }) =>
      ask(
        api.GET("/api/v1/jobs/{name}/versions", {
          params: {
            path: { name: place.job },
            query: { ...where(place), limit: PAGE, ...(pageParam ? { cursor: pageParam } : {}) },
          },
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
  });

export const useRunsOf = (place: Place) =>
  useQuery({
    queryKey: ["jobs", "runs", place],
    queryFn: () =>
      ask(
        api.GET("/api/v1/runs", {
          params: { query: { ...where(place), job: `${place.project}/${place.job}`, limit: NEWEST } },
        }),
      ),
  });
