/** A state as icon and word: the colour is never the only sign. */
import { m } from "../messages";

type Tone = "green" | "red" | "blue" | "amber" | "grey";

const TONES: Record<string, Tone> = {
  queued: "grey",
  claimed: "amber",
  preparing: "amber",
  pending: "amber",
  starting: "blue",
  running: "blue",
  stopping: "amber",
  succeeded: "green",
  failed: "red",
  stopped: "grey",
};

export const toneOf = (state: string): Tone => TONES[state] ?? "grey";

export const stateName = (state: string): string => m.states[state] ?? state;

export function StateIcon({ state }: { state: string }) {
  return (
    <svg
      className={`state-icon ${toneOf(state)} ${state}`}
      width="14"
      height="14"
      viewBox="0 0 14 14"
      aria-hidden="true"
    >
      {shape(state)}
    </svg>
  );
}

function shape(state: string) {
  switch (state) {
    case "succeeded":
      return (
        <>
          <circle cx="7" cy="7" r="6.5" className="fill" />
          <path d="m4.2 7.2 2 2 3.7-4" className="sign" />
        </>
      );
    case "failed":
      return (
        <>
          <circle cx="7" cy="7" r="6.5" className="fill" />
          <path d="m4.8 4.8 4.4 4.4m0-4.4L4.8 9.2" className="sign" />
        </>
      );
    case "stopped":
      return (
        <>
          <circle cx="7" cy="7" r="6" className="ring" />
          <rect x="4.75" y="4.75" width="4.5" height="4.5" rx="0.8" className="fill" />
        </>
      );
    case "running":
    case "starting":
      return (
        <>
          <circle cx="7" cy="7" r="6" className="ring soft" />
          <path d="M7 1a6 6 0 0 1 6 6" className="ring turn" />
          <circle cx="7" cy="7" r="2.4" className="fill" />
        </>
      );
    case "queued":
      return <circle cx="7" cy="7" r="6" className="ring dashed" />;
    default: // on the way: claimed, preparing, pending, stopping
      return (
        <>
          <circle cx="7" cy="7" r="6" className="ring" />
          <path d="M7 3.4A3.6 3.6 0 0 1 7 10.6Z" className="fill" />
        </>
      );
  }
}

export function StateBadge({ state, strong = false }: { state: string; strong?: boolean }) {
  return (
    <span className={`state ${strong ? `strong ${toneOf(state)}` : ""}`}>
      <StateIcon state={state} />
      {stateName(state)}
    </span>
  );
}
