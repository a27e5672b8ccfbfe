import { describe, expect, it, vi } from "vitest";
import { lastWritten, parseAnsi, plainText } from "./ansi";
import { BLOCK } from "./blocks";
import { LogBook } from "./book";
import { type LogMap, LogTable } from "./table";

const encode = (text: string) => new TextEncoder().encode(text);

/** As the server maps a log that was written in these pieces, one a second. */
function mapOf(rank: number, pieces: string[]): LogMap {
  const bytes = encode(pieces.join(""));
  const offsets: number[] = [];
  let at = 0;
  for (const piece of pieces) {
    if (piece) offsets.push(at);
    at += encode(piece).length;
  }
  const begun = (end: number) =>
    end === 0 ? 0 : 1 + bytes.subarray(0, end - 1).filter((byte) => byte === 10).length;
  return {
    rank,
    length: bytes.length,
    lines: begun(bytes.length),
    ended: bytes.length === 0 || bytes.at(-1) === 10,
    offsets,
    firsts: offsets.map(begun),
    times: offsets.map((_, i) => i),
  };
}

async function textOf(book: LogBook): Promise<(string | null)[]> {
  const read = () => book.lines(0, book.table.rows).map((line) => line.text);
  await vi.waitFor(() => expect(read()).not.toContain(null));
  return read();
}

const bookOf = (...logs: string[][]) => {
  const bytes = logs.map((pieces) => encode(pieces.join("")));
  return new LogBook(
    logs.map((pieces, rank) => mapOf(rank, pieces)),
    async (rank, offset, limit) => (bytes[rank] ?? new Uint8Array()).slice(offset, offset + limit),
  );
};

describe("a log book", () => {
  it("has every line of one replica in order, wherever its pieces were cut", async () => {
    const pieces = ["one\ntw", "o\n", "\nfo", "ur", "\nfive"];
    expect(await textOf(bookOf(pieces))).toEqual(["one", "two", "", "four", "five"]);
  });

  it("merges replicas by the time they wrote", async () => {
    const book = bookOf(["a0\na1\n", "a2\n"], ["b0\n", "b1\nb2\n"]);
    expect(await textOf(book)).toEqual(["a0", "a1", "b0", "a2", "b1", "b2"]);
    expect(book.table.rowOf(1, 2)).toBe(5);
    expect(book.table.at(2)).toMatchObject({ line: 0, span: { rank: 1 } });
    expect(book.table.cursor(3)).toBe("3;0=9,1=9");
  });

  it("reads lines that lie across blocks, and cuts those that never end", async () => {
    const long = "x".repeat(BLOCK - 2);
    const book = bookOf([`${long}\nüber den Rand\n`, "y".repeat(40_000)]);
    const [first, second, third] = await textOf(book);
    expect(first?.length).toBe(16 * 1024);
    expect([second, third?.length]).toEqual(["über den Rand", 16 * 1024]);
    expect(book.lines(0, 3).map((line) => line.cut)).toEqual([true, false, true]);
  });

  it("grows at its end as output comes, also in the middle of a line", async () => {
    const book = bookOf(["one\ntw"]);
    await textOf(book);
    for (const piece of ["o\nthr", "ee", "\n", "four\n"]) book.append(0, encode(piece), 100);
    expect(await textOf(book)).toEqual(["one", "two", "three", "four"]);
    expect(book.table.linesOf(0)).toBe(4);
    book.append(1, encode("new rank\n"), 101);
    expect((await textOf(book)).at(-1)).toBe("new rank");
  });

  it("shows what came while the bytes before it were on their way", async () => {
    let answer = (_: Uint8Array) => {};
    const reads = vi.fn(() => new Promise<Uint8Array>((resolve) => (answer = resolve)));
    const book = new LogBook([mapOf(0, ["one\ntwo\n"])], reads);
    book.lines(0, 2);
    for (const text of ["three\n", "four\n"]) book.append(0, encode(text), 100);
    answer(encode("one\ntwo\n"));
    expect(await textOf(book)).toEqual(["one", "two", "three", "four"]);
    expect(reads).toHaveBeenCalledTimes(1);
  });

  it("is the same grown as it is mapped", async () => {
    const all = "a\n\nbc\nd".repeat(50);
    const grown = new LogBook([], async () => new Uint8Array());
    for (let at = 0; at < all.length; at += 7) grown.append(0, encode(all.slice(at, at + 7)), at);
    expect(await textOf(grown)).toEqual(await textOf(bookOf([all])));
  });

  it("finds its way among a million lines at once", () => {
    const spans = 20_000;
    const table = new LogTable([
      {
        rank: 0,
        length: spans * 3000,
        lines: spans * 50,
        ended: true,
        offsets: Array.from({ length: spans }, (_, i) => i * 3000),
        firsts: Array.from({ length: spans }, (_, i) => i * 50),
        times: Array.from({ length: spans }, (_, i) => i),
      },
    ]);
    expect(table.rows).toBe(1_000_000);
    expect(table.at(999_999)).toMatchObject({ line: 999_999, span: { start: 19_999 * 3000 } });
    expect(table.rowOf(0, 123_456)).toBe(123_456);
    expect(table.rowOf(0, 1_000_000)).toBeNull();
  });
});

describe("terminal output", () => {
  it.each([
    [
      "\x1b[31mred\x1b[0m plain",
      [
        ["red", "var(--ansi-red)"],
        [" plain", null],
      ],
    ],
    [
      "\x1b[1;92mok\x1b[39m!",
      [
        ["ok", "var(--ansi-green)"],
        ["!", null],
      ],
    ],
    [
      "\x1b[38;5;196mx\x1b[38;2;1;2;3my",
      [
        ["x", "rgb(255 0 0)"],
        ["y", "rgb(1 2 3)"],
      ],
    ],
    [
      "a\x1b[2K\x1b[1Gb\x1b]0;title\x07c",
      [
        ["a", null],
        ["b", null],
        ["c", null],
      ],
    ],
  ] as [string, [string, string | null][]][])("%j", (line, pieces) => {
    expect(parseAnsi(line).map((piece) => [piece.text, piece.style?.fg ?? null])).toEqual(pieces);
  });

  it("shows the last state of a progress bar", () => {
    expect(lastWritten(" 10%\r 50%\r100%\r")).toBe("100%");
  });

  it("is text and nothing else, however hostile", () => {
    const hostile =
      "<img src=x onerror=alert(1)>\x00\x1b[31m</div><script>\x1b]8;;javascript:alert(1)\x07click";
    expect(plainText(hostile)).toBe("<img src=x onerror=alert(1)></div><script>click");
    expect(parseAnsi("\x1b[38;2;1;2;url(x)mhm")[0]?.style).toBeNull();
  });
});
