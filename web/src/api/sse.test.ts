import { expect, it } from "vitest";
import { EventParser } from "./sse";

const TEXT =
  'id: 7\r\nevent: state\r\ndata: {"to":"running"}\r\n\r\n: ping\r\n\r\nevent: log\r\ndata: ü: x\r\n\r\n';

it("events are found however the stream is cut", () => {
  for (let size = 1; size <= TEXT.length; size++) {
    const parser = new EventParser();
    const found = [];
    for (let at = 0; at < TEXT.length; at += size) found.push(...parser.feed(TEXT.slice(at, at + size)));
    expect(found).toEqual([
      { event: "state", id: "7", data: '{"to":"running"}' },
      { event: "log", id: null, data: "ü: x" },
    ]);
  }
});
