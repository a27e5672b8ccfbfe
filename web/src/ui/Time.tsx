import { useSyncExternalStore } from "react";
import { duration, exact, relative, took } from "./format";

/** One clock for the page: whatever shows a span of time moves together, once a second. */
const listeners = new Set<() => void>();
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;

function watch(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    now = Date.now();
    for (const each of listeners) each();
  }, 1000);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The time in whole seconds; in whole steps of `every` seconds, so that nothing is drawn in vain. */
export function useNow(every = 1): number {
  const step = every * 1000;
  return useSyncExternalStore(watch, () => Math.floor(now / step) * step);
}

export function Ago({ at }: { at: string }) {
  const moment = new Date(at);
  const age = Date.now() - moment.getTime();
  const current = useNow(age < 60_000 ? 1 : 30);
  return (
    <time dateTime={at} title={exact(moment)} className="num">
      {relative(moment, new Date(Math.max(current, moment.getTime())))}
    </time>
  );
}

/** How long: up to now while there is no end. */
export function Span({ from, to }: { from: string; to: string | null }) {
  const start = Date.parse(from);
  if (to !== null) return <span className="num">{took((Date.parse(to) - start) / 1000)}</span>;
  return <Ticking start={start} />;
}

function Ticking({ start }: { start: number }) {
  return <span className="num">{duration((useNow() - start) / 1000)}</span>;
}
