/** The typed client: paths and models come from the server's OpenAPI document (`make web-api`). */
import createClient from "openapi-fetch";
import { type Problem, ProblemError } from "./problem";
import type { components, paths } from "./schema";

export { type Problem, ProblemError, passes } from "./problem";

type Schemas = components["schemas"];
export type Run = Schemas["RunModel"];
export type RunState = Schemas["RunState"];
export type Replica = Schemas["ReplicaModel"];
export type RunEvent = Schemas["EventModel"];
export type Explanation = Schemas["ExplanationModel"];
export type Failure = Schemas["FailureModel"];
export type Job = Schemas["JobModel"];
export type JobVersion = Schemas["JobVersionModel"];
export type Preview = Schemas["PreviewModel"];
export type Queue = Schemas["QueueModel"];
export type Agent = Schemas["AgentModel"];
export type AgentDetail = Schemas["AgentDetail"];
export type AgentRun = Schemas["AgentRunModel"];
export type Cluster = Schemas["ClusterModel"];
export type Line = Schemas["LineModel"];
export type Parsed = Schemas["ParseModel"];
export type Priority = Schemas["Priority"];
export type ApiKey = Schemas["Page_KeyModel_"]["items"][number];
export type NewApiKey = Schemas["NewKeyModel"];
export type Entity = Schemas["EntityModel"];
export type Role = Schemas["Role"];
export type Group = Schemas["GroupModel"];
export type Me = Schemas["MeModel"];
export type UsageSeries = Schemas["UsageSeries"];

export const api = createClient<paths>({ baseUrl: location.origin });

const NOT_REACHED: Problem = {
  type: "about:blank",
  title: "Not reached",
  status: 0,
  detail: "The server cannot be reached.",
  code: "not_reached",
  hint: "Is it running? This page tries again by itself.",
  facts: {},
};

/** The answer's data, or a ProblemError. */
export async function ask<T>(
  request: Promise<{ data?: T; error?: unknown; response: Response }>,
): Promise<T> {
  let answer: Awaited<typeof request>;
  try {
    answer = await request;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ProblemError(NOT_REACHED);
  }
  if (!answer.response.ok) throw new ProblemError(problemOf(answer.error, answer.response));
  return answer.data as T;
}

export function problemOf(body: unknown, response: Response): Problem {
  if (typeof body === "object" && body !== null && "detail" in body) return body as Problem;
  const detail = `The server answered ${response.status} ${response.statusText}.`;
  return {
    ...NOT_REACHED,
    title: "Unexpected answer",
    status: response.status,
    detail,
    code: "unexpected",
    hint: "",
  };
}
