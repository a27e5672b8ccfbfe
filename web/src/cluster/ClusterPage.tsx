/** What there is and what is free of it, node by node. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Ban, CircleCheck, Server } from "lucide-react";
import { api, ask } from "../api/client";
import { m } from "../messages";
import { useAgents } from "../queues/queries";
import { Command } from "../ui/Copy";
import { bytes, cores } from "../ui/format";
import { Empty, ErrorNote, Skeleton } from "../ui/Notes";
import { Ago } from "../ui/Time";
import { type Amount, type Place, type PlaceNode, placesOf, sum } from "./places";
import "../design/queues.css";
import "../design/cluster.css";

const c = m.cluster;

export const useClusters = () =>
  useQuery({ queryKey: ["agents", "clusters"], queryFn: () => ask(api.GET("/api/v1/clusters")) });

export function ClusterPage() {
  const agents = useAgents();
  const clusters = useClusters();
  const error = agents.error ?? clusters.error;
  const loaded = agents.data && clusters.data;
  const places = loaded ? placesOf(agents.data.items, clusters.data.items) : [];
  const nodes = places.flatMap((place) => place.nodes ?? []);
  const gpus = sum(places, "gpus");
  const cpus = sum(places, "millicpus");
  const retry = () => void Promise.all([agents.refetch(), clusters.refetch()]);
  return (
    <div className="page">
      <div className="page-head">
        <h1>{c.title}</h1>
        {nodes.length ? (
          <ul className="totals dim num" aria-label={c.together}>
            <li>{c.nodes(nodes.length)}</li>
            {gpus.total ? <li>{c.gpusFree(gpus.free, gpus.total)}</li> : null}
            <li>{c.cpusFree(cores(cpus.free), cores(cpus.total))}</li>
          </ul>
        ) : null}
      </div>
      {error ? <ErrorNote error={error} onRetry={retry} /> : null}
      {!loaded && !error ? <Skeleton /> : null}
      {loaded && !places.length ? (
        <Empty icon={Server} title={c.emptyTitle}>
          <p>{c.empty}</p>
          <Command text={m.agents.emptyCommand} />
        </Empty>
      ) : null}
      {places.map((place) => (
        <PlacePart key={place.key} place={place} />
      ))}
    </div>
  );
}

function PlacePart({ place }: { place: Place }) {
  const title = place.kind === "machines" ? c.machines : place.host;
  return (
    <section className="place-part" aria-label={title}>
      <div className="block-head">
        <h2>{title}</h2>
        <span className="dim">
          {c.toldBy}{" "}
          {place.agents.map((name, i) => (
            <span key={name}>
              {i ? ", " : ""}
              <Link to="/agents/$agentName" params={{ agentName: name }} className="link">
                {name}
              </Link>
            </span>
          ))}
          {place.at ? (
            <>
              {", "}
              <Ago at={place.at} />
            </>
          ) : null}
        </span>
      </div>
      {place.nodes ? <NodeTable place={place} nodes={place.nodes} title={title} /> : <NotTold />}
      {place.claims?.length ? <Claims claims={place.claims} /> : null}
    </section>
  );
}

function NotTold() {
  return (
    <div className="not-told dim">
      <p>{c.notTold}</p>
      <Command text={c.notToldCommand} />
    </div>
  );
}

function NodeTable({ place, nodes, title }: { place: Place; nodes: readonly PlaceNode[]; title: string }) {
  return (
    <div className="scroll-x">
      <table className="table" aria-label={c.nodesOf(title)}>
        <thead>
          <tr>
            <th scope="col">{c.node}</th>
            <th scope="col">{m.queues.status}</th>
            <th scope="col">{c.gpus}</th>
            <th scope="col">{c.cpu}</th>
            <th scope="col">{c.memory}</th>
            <th scope="col" className="right">
              {place.kind === "machines" ? m.agents.runs : c.pods}
            </th>
          </tr>
        </thead>
        <tbody>
          {nodes.map((node) => (
            <tr key={node.name}>
              <th scope="row" className="run-name">
                {node.name}
              </th>
              <td>
                {node.closed ? (
                  <span className="state warn">
                    <Ban size={14} aria-hidden="true" />
                    {node.closed}
                  </span>
                ) : (
                  <span className="state dim">
                    <CircleCheck size={14} aria-hidden="true" />
                    {c.open}
                  </span>
                )}
              </td>
              <td>
                <Gpus of={node} />
              </td>
              <td>
                <Free of={node.amounts.millicpus} show={cores} />
              </td>
              <td>
                <Free of={node.amounts.memory} show={bytes} />
              </td>
              <td className="right num dim">{node.busy}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const DRAWN = 16; //: GPUs as squares; more are a bar

function Gpus({ of }: { of: PlaceNode }) {
  const { total, free } = of.amounts.gpus;
  if (!total) return <span className="faint">{c.none}</span>;
  if (total > DRAWN) return <Free of={of.amounts.gpus} show={String} note={of.gpu} />;
  return (
    <span className="gpus" title={of.gpu}>
      <span className="gpu-squares" aria-hidden="true">
        {Array.from({ length: total }, (_, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: they are all alike
          <span key={i} className={i < total - free ? "taken" : ""} />
        ))}
      </span>
      <span className="num">{c.free(String(free), String(total))}</span>
      {of.gpu ? <span className="faint">{of.gpu}</span> : null}
    </span>
  );
}

function Free({ of, show, note = "" }: { of: Amount; show: (n: number) => string; note?: string }) {
  const part = of.total ? Math.min(1, Math.max(0, 1 - of.free / of.total)) : 0;
  return (
    <span className="free">
      <span className="meter-bar" aria-hidden="true">
        <span style={{ width: `${Math.round(part * 100)}%` }} />
      </span>
      <span className="num">{c.free(show(of.free), show(of.total))}</span>
      {note ? <span className="faint">{note}</span> : null}
    </span>
  );
}

function Claims({ claims }: { claims: NonNullable<Place["claims"]> }) {
  return (
    <div className="scroll-x">
      <table className="table" aria-label={c.claims}>
        <thead>
          <tr>
            <th scope="col">{c.claim}</th>
            <th scope="col">{c.namespace}</th>
            <th scope="col">{c.modes}</th>
            <th scope="col" className="right">
              {c.size}
            </th>
          </tr>
        </thead>
        <tbody>
          {claims.map((claim) => (
            <tr key={`${claim.namespace}/${claim.name}`}>
              <th scope="row" className="run-name">
                {claim.name}
              </th>
              <td className="dim">{claim.namespace}</td>
              <td className="dim">{(claim.modes ?? []).join(", ")}</td>
              <td className="right num dim">{claim.bound ? bytes(claim.size ?? 0) : c.unbound}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
