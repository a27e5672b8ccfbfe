import { expect, it } from "vitest";
import { duration, took } from "./format";

it("says how long something goes on in whole seconds, and how long it took in tenths where it was short", () => {
  expect([0, 0.34, 9.96, 61, 3661, 90_000].map(took)).toEqual([
    "0.0s",
    "0.3s",
    "9.9s",
    "1m 01s",
    "1h 01m",
    "1d 1h",
  ]);
  expect([0.34, 9.96].map(duration)).toEqual(["0s", "9s"]);
});
