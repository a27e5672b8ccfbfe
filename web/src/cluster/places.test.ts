import { describe, expect, it } from "vitest";
import type { Agent, Cluster } from "../api/client";
import { placesOf, sum } from "./places";

const agent = (part: Partial<Agent>): Agent =>
  ({
    name: "a1",
    entity: "ann",
    host: "box",
    online: true,
    running: 1,
    paused_at: null,
    devices: [],
    total: { gpus: 4, millicpus: 8000, memory: 100 },
    free: { gpus: 3, millicpus: 6000, memory: 90 },
    ...part,
  }) as Agent;
const cluster = (part: Partial<Cluster>): Cluster =>
  ({
    agent: "k1",
    entity: "ann",
    cluster: "kubernetes/one",
    host: "api:6443",
    at: "2026-01-01T00:00:00Z",
    nodes: [
      { name: "n1", closed: "", gpu: "T4", total: { gpus: 8 }, free: { gpus: 2 }, pods: 3 },
      { name: "n2", closed: "cordoned", gpu: "T4", total: { gpus: 8 }, free: { gpus: 8 }, pods: 0 },
    ],
    claims: [{ namespace: "ml", name: "data" }],
    ...part,
  }) as Cluster;
const onCluster = (part: Partial<Agent>) =>
  agent({ host: "api:6443", total: { gpus: 2 ** 30, millicpus: 0, memory: 0 }, ...part });

describe("places", () => {
  it("counts a machine once, whoever serves it, with the least that is free", () => {
    const [place] = placesOf(
      [agent({}), agent({ name: "a2", free: { gpus: 1, millicpus: 0, memory: 0 } })],
      [],
    );
    expect(place?.nodes).toHaveLength(1);
    expect(place?.nodes?.[0]).toMatchObject({ busy: 2, amounts: { gpus: { total: 4, free: 1 } } });
    expect(place?.agents).toEqual(["a1", "a2"]);
  });

  it("leaves out machines whose agent is gone", () => {
    expect(placesOf([agent({ online: false })], [])).toEqual([]);
  });

  it("believes who looked at a cluster last, and lists the claims of all", () => {
    const older = cluster({ agent: "k0", at: "2025-01-01T00:00:00Z", nodes: [] });
    const places = placesOf(
      [],
      [{ ...older, claims: [{ namespace: "ml", name: "old" }] } as Cluster, cluster({})],
    );
    expect(places).toHaveLength(1);
    expect(places[0]?.nodes).toHaveLength(2);
    expect(places[0]?.claims?.map((claim) => claim.name).sort()).toEqual(["data", "old"]);
  });

  it("names a cluster of which nobody tells", () => {
    const [place] = placesOf([onCluster({ name: "k9" })], []);
    expect(place).toMatchObject({ kind: "cluster", host: "api:6443", agents: ["k9"], nodes: null });
    expect(placesOf([onCluster({ name: "k1" })], [cluster({})])).toHaveLength(1);
  });

  it("does not count as free what nothing goes to", () => {
    expect(sum(placesOf([], [cluster({})]), "gpus")).toEqual({ total: 16, free: 2 });
  });
});
