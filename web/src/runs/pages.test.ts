import { describe, expect, it, vi } from "vitest";
import type { Run, RunEvent } from "../api/client";
import { type Problem, ProblemError } from "../api/problem";
import { isGroup, lines, sorted } from "./layout";
import { afterEvent, type FetchPage, PAGE, type Row, RunPages, rowOf, withHead } from "./pages";
import { rowsAt } from "./useRowWindow";

const run = (n: number, more: Partial<Run> = {}): Run =>
  ({
    id: `r${n}`,
    name: `run-${n}`,
    state: "queued",
    queue: "local",
    project: "p",
    entity: "ann",
    author: "ann",
    nodes: 1,
    resources: { millicpus: 0, memory: 0, gpus: n % 3 },
    job: null,
    group: null,
    created_at: new Date(1e12 + n * 1000).toISOString(),
    started_at: null,
    ended_at: null,
    version: 1,
    ...more,
  }) as Run;

const event = (id: string, seq: number, to: string): RunEvent =>
  ({
    id: seq,
    run_id: id,
    seq,
    attempt: 1,
    type: "state",
    at: "2026-01-01T00:00:09Z",
    actor: "a",
    data: { to },
  }) as RunEvent;

/** A server that has these runs, newest first. */
function server(all: () => Run[]): FetchPage {
  return async (cursor, limit) => {
    const runs = all();
    const start = cursor === null ? 0 : runs.findIndex((one) => one.id === cursor) + 1;
    const items = runs.slice(start, start + limit);
    return { items, next: start + limit < runs.length ? (items.at(-1)?.id ?? null) : null };
  };
}

const newestFirst = (count: number) => Array.from({ length: count }, (_, i) => run(count - i));
const ids = (rows: readonly Row[]) => rows.map((row) => row.id);

describe("pages of runs", () => {
  it("are begun once, by whoever comes first, and looked at again by whoever comes back", async () => {
    let runs = newestFirst(3);
    const fetchPage = vi.fn(server(() => runs));
    const pages = new RunPages(fetchPage);
    pages.begin();
    pages.begin();
    await vi.waitFor(() => expect(pages.snapshot().rows).toHaveLength(3));
    expect(fetchPage).toHaveBeenCalledTimes(1);
    runs = newestFirst(4);
    pages.begin();
    await vi.waitFor(() => expect(pages.snapshot().rows).toHaveLength(4));
  });

  it("are read one after the other until there are none", async () => {
    const pages = new RunPages(server(() => newestFirst(250)));
    for (let i = 0; i < 5; i++) await pages.loadMore();
    expect(pages.snapshot().rows).toHaveLength(250);
    expect(pages.snapshot().more).toBe(false);
  });

  it("show a new state as soon as the event tells it, and pass over what is old", async () => {
    vi.useFakeTimers();
    const pages = new RunPages(server(() => newestFirst(3)));
    await pages.loadMore();
    pages.take([event("r2", 5, "running"), event("r2", 4, "starting")]);
    vi.advanceTimersByTime(100);
    const row = pages.snapshot().rows.find((one) => one.id === "r2");
    expect(row).toMatchObject({ state: "running", started_at: "2026-01-01T00:00:09Z", version: 5 });
    vi.useRealTimers();
  });

  it("take in what was launched, and drop what was deleted, without losing what was scrolled to", async () => {
    let all = newestFirst(2 * PAGE);
    const pages = new RunPages(server(() => all));
    await pages.loadMore();
    await pages.loadMore();
    all = [run(999), ...all.filter((one) => one.id !== "r150")];
    pages.refresh();
    await vi.waitFor(() => expect(pages.snapshot().rows[0]?.id).toBe("r999"));
    expect(ids(pages.snapshot().rows)).toEqual(ids(all.map(rowOf)));
  });

  it("keep what an event told when an older answer comes after it", async () => {
    let answer = (_: unknown) => {};
    const pages = new RunPages(() => new Promise((resolve) => (answer = resolve as typeof answer)));
    void pages.loadMore();
    pages.take([event("r1", 5, "running")]);
    answer({ items: [run(2), run(1)], next: null });
    await vi.waitFor(() => expect(pages.snapshot().rows).toHaveLength(2));
    expect(pages.snapshot().rows[1]).toMatchObject({ state: "running", version: 5 });
    pages.refresh(); // for the run that was strange, and again
    await vi.waitFor(() => answer({ items: [run(3), run(2), run(1)], next: null }));
    await vi.waitFor(() => expect(pages.snapshot().rows).toHaveLength(3));
    expect(pages.snapshot().rows[2]).toMatchObject({ state: "running", version: 5 });
  });

  it("forget neither a new run nor the next page while another answer is on its way", async () => {
    let all = newestFirst(3 * PAGE);
    const pages = new RunPages(server(() => all));
    await pages.loadMore();
    const second = pages.loadMore();
    all = [run(999), ...all];
    pages.refresh();
    void pages.loadMore();
    await second;
    await vi.waitFor(() => expect(ids(pages.snapshot().rows)).toEqual(ids(all.map(rowOf))));
  });

  it("find what is new in its place where the newest is not first", async () => {
    let all = newestFirst(2 * PAGE + 5).toReversed();
    const pages = new RunPages(
      server(() => all),
      () => true,
      false,
    );
    for (let i = 0; i < 3; i++) await pages.loadMore();
    expect(pages.snapshot().more).toBe(false);
    all = [...all.filter((one) => one.id !== "r120"), run(999)];
    pages.take([event("r999", 1, "queued")]);
    await vi.waitFor(() => expect(pages.snapshot().rows.at(-1)?.id).toBe("r999"));
    expect(ids(pages.snapshot().rows)).toEqual(ids(all.map(rowOf)));
  });

  it("are all read again when something may have been missed", async () => {
    let all = newestFirst(3 * PAGE);
    const pages = new RunPages(server(() => all));
    for (let i = 0; i < 3; i++) await pages.loadMore();
    all = all.map((one) => (one.id === "r7" ? { ...one, state: "failed", version: 9 } : one));
    pages.reread();
    await vi.waitFor(() =>
      expect(pages.snapshot().rows.find((row) => row.id === "r7")?.state).toBe("failed"),
    );
    expect(pages.snapshot().rows).toHaveLength(3 * PAGE);
  });

  it("let go of a run that is no longer in a state that was asked for", async () => {
    const pages = new RunPages(
      server(() => newestFirst(2)),
      (row) => row.state === "queued",
    );
    await pages.loadMore();
    pages.take([event("r2", 5, "running")]);
    await vi.waitFor(() => expect(ids(pages.snapshot().rows)).toEqual(["r1"]));
  });

  it("try again by themselves while the server cannot be reached", async () => {
    vi.useFakeTimers();
    let away = true;
    const good = server(() => newestFirst(1));
    const lost = new ProblemError({ status: 0, detail: "away" } as Problem);
    const pages = new RunPages((...asked) => (away ? Promise.reject(lost) : good(...asked)));
    pages.subscribe(() => {});
    await pages.loadMore();
    away = false;
    await vi.advanceTimersByTimeAsync(1100);
    expect(pages.snapshot()).toMatchObject({ error: null, more: false });
    vi.useRealTimers();
  });

  it("say what went wrong, and go on when asked again", async () => {
    let broken = true;
    const good = server(() => newestFirst(1));
    const pages = new RunPages((...asked) => (broken ? Promise.reject(new Error("down")) : good(...asked)));
    await pages.loadMore();
    expect(pages.snapshot().error).toEqual(new Error("down"));
    broken = false;
    await pages.loadMore();
    expect(pages.snapshot()).toMatchObject({ error: null, more: false });
  });
});

