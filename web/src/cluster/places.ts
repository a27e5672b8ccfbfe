/** Where runs go: the machines of agents, and the nodes of clusters, as one list of places. */

import { isUnbounded, type Kind } from "../agents/capacity";
import type { Agent, Cluster } from "../api/client";

export interface Amount {
  readonly total: number;
  readonly free: number;
}

export interface PlaceNode {
  readonly name: string;
  readonly closed: string; //: why nothing more goes there; empty: something may
  readonly gpu: string;
  readonly amounts: { readonly [kind in Kind]: Amount };
  readonly busy: number; //: runs of a machine, pods of a node
}

export interface Place {
  readonly key: string;
  readonly kind: "machines" | "cluster";
  readonly host: string;
  readonly agents: readonly string[];
  readonly nodes: readonly PlaceNode[] | null; //: null: nobody may look
  readonly claims: NonNullable<Cluster["claims"]> | null;
  readonly at: string | null; //: when it was looked at; null: all the time
}

const KINDS: readonly Kind[] = ["gpus", "millicpus", "memory"];

type Sizes = { readonly [kind in Kind]?: number | undefined };

function amounts(total: Sizes, free: Sizes): PlaceNode["amounts"] {
  const of = (kind: Kind): Amount => ({ total: total[kind] ?? 0, free: free[kind] ?? 0 });
  return Object.fromEntries(KINDS.map((kind) => [kind, of(kind)])) as PlaceNode["amounts"];
}

export function placesOf(agents: readonly Agent[], clusters: readonly Cluster[]): Place[] {
  const own = machines(agents.filter((agent) => !isUnbounded(agent)));
  return [...(own ? [own] : []), ...clusterPlaces(agents.filter(isUnbounded), clusters)];
}

/** Agents of one machine share it: the least that one of them has free is free. */
function machines(agents: readonly Agent[]): Place | null {
  const hosts = new Map<string, Agent[]>();
  for (const agent of agents) {
    if (agent.online) hosts.set(agent.host, [...(hosts.get(agent.host) ?? []), agent]);
  }
  if (!hosts.size) return null;
  const nodes = [...hosts].map(([host, its]): PlaceNode => {
    const most = (kind: Kind) => Math.max(...its.map((agent) => agent.total[kind] ?? 0));
    const least = (kind: Kind) => Math.min(...its.map((agent) => agent.free?.[kind] ?? most(kind)));
    const sizes = (of: (kind: Kind) => number) => Object.fromEntries(KINDS.map((kind) => [kind, of(kind)]));
    return {
      name: host,
      closed: its.every((agent) => agent.paused_at) ? "paused" : "",
      gpu: String(its[0]?.devices[0]?.name ?? ""),
      amounts: amounts(sizes(most), sizes(least)),
      busy: its.reduce((all, agent) => all + agent.running, 0),
    };
  });
  const names = [...hosts.values()].flat().map((agent) => agent.name);
  return { key: "machines", kind: "machines", host: "", agents: names, nodes, claims: null, at: null };
}

/** Several agents may tell of one cluster: who looked last is believed, and all claims are listed. */
function clusterPlaces(agents: readonly Agent[], clusters: readonly Cluster[]): Place[] {
  const told = new Map<string, Cluster[]>();
  for (const one of clusters) told.set(one.cluster, [...(told.get(one.cluster) ?? []), one]);
  const places = [...told].map(([key, all]): Place => {
    const newest = [...all].sort((a, b) => b.at.localeCompare(a.at));
    const looked = newest.find((one) => one.nodes) ?? newest[0];
    const claims = newest.flatMap((one) => one.claims ?? []);
    const known = new Map(claims.map((claim) => [`${claim.namespace}/${claim.name}`, claim]));
    return {
      key,
      kind: "cluster",
      host: looked?.host ?? "",
      agents: all.map((one) => one.agent),
      nodes:
        looked?.nodes?.map((node) => ({
          name: node.name,
          closed: node.closed ?? "",
          gpu: node.gpu ?? "",
          amounts: amounts(node.total, node.free),
          busy: node.pods ?? 0,
        })) ?? null,
      claims: newest.some((one) => one.claims) ? [...known.values()] : null,
      at: looked?.at ?? null,
    };
  });
  const silent = agents.filter(
    (agent) =>
      agent.online && !clusters.some((one) => one.agent === agent.name && one.entity === agent.entity),
  );
  const hosts = new Map<string, string[]>();
  for (const agent of silent) hosts.set(agent.host, [...(hosts.get(agent.host) ?? []), agent.name]);
  const unknown = [...hosts].filter(([host]) => !places.some((place) => place.host === host));
  return [
    ...places,
    ...unknown.map(
      ([host, names]): Place => ({
        key: host,
        kind: "cluster",
        host,
        agents: names,
        nodes: null,
        claims: null,
        at: null,
      }),
    ),
  ];
}

/** Of all that something more may go to. */
export function sum(places: readonly Place[], kind: Kind): Amount {
  const nodes = places.flatMap((place) => place.nodes ?? []);
  return {
    total: nodes.reduce((all, node) => all + node.amounts[kind].total, 0),
    free: nodes.reduce((all, node) => all + (node.closed ? 0 : node.amounts[kind].free), 0),
  };
}
