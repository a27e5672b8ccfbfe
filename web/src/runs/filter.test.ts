import { describe, expect, it } from "vitest";
import {
  ACTIVE,
  EVERYTHING,
  filterFromSearch,
  isNarrowed,
  queryOf,
  type RunFilter,
  searchFromFilter,
} from "./filter";

const FULL: RunFilter = {
  states: ["running", "failed"],
  queue: "gpu.lab",
  project: "nlp",
  user: "ann",
  job: "nlp/train:best",
  group: "g123456789",
  text: "llama 7b & co",
  sort: { by: "duration", down: true },
};

describe("filters in the address", () => {
  it.each([
    ["everything", EVERYTHING],
    ["all of it", FULL],
    ["active", { ...EVERYTHING, states: ACTIVE }],
    ["oldest first", { ...EVERYTHING, sort: { by: "created", down: false } }],
  ] satisfies [string, RunFilter][])("come back as they were: %s", (_, filter) => {
    expect(filterFromSearch(searchFromFilter(filter))).toEqual(filter);
  });

  it("leave the address empty where nothing is filtered", () => {
    expect(searchFromFilter(EVERYTHING)).toEqual({});
  });

  it("pass over states and orders that do not exist", () => {
    const filter = filterFromSearch({ state: "running,<script>,constructor", sort: "-toString" });
    expect(filter.states).toEqual(["running"]);
    expect(filter.sort).toEqual(EVERYTHING.sort);
  });

  it("ask the server only for what is filtered, and for an order only if it is another one", () => {
    expect(queryOf({ ...EVERYTHING, text: "  " })).toEqual({});
    expect(queryOf({ ...EVERYTHING, sort: { by: "created", down: false } })).toEqual({ sort: "created" });
    expect(queryOf(FULL)).toEqual({
      state: ["running", "failed"],
      queue: "gpu.lab",
      project: "nlp",
      author: "ann",
      job: "nlp/train:best",
      group: "g123456789",
      text: "llama 7b & co",
      sort: "-duration",
    });
    expect(isNarrowed({ ...EVERYTHING, sort: { by: "name", down: true } })).toBe(false);
  });
});
