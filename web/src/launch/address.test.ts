import { expect, it } from "vitest";
import { type Begin, beginText, readBegin } from "./address";

it("where a launch begins has an address, and comes back from it", () => {
  const begins: Begin[] = [
    { from: "new" },
    { from: "queue", entity: "ann", queue: "gpu-lab" },
    { from: "job", entity: "ann", project: "p", job: "job-acme_train", version: "v3" },
    { from: "run", run: "r123456789" },
  ];
  for (const begin of begins) expect(readBegin(beginText(begin))).toEqual(begin);
  expect(readBegin("job:ann/p/j")).toMatchObject({ job: "j", version: "latest" });
  for (const text of ["", "x", "job:j", "run:", "queue:q"]) expect(readBegin(text)).toEqual({ from: "new" });
});
