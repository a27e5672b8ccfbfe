import { Link } from "@tanstack/react-router";
import type { Agent } from "../api/client";
import { m } from "../messages";
import { bytes, cores } from "../ui/format";
import { Ago } from "../ui/Time";
import { AgentStanding } from "./AgentStanding";
import { freeOf } from "./capacity";

const a = m.agents;

export function AgentTable({ agents }: { agents: readonly Agent[] }) {
  return (
    <div className="scroll-x">
      <table className="table" aria-label={a.label}>
        <thead>
          <tr>
            <th scope="col">{a.name}</th>
            <th scope="col">{m.queues.status}</th>
            <th scope="col">{a.engine}</th>
            <th scope="col">{a.serves}</th>
            <th scope="col" className="right">
              {a.runs}
            </th>
            <th scope="col" className="right">
              {a.gpus}
            </th>
            <th scope="col" className="right">
              {a.cpu}
            </th>
            <th scope="col" className="right">
              {a.memory}
            </th>
            <th scope="col" className="right">
              {a.seen}
            </th>
          </tr>
        </thead>
        <tbody>
          {agents.map((agent) => (
            <Line key={agent.id} agent={agent} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Line({ agent }: { agent: Agent }) {
  return (
    <tr>
      <td>
        <Link
          to="/agents/$agentName"
          params={{ agentName: agent.name }}
          search={{ entity: agent.entity }}
          className="run-name"
        >
          {agent.name}
        </Link>{" "}
        <span className="faint">{agent.host === agent.name ? "" : agent.host}</span>
      </td>
      <td>
        <AgentStanding agent={agent} />
      </td>
      <td className="dim">{agent.engine}</td>
      <td className="dim">
        {agent.queues.map((queue, i) => (
          <span key={queue}>
            {i ? ", " : ""}
            <Link
              to="/queues/$queueName"
              params={{ queueName: queue }}
              search={{ entity: agent.entity }}
              className="link"
            >
              {queue}
            </Link>
          </span>
        ))}
      </td>
      <td className="right num">{a.runsOf(agent.running, agent.max_jobs)}</td>
      <td className="right num dim">{freeOf(agent, "gpus", String)}</td>
      <td className="right num dim">{freeOf(agent, "millicpus", cores)}</td>
      <td className="right num dim">{freeOf(agent, "memory", bytes)}</td>
      <td className="right dim">{agent.online ? a.now : <Ago at={agent.seen_at} />}</td>
    </tr>
  );
}
