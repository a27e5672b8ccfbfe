/** Calls `work` at once, then at most every `every` ms; what comes in between is one call at the end.
 *
 * Where it goes on and on, the pauses grow up to `longest`. */
export function throttled(work: () => void, every: number, longest = every): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let again = false;
  let pause = every;
  const tick = () => {
    timer = undefined;
    if (again) {
      again = false;
      pause = Math.min(pause * 1.5, longest);
      run();
    } else {
      pause = every;
    }
  };
  const run = () => {
    timer = setTimeout(tick, pause);
    work();
  };
  return () => {
    if (timer === undefined) run();
    else again = true;
  };
}
