import { useNavigate, useSearch } from "@tanstack/react-router";
import {
  ArrowDown,
  ArrowDownToLine,
  ArrowUp,
  ArrowUpToLine,
  Clock,
  Download,
  ScrollText,
  Search,
  TriangleAlert,
  WrapText,
} from "lucide-react";
import { useCallback, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { api, ask, type Run } from "../api/client";
import { m } from "../messages";
import { ENDED } from "../runs/filter";
import { Button } from "../ui/Button";
import { copyText, saveAs } from "../ui/Copy";
import { useKeys } from "../ui/keys";
import { Empty, ErrorNote, Skeleton } from "../ui/Notes";
import { Select } from "../ui/Select";
import { complain, say } from "../ui/Toasts";
import { remember, remembered } from "../ui/theme";
import type { Line, LogBook } from "./book";
import { LogView, type LogViewHandle } from "./LogView";
import { readBytes, useBook } from "./useBook";

type Address = { [key: string]: string | undefined };

export function LogsTab({ run, ranks }: { run: Run; ranks: readonly number[] }) {
  const search = useSearch({ strict: false }) as Address;
  const navigate = useNavigate();
  const attempt = Math.min(Number(search.attempt) || run.attempt, run.attempt);
  const rank = search.rank !== undefined && /^\d+$/.test(search.rank) ? Number(search.rank) : null;
  const goesOn = !ENDED.has(run.state) && attempt === run.attempt;
  const { book, error, retry } = useBook(run.id, attempt, rank, goesOn);
  const setSearch = useCallback(
    (changes: Address) =>
      void navigate({ to: ".", search: (before: Address) => ({ ...before, ...changes }), replace: true }),
    [navigate],
  );
  const pickers = (
    <>
      {ranks.length > 1 ? (
        <Select
          label={m.logs.replica}
          value={rank === null ? "all" : String(rank)}
          options={[
            { value: "all", label: m.logs.allReplicas },
            ...ranks.map((one) => ({ value: String(one), label: m.logs.rank(one) })),
          ]}
          onChange={(value) => setSearch({ rank: value === "all" ? undefined : value, line: undefined })}
        />
      ) : null}
      {run.attempt > 1 ? (
        <Select
          label={m.logs.attemptLabel}
          value={String(attempt)}
          options={Array.from({ length: run.attempt }, (_, i) => ({
            value: String(run.attempt - i),
            label: m.logs.attempt(run.attempt - i),
          }))}
          onChange={(value) =>
            setSearch({ attempt: Number(value) === run.attempt ? undefined : value, line: undefined })
          }
        />
      ) : null}
    </>
  );
  if (error) return <ErrorNote error={error} onRetry={() => void retry()} />;
  if (attempt === 0) {
    return (
      <Empty icon={ScrollText} title={m.logs.emptyTitle}>
        {ENDED.has(run.state) ? m.logs.emptyEnded : m.logs.empty}
      </Empty>
    );
  }
  if (!book) return <Skeleton rows={12} />;
  return (
    <Reader
      key={`${attempt}:${rank}`}
      run={run}
      book={book}
      attempt={attempt}
      rank={rank}
      many={ranks.length > 1 && rank === null}
      goesOn={goesOn}
      asked={search.line}
      find={search.find ?? ""}
      onAsked={(line) => setSearch({ line })}
      pickers={pickers}
    />
  );
}

interface ReaderProps {
  run: Run;
  book: LogBook;
  attempt: number;
  rank: number | null;
  many: boolean;
  goesOn: boolean;
  asked: string | undefined; //: the line in the address, `rank:number` or `number`
  find: string;
  onAsked: (line: string) => void;
  pickers: React.ReactNode;
}

interface Found {
  readonly text: string;
  readonly rows: readonly number[];
  readonly more: boolean;
}

const PIECE = 8 * 1024 * 1024; //: bytes the server gives at once
const MOST = 1000; //: matches of a replica
const setting = (name: string) => `muster.logs.${name}`;

function Reader({ run, book, attempt, rank, many, goesOn, asked, find, onAsked, pickers }: ReaderProps) {
  const view = useRef<LogViewHandle>(null);
  const input = useRef<HTMLInputElement>(null);
  const [follow, setFollow] = useState(goesOn && asked === undefined && !find);
  const [wrap, setWrap] = useState(remembered(setting("wrap")) === "yes");
  const [times, setTimes] = useState(remembered(setting("times")) === "yes");
  const [typed, setTyped] = useState(find);
  const [found, setFound] = useState<Found | null>(null);
  const [nth, setNth] = useState(0);
  const [marked, setMarked] = useState<number | null>(null);
  const fixed = rank ?? (many ? null : (book.table.ranks[0] ?? 0));

  const look = useCallback(
    async (text: string, limit: number): Promise<number[]> => {
      const query = { text, limit, attempt, ...(fixed === null ? {} : { rank: fixed }) };
      const page = await ask(
        api.GET("/api/v1/runs/{run_id}/logs/find", { params: { path: { run_id: run.id }, query } }),
      );
      const rows = page.items.map((match) => book.table.rowOf(match.rank, match.line));
      return rows.filter((row) => row !== null).sort((a, b) => a - b);
    },
    [run.id, attempt, fixed, book],
  );
  const goTo = useCallback((row: number) => {
    setMarked(row);
    view.current?.goTo(row);
  }, []);

  useEffect(() => {
    if (asked === undefined) return;
    const [of, number] = asked.includes(":") ? asked.split(":") : [String(fixed ?? 0), asked];
    const row = book.table.rowOf(Number(of), Number(number) - 1);
    if (row !== null) goTo(row);
  }, [asked, book, fixed, goTo]);

  useEffect(() => {
    const text = typed.trim();
    if (!text) {
      setFound(null);
      return;
    }
    const timer = setTimeout(() => {
      look(text, MOST).then(
        (rows) => {
          setFound({ text, rows, more: rows.length >= MOST });
          setNth(0);
          if (rows[0] !== undefined) goTo(rows[0]);
        },
        (error) => complain(error),
      );
    }, 200);
    return () => clearTimeout(timer);
  }, [typed, look, goTo]);

  const step = (by: number) => {
    if (!found?.rows.length) return;
    const next = (nth + by + found.rows.length) % found.rows.length;
    setNth(next);
    const row = found.rows[next];
    if (row !== undefined) goTo(row);
  };
  const firstError = async () => {
    try {
      const [row] = await look("", 1);
      if (row === undefined) say(m.logs.noError);
      else goTo(row);
    } catch (error) {
      complain(error);
    }
  };
  const onLine = (line: Line) => {
    const place = many ? `${line.rank}:${line.number + 1}` : String(line.number + 1);
    onAsked(place);
    const url = new URL(location.href);
    url.searchParams.set("line", place);
    void copyText(url.href).then(() => say(m.logs.linkCopied));
  };
  const keep = (name: string, on: boolean, set: (on: boolean) => void) => {
    set(on);
    remember(setting(name), on ? "yes" : null);
  };
  useKeys({
    "/": () => input.current?.focus(),
    f: () => setFollow((on) => !on),
  });
  const download = async () => {
    try {
      const parts: Uint8Array<ArrayBuffer>[] = [];
      const of = fixed ?? 0;
      for (let at = 0; at < book.table.length(of); at += parts.at(-1)?.length || PIECE) {
        parts.push(await readBytes(run.id, attempt, of, at, PIECE));
      }
      saveAs(new Blob(parts, { type: "text/plain" }), `${run.name}-${run.id}-rank${of}.log`);
    } catch (error) {
      complain(error);
    }
  };
  return (
    <div className="logs">
      <div className="log-bar" role="toolbar" aria-label={m.run.tabs.logs}>
        {pickers}
        <div className="search-field">
          <Search size={14} aria-hidden="true" />
          <input
            ref={input}
            type="search"
            className="input"
            placeholder={m.logs.search}
            aria-label={m.logs.search}
            maxLength={256}
            value={typed}
            onChange={(event) => setTyped(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
              if (event.key === "Escape") event.currentTarget.blur();
            }}
          />
          <kbd aria-hidden="true">/</kbd>
        </div>
        {found ? (
          <span className="matches num" role="status">
            {m.logs.matches(found.rows.length ? nth + 1 : 0, found.rows.length, found.more)}
            <Button
              kind="ghost"
              icon={<ArrowUp size={14} />}
              aria-label={m.logs.previous}
              onClick={() => step(-1)}
            />
            <Button
              kind="ghost"
              icon={<ArrowDown size={14} />}
              aria-label={m.logs.next}
              onClick={() => step(1)}
            />
          </span>
        ) : null}
        <Button icon={<TriangleAlert size={14} />} onClick={firstError}>
          {m.logs.firstError}
        </Button>
        <span className="bar-end">
          <Button
            kind="ghost"
            icon={<Clock size={14} />}
            aria-pressed={times}
            aria-label={m.logs.times}
            title={m.logs.times}
            onClick={() => keep("times", !times, setTimes)}
          />
          <Button
            kind="ghost"
            icon={<WrapText size={14} />}
            aria-pressed={wrap}
            aria-label={m.logs.wrap}
            title={m.logs.wrap}
            onClick={() => keep("wrap", !wrap, setWrap)}
          />
          <Button
            kind="ghost"
            icon={<ArrowUpToLine size={14} />}
            aria-label={m.logs.top}
            title={m.logs.top}
            onClick={() => view.current?.goTo(0)}
          />
          <Button
            kind="ghost"
            icon={<Download size={14} />}
            aria-label={m.logs.download}
            title={m.logs.download}
            onClick={download}
          />
          <Button
            icon={<ArrowDownToLine size={14} />}
            aria-pressed={follow}
            onClick={() => {
              setFollow(!follow);
              view.current?.toEnd();
            }}
          >
            {goesOn ? m.logs.follow : m.logs.bottom}
          </Button>
        </span>
      </div>
      <LogView
        ref={view}
        book={book}
        wrap={wrap}
        times={times}
        ranks={many}
        follow={follow}
        onFollow={setFollow}
        marked={marked}
        search={found?.text ?? ""}
        onLine={onLine}
      />
      <LogStatus book={book} goesOn={goesOn} />
    </div>
  );
}

function LogStatus({ book, goesOn }: { book: LogBook; goesOn: boolean }) {
  useSyncExternalStore(book.subscribe, book.snapshot);
  const rows = book.table.rows;
  return (
    <div className="log-status faint num">
      {rows === 0 ? (goesOn ? m.logs.empty : m.logs.emptyEnded) : m.logs.lines(rows)}
    </div>
  );
}
