import { expect, it } from "vitest";
import { aligned, isMeasured, rates } from "./usage";

it("sums become rates, and one that starts anew is no debt", () => {
  expect(rates([0, 10, 20, 30], [0, 100, 50, null])).toEqual([null, 10, 0, null]);
});

it("replicas that were measured a moment apart share one axis", () => {
  const series = [
    { rank: 0, attempt: 1, at: [5.1, 15.2], values: { cpu: [1, 2], gpu: [null, null] } },
    { rank: 1, attempt: 1, at: [6.4, 15.4], values: { cpu: [3, 4], gpu: [null, null] } },
  ];
  const { at, curves } = aligned(series, [{ name: "cpu", word: "" }]);
  expect(at).toEqual([5, 6, 15]);
  expect(curves.map((curve) => curve.values)).toEqual([
    [1, 1, 2],
    [null, 3, 4],
  ]);
  expect([isMeasured(series, "cpu"), isMeasured(series, "gpu")]).toEqual([true, false]);
});
