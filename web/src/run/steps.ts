/** The states a run was in, one after the other, with how long each took. */
import type { RunEvent } from "../api/client";
import { ENDED } from "../runs/filter";

export interface Step {
  readonly state: string;
  readonly attempt: number;
  readonly from: string;
  readonly to: string | null; //: null: it is in it now
  readonly reason: string;
}

export function stepsOf(events: readonly RunEvent[]): Step[] {
  const moves = events.filter((event) => event.type === "state");
  return moves.map((event, i) => {
    const state = String(event.data.to);
    return {
      state,
      attempt: event.attempt,
      from: event.at,
      to: moves[i + 1]?.at ?? (ENDED.has(state) ? event.at : null),
      reason: typeof event.data.reason === "string" ? event.data.reason : "",
    };
  });
}
