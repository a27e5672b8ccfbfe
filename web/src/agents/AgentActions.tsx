import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Pause, Play, Trash2 } from "lucide-react";
import { useState } from "react";
import { type Agent, api, ask } from "../api/client";
import { m } from "../messages";
import { mayManage, useMe } from "../session/me";
import { Button } from "../ui/Button";
import { Confirm } from "../ui/Confirm";
import { complain, say } from "../ui/Toasts";

const a = m.agent;

/** What those who manage an entity may do with its agents. */
export function AgentActions({ agent }: { agent: Agent }) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const me = useMe();
  const [deed, setDeed] = useState<"pause" | "remove" | null>(null);
  if (!mayManage(me.data, agent.entity)) return null;
  const params = { path: { name: agent.name }, query: { entity: agent.entity } };
  const again = () => client.invalidateQueries({ queryKey: ["agents"] });
  const pause = async () => {
    await ask(api.POST("/api/v1/agents/{name}/pause", { params }));
    await again();
    say(a.paused(agent.name));
  };
  const resume = async () => {
    try {
      await ask(api.POST("/api/v1/agents/{name}/resume", { params }));
      await again();
      say(a.resumed(agent.name));
    } catch (error) {
      complain(error);
    }
  };
  const remove = async () => {
    await ask(api.DELETE("/api/v1/agents/{name}", { params }));
    await navigate({ to: "/agents" });
    client.removeQueries({ queryKey: ["agents", { name: agent.name, entity: agent.entity }] });
    void again();
    say(a.removed(agent.name));
  };
  return (
    <div className="run-actions">
      {agent.paused_at ? (
        <Button icon={<Play size={13} />} onClick={resume}>
          {a.resume}
        </Button>
      ) : (
        <Button icon={<Pause size={13} />} onClick={() => setDeed("pause")}>
          {a.pause}
        </Button>
      )}
      {agent.online ? null : (
        <Button icon={<Trash2 size={13} />} onClick={() => setDeed("remove")}>
          {a.remove}
        </Button>
      )}
      <Confirm
        open={deed === "pause"}
        onClose={() => setDeed(null)}
        title={a.pauseTitle(agent.name)}
        action={a.pause}
        onConfirm={pause}
      >
        <p>{a.pauseBody}</p>
      </Confirm>
      <Confirm
        open={deed === "remove"}
        onClose={() => setDeed(null)}
        title={a.removeTitle(agent.name)}
        action={a.remove}
        danger
        onConfirm={remove}
      >
        <p>{a.removeBody}</p>
      </Confirm>
    </div>
  );
}
