import { expect, it } from "vitest";
import { differences } from "./resourceconfig";

const VOLCANO = {
  spec: {
    minAvailable: 1,
    tasks: [
      { name: "master", replicas: 1 },
      { name: "worker", replicas: 1, limits: { "nvidia.com/gpu": 1 } },
    ],
  },
};

it("names the path of what was changed, items by their name", () => {
  const after = structuredClone(VOLCANO);
  after.spec.tasks[1] = { name: "worker", replicas: 3, limits: { "nvidia.com/gpu": 2 } };
  expect(differences(VOLCANO, after)).toEqual({
    changes: [
      ["spec.tasks[name=worker].replicas", 3],
      ['spec.tasks[name=worker].limits["nvidia.com/gpu"]', 2],
    ],
    removed: [],
  });
});

it("tells a new value, another length and what was taken away", () => {
  const after = { spec: { tasks: [{ name: "master", replicas: 1 }], ttl: 5 } };
  expect(differences(VOLCANO, after)).toEqual({
    changes: [
      ["spec.tasks", [{ name: "master", replicas: 1 }]],
      ["spec.ttl", 5],
    ],
    removed: ["spec.minAvailable"],
  });
});

it("finds nothing where nothing changed", () => {
  expect(differences(VOLCANO, structuredClone(VOLCANO))).toEqual({ changes: [], removed: [] });
});

it("calls an item that was renamed by its place", () => {
  expect(differences([{ name: "a" }], [{ name: "b" }]).changes).toEqual([["[0].name", "b"]]);
});
