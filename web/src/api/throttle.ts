/** Calls `work` at once, then at most every `every` ms; what comes in between is one call at the end. */
export function throttled(work: () => void, every: number | (() => number)): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let again = false;
  const tick = () => {
    timer = undefined;
    if (!again) return;
    again = false;
    run();
  };
  const run = () => {
    work();
    timer = setTimeout(tick, typeof every === "number" ? every : every());
  };
  return () => {
    if (timer === undefined) run();
    else again = true;
  };
}
