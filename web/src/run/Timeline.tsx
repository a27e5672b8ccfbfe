import type { Run } from "../api/client";
import { m } from "../messages";
import { ENDED } from "../runs/filter";
import { exact } from "../ui/format";
import { Skeleton } from "../ui/Notes";
import { StateIcon, toneOf } from "../ui/StateBadge";
import { Span, useNow } from "../ui/Time";
import { useEvents } from "./queries";
import { type Step, stepsOf } from "./steps";

export function Timeline({ run }: { run: Run }) {
  const { data } = useEvents(run.id);
  if (!data) return <Skeleton rows={2} />;
  const steps = stepsOf(data.items);
  return (
    <div className="timeline">
      <Bar steps={steps} goesOn={!ENDED.has(run.state)} />
      <ol>
        {steps.map((step) => (
          <li key={`${step.from}${step.state}`}>
            <StateIcon state={step.state} />
            <span>{m.states[step.state] ?? step.state}</span>
            {step.attempt > 1 ? <span className="faint">{m.run.attempt(step.attempt)}</span> : null}
            <time className="faint num" dateTime={step.from}>
              {exact(new Date(step.from))}
            </time>
            <span className="num dim step-span">
              {ENDED.has(step.state) ? null : <Span from={step.from} to={step.to} />}
            </span>
            {step.reason ? <span className="dim cut">{step.reason}</span> : null}
          </li>
        ))}
      </ol>
    </div>
  );
}

/** How the time was spent. */
function Bar({ steps, goesOn }: { steps: readonly Step[]; goesOn: boolean }) {
  const now = useNow(goesOn ? 1 : 3600);
  const spans = steps.map((step) => ({
    state: step.state,
    length: Math.max(1, (step.to ? Date.parse(step.to) : now) - Date.parse(step.from)),
  }));
  return (
    <div className="time-bar" aria-hidden="true">
      {spans.map(({ state, length }, i) => (
        <div
          // biome-ignore lint/suspicious/noArrayIndexKey: steps are only added
          key={i}
          className={`${toneOf(state)} ${state}`}
          title={m.states[state]}
          style={{ flexGrow: length }}
        />
      ))}
    </div>
  );
}
