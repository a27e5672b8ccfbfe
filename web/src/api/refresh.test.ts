import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { expect, it } from "vitest";
import { refresh } from "./refresh";

it("asks again for what was on its way for the first time when the news came", async () => {
  const client = new QueryClient();
  const answers = ["claimed", "pending"];
  const arrive: (() => void)[] = [];
  const seen = new QueryObserver(client, {
    queryKey: ["run", "a"],
    queryFn: () => {
      const answer = answers.shift();
      return new Promise((resolve) => arrive.push(() => resolve(answer)));
    },
  });
  const leave = seen.subscribe(() => {});
  const fresh = refresh(client, ["run", "a"]);
  arrive.shift()?.();
  await expect.poll(() => arrive.length).toBe(1);
  arrive.shift()?.();
  await fresh;
  expect(seen.getCurrentResult().data).toBe("pending");
  leave();
});
