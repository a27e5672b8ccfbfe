import type { Agent } from "../api/client";
import { m } from "../messages";
import { standingOf } from "./capacity";

/** Online or not, as a dot and a word. */
export function AgentStanding({ agent }: { agent: Agent }) {
  const standing = standingOf(agent);
  const look = { online: "live", paused: "lost", left: "", offline: "" }[standing];
  return (
    <span className={`link-state ${look}`}>
      <span className="dot" aria-hidden="true" />
      {m.agents[standing]}
    </span>
  );
}
