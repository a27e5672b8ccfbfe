import { CircleCheck, CirclePause, CircleSlash, Droplets } from "lucide-react";
import type { Queue } from "../api/client";
import { m } from "../messages";
import { standingOf } from "./draft";

const ICONS = { open: CircleCheck, paused: CirclePause, draining: Droplets, noAgent: CircleSlash } as const;
const TONES = { open: "green", paused: "amber", draining: "amber", noAgent: "amber" } as const;

/** How a queue stands, as icon and word. */
export function Standing({ queue, strong = false }: { queue: Queue; strong?: boolean }) {
  const standing = standingOf(queue);
  const Icon = ICONS[standing];
  const tone = TONES[standing];
  return (
    <span className={strong ? `state strong ${tone}` : `state ${tone === "amber" ? "warn" : "dim"}`}>
      <Icon size={14} aria-hidden="true" />
      {m.queues[standing]}
    </span>
  );
}