describe("new runs that come on and on", () => {
  const looksIn = async (ms: number, lookTakes: number) => {
    vi.useFakeTimers();
    let looks = 0;
    const pages = new RunPages(async () => {
      looks += 1;
      await new Promise((resolve) => setTimeout(resolve, lookTakes));
      return { items: newestFirst(3), next: null };
    });
    const first = pages.loadMore();
    await vi.advanceTimersByTimeAsync(lookTakes);
    await first;
    looks = 0;
    for (let at = 0; at < ms; at += 20) {
      pages.take([event(`new-${at}`, at + 2, "queued")]);
      await vi.advanceTimersByTimeAsync(20);
    }
    vi.useRealTimers();
    return looks;
  };

  it("are looked for at once, again and again", async () => {
    expect(await looksIn(3000, 5)).toBeGreaterThanOrEqual(25);
  });

  it("are looked for more seldom where a look takes long", async () => {
    expect(await looksIn(10_000, 300)).toBeLessThanOrEqual(10);
  });
});

it("a head that has nothing in common with what is shown replaces it", () => {
  const rows = [3, 2, 1].map((n) => rowOf(run(n)));
  expect(ids(withHead(rows, [rowOf(run(9)), rowOf(run(8))], false))).toEqual(["r9", "r8"]);
  expect(withHead(rows, [], true)).toEqual([]);
});

it("a run that is tried again has no end any more", () => {
  const lost = { ...rowOf(run(1)), state: "running" as const, ended_at: null };
  expect(afterEvent(lost, event("r1", 7, "queued"))).toMatchObject({ state: "queued", ended_at: null });
  expect(afterEvent(lost, event("r1", 1, "failed"))).toBe(lost);
});

describe("the layout of the list", () => {
  const rows = [run(5), run(4, { group: "g" }), run(3), run(2, { group: "g" }), run(1)].map(rowOf);
  const told = (open: string[]) =>
    lines(rows, true, new Set(open)).map((line) =>
      isGroup(line) ? `${line.group}(${line.rows.length})` : line.id,
    );

  it("folds a group at the place of its newest run", () => {
    expect(told([])).toEqual(["r5", "g(2)", "r3", "r1"]);
    expect(told(["g"])).toEqual(["r5", "g(2)", "r4", "r2", "r3", "r1"]);
    expect(lines(rows, false, new Set())).toHaveLength(5);
  });

  it("sorts by what a column shows, and leaves the order of time to the server", () => {
    expect(ids(sorted(rows, { by: "created", down: false }, 0))).toEqual(["r5", "r4", "r3", "r2", "r1"]);
    expect(ids(sorted(rows, { by: "gpus", down: true }, 0))).toEqual(["r5", "r2", "r4", "r1", "r3"]);
  });
});

it("draws the rows in sight in whole steps, so that it moves seldom", () => {
  expect(rowsAt(0, 740, 37)).toEqual({ from: 0, to: 24 });
  expect(rowsAt(30, 700, 37)).toEqual({ from: 0, to: 24 });
  expect(rowsAt(3700, 740, 37)).toEqual({ from: 96, to: 124 });
});
