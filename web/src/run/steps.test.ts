import { expect, it } from "vitest";
import type { RunEvent } from "../api/client";
import { stepsOf } from "./steps";

const event = (seq: number, to: string, type = "state"): RunEvent =>
  ({
    id: seq,
    run_id: "r",
    seq,
    attempt: 1,
    type,
    at: `2026-01-01T00:00:0${seq}Z`,
    actor: "a",
    data: { to },
  }) as RunEvent;

it("a run's steps follow each other without a gap, and the last is open until it ends", () => {
  const going = stepsOf([event(1, "queued"), event(2, "x", "note"), event(3, "running")]);
  expect(going.map((step) => [step.state, step.from, step.to])).toEqual([
    ["queued", "2026-01-01T00:00:01Z", "2026-01-01T00:00:03Z"],
    ["running", "2026-01-01T00:00:03Z", null],
  ]);
  expect(stepsOf([event(1, "queued"), event(4, "stopped")]).at(-1)?.to).toBe("2026-01-01T00:00:04Z");
});
