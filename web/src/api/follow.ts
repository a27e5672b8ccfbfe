/** From events to views: whatever is on the screen and concerns a run that changed is read again, soon. */
import type { QueryClient } from "@tanstack/react-query";
import type { Run, RunEvent } from "./client";
import { live } from "./live";
import { refresh } from "./refresh";
import { throttled } from "./throttle";

const RUN_EVERY = 250; // ms between two looks at one run
const COUNTS_EVERY = 2000; // and at the numbers of queues and agents
const PLACES_EVERY = 300; // and at these themselves
const SETTLED = 6000; // an agent tells what it has free when it asks for work next

export function followEvents(client: QueryClient): void {
  const looks = new Map<string, () => void>();
  const counts = throttled(() => {
    void refresh(client, ["queues"]);
    void refresh(client, ["agents"]);
  }, COUNTS_EVERY);

  let settling: ReturnType<typeof setTimeout> | undefined;
  const settle = () => {
    clearTimeout(settling);
    settling = setTimeout(() => void refresh(client, ["agents"]), SETTLED);
  };
  const places = throttled(() => {
    void refresh(client, ["queues"]);
    void refresh(client, ["agents"]);
  }, PLACES_EVERY);

  const look = (id: string) => {
    if (client.getQueryState(["run", id]) === undefined) return;
    let again = looks.get(id);
    if (again === undefined) {
      if (looks.size > 100) looks.clear();
      again = throttled(() => void refresh(client, ["run", id]), RUN_EVERY);
      looks.set(id, again);
    }
    again();
  };

  live.listen((events) => {
    for (const event of events) {
      if (event.type === "state") show(client, event);
    }
    for (const id of new Set(events.map((event) => event.run_id))) look(id);
    // A note may say that a run was moved to another place in its queue.
    if (events.some((event) => event.type === "state" || event.type === "note")) {
      counts();
      settle();
    }
  });
  live.places(places);
  // What is on its way already is not asked for twice.
  live.resync(() => void client.invalidateQueries({}, { cancelRefetch: false }));
}

/** The new state itself is in the event: it is on the screen before the rest has been read. */
function show(client: QueryClient, event: RunEvent): void {
  client.setQueryData<Run>(["run", event.run_id], (run) =>
    run && event.seq > run.version ? { ...run, state: event.data.to as Run["state"] } : run,
  );
}
