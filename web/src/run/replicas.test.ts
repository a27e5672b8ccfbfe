import { expect, it } from "vitest";
import type { Replica } from "../api/client";
import { byNode } from "./ReplicaMap";

const replica = (rank: number, node: string): Replica => ({ rank, node }) as Replica;

it("puts replicas to their nodes, both by rank", () => {
  const found = byNode([replica(3, "b"), replica(0, "b"), replica(1, "a"), replica(2, "")]);
  expect(found.map(([node, its]) => [node, its.map((one) => one.rank)])).toEqual([
    ["b", [0, 3]],
    ["a", [1]],
    ["", [2]],
  ]);
});
