/** A window on a log of any length. Only the rows in sight exist; the scroll bar stands for all of them.
 *
 * Where a row is, is a matter of its number, not of pixels: browsers have no elements taller than some
 * millions of pixels, and lines that wrap have no height that could be known beforehand.
 */
import {
  type CSSProperties,
  type ReactNode,
  type Ref,
  useCallback,
  useEffect,
  useImperativeHandle,
  useLayoutEffect,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import { m } from "../messages";
import { clock } from "../ui/format";
import { parseAnsi } from "./ansi";
import type { Line, LogBook } from "./book";

export const ROW = 19; //: pixels
const TALLEST = 8_000_000; //: pixels; every browser can do this

export interface LogViewHandle {
  /** Brings a row into sight. */
  goTo(row: number): void;
  toEnd(): void;
}

interface Props {
  book: LogBook;
  wrap: boolean;
  times: boolean;
  ranks: boolean;
  follow: boolean;
  onFollow: (follow: boolean) => void;
  marked: number | null; //: row
  search: string;
  onLine: (line: Line) => void;
  ref: Ref<LogViewHandle>;
}

export function LogView({ book, wrap, times, ranks, follow, onFollow, marked, search, onLine, ref }: Props) {
  useSyncExternalStore(book.subscribe, book.snapshot);
  const scroller = useRef<HTMLDivElement>(null);
  const [height, setHeight] = useState(600);
  const [top, setTop] = useState(0); // row, with a fraction
  const setByUs = useRef(-1);

  const rows = book.table.rows;
  const inSight = height / ROW;
  const last = Math.max(0, rows - inSight);
  const tall = Math.min(rows * ROW, TALLEST);
  const perPixel = tall > height ? last / (tall - height) : 0; // rows for a pixel of the scroll bar
  const at = follow ? last : Math.min(top, last);

  const scrollTo = useCallback(
    (row: number) => {
      const wanted = Math.max(0, Math.min(row, last));
      setTop(wanted);
      if (scroller.current && perPixel > 0) {
        const pixel = Math.round(wanted / perPixel);
        setByUs.current = pixel;
        scroller.current.scrollTop = pixel;
      }
    },
    [last, perPixel],
  );

  useImperativeHandle(
    ref,
    () => ({
      goTo: (row) => {
        onFollow(false);
        scrollTo(row - inSight / 3);
      },
      toEnd: () => scrollTo(last),
    }),
    [scrollTo, inSight, last, onFollow],
  );

  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setHeight(element.clientHeight || 600));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);

  useLayoutEffect(() => {
    if (follow) scrollTo(last);
  }, [follow, last, scrollTo]);

  // A pixel of the bar is many lines in a long log: there the wheel moves lines, not the bar.
  useEffect(() => {
    const element = scroller.current;
    if (!element || perPixel * ROW <= 1.01) return;
    const onWheel = (event: WheelEvent) => {
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.ctrlKey) return;
      event.preventDefault();
      const pixels = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? event.deltaY * ROW : event.deltaY;
      if (pixels < 0) onFollow(false);
      scrollTo(at + pixels / ROW);
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, [perPixel, at, scrollTo, onFollow]);

  const onScroll = () => {
    const element = scroller.current;
    if (!element) return;
    if (Math.abs(element.scrollTop - setByUs.current) < 2) return; // an echo of our own
    setByUs.current = -1;
    const row = element.scrollTop * perPixel;
    if (follow && row < last - 1) onFollow(false);
    setTop(row);
  };

  const first = Math.floor(at);
  const atEnd = at >= last - 0.01;
  const lines = book.lines(wrap && atEnd ? first - 5 : first, first + Math.ceil(inSight) + 2);
  const digits = String(Math.max(...book.table.ranks.map((rank) => book.table.linesOf(rank)), 99)).length;
  const shift: CSSProperties = atEnd ? { bottom: 0 } : { top: -(at - first) * ROW };
  const short = rows * ROW <= height && !wrap;
  return (
    <div
      className="log"
      ref={scroller}
      onScroll={onScroll}
      role="log"
      aria-live="off"
      aria-label={m.logs.label}
      tabIndex={0}
    >
      <div style={{ height: Math.max(tall, 1) }}>
        <div className={`log-window ${wrap ? "wrap" : ""}`} style={{ height }}>
          <div className="log-lines" style={short ? { top: 0 } : shift}>
            {lines.map((line) => (
              <LogLine
                key={`${line.rank}:${line.number}`}
                line={line}
                digits={digits}
                rank={ranks}
                time={times}
                marked={marked !== null && book.table.rowOf(line.rank, line.number) === marked}
                search={search}
                onLine={onLine}
              />
            ))}
          </div>
        </div>
      </div>
    </div>
  );
}

interface LineProps {
  line: Line;
  digits: number;
  rank: boolean;
  time: boolean;
  marked: boolean;
  search: string;
  onLine: (line: Line) => void;
}

function LogLine({ line, digits, rank, time, marked, search, onLine }: LineProps) {
  return (
    <div className={`log-line ${marked ? "marked" : ""}`} data-line={line.number + 1} data-rank={line.rank}>
      <button
        type="button"
        className="log-number"
        style={{ width: `${digits + 2}ch` }}
        aria-label={m.logs.copyLink(line.number + 1)}
        tabIndex={-1}
        onClick={() => onLine(line)}
      >
        {line.number + 1}
      </button>
      {rank ? <span className={`log-rank rank-${line.rank % 6}`}>{line.rank}</span> : null}
      {time ? (
        <span className="log-time">{line.time === null ? "" : clock(new Date(line.time * 1000))}</span>
      ) : null}
      <span className="log-text">
        {line.text === null ? <span className="log-coming" /> : <Pieces text={line.text} search={search} />}
        {line.cut ? <em className="faint"> …</em> : null}
      </span>
    </div>
  );
}

function Pieces({ text, search }: { text: string; search: string }) {
  return parseAnsi(text).map((piece, i) => {
    const shown = highlighted(piece.text, search);
    const s = piece.style;
    // biome-ignore lint/suspicious/noArrayIndexKey: pieces of a line never move
    if (s === null) return <span key={i}>{shown}</span>;
    const style: CSSProperties = {
      ...(s.fg ? { color: s.fg } : {}),
      ...(s.bg ? { backgroundColor: s.bg } : {}),
      ...(s.bold ? { fontWeight: 700 } : {}),
      ...(s.dim ? { opacity: 0.7 } : {}),
      ...(s.italic ? { fontStyle: "italic" } : {}),
      ...(s.underline ? { textDecoration: "underline" } : {}),
    };
    return (
      // biome-ignore lint/suspicious/noArrayIndexKey: pieces of a line never move
      <span key={i} style={style}>
        {shown}
      </span>
    );
  });
}

function highlighted(text: string, search: string): ReactNode {
  if (!search) return text;
  const parts: ReactNode[] = [];
  const lowered = text.toLowerCase();
  const wanted = search.toLowerCase();
  let end = 0;
  for (let at = lowered.indexOf(wanted); at >= 0 && parts.length < 200; at = lowered.indexOf(wanted, end)) {
    parts.push(text.slice(end, at), <mark key={at}>{text.slice(at, at + wanted.length)}</mark>);
    end = at + wanted.length;
  }
  return [...parts, text.slice(end)];
}
