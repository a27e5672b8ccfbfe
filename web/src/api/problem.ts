import type { components } from "./schema";

export type Problem = components["schemas"]["Problem"];

/** What the server says is wrong, or that it cannot be reached. */
export class ProblemError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
    this.name = "ProblemError";
  }

  get signedOut(): boolean {
    return this.problem.status === 401;
  }
}

/** Whether it may pass by itself: the server is away, or not ready yet. */
export const passes = (error: unknown): boolean =>
  error instanceof ProblemError && [0, 502, 503, 504].includes(error.problem.status);
