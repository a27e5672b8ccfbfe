/** Numbers and moments as people read them. */
import { m } from "../messages";

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** `3 s`, `4m 05s`, `2h 03m`, `5d 1h` */
export function duration(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds));
  if (s < MINUTE) return `${s}s`;
  if (s < HOUR) return `${Math.floor(s / MINUTE)}m ${pad(s % MINUTE)}s`;
  if (s < DAY) return `${Math.floor(s / HOUR)}h ${pad(Math.floor((s % HOUR) / MINUTE))}m`;
  return `${Math.floor(s / DAY)}d ${Math.floor((s % DAY) / HOUR)}h`;
}

/** How long something took that is over: with tenths, where seconds say too little. */
export function took(seconds: number): string {
  return seconds < 10 ? `${(Math.floor(Math.max(0, seconds) * 10) / 10).toFixed(1)}s` : duration(seconds);
}

const pad = (n: number) => String(n).padStart(2, "0");

/** `just now`, `5 min ago`, `in 2 h`, `12 Mar` */
export function relative(at: Date, now: Date): string {
  const seconds = (now.getTime() - at.getTime()) / 1000;
  const span = Math.abs(seconds);
  if (span < 10) return m.time.justNow;
  if (span >= 7 * DAY) return (at.getFullYear() === now.getFullYear() ? DAY_OF_YEAR : DATE).format(at);
  const words =
    span < MINUTE
      ? m.time.seconds(Math.floor(span))
      : span < HOUR
        ? m.time.minutes(Math.floor(span / MINUTE))
        : span < DAY
          ? m.time.hours(Math.floor(span / HOUR))
          : m.time.days(Math.floor(span / DAY));
  return seconds > 0 ? m.time.ago(words) : m.time.ahead(words);
}

// Made once: to make one takes longer than to use it a hundred times.
const DAY_OF_YEAR = new Intl.DateTimeFormat(m.language, { day: "numeric", month: "short" });
const DATE = new Intl.DateTimeFormat(m.language, { day: "numeric", month: "short", year: "numeric" });
const EXACT = new Intl.DateTimeFormat(m.language, { dateStyle: "medium", timeStyle: "medium" });

export function exact(at: Date): string {
  return EXACT.format(at);
}

export function clock(at: Date): string {
  return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let value = n;
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(value >= 10 ? 1 : 2).replace(/\.?0+$/, "")} ${units[unit]}`;
}

export function cores(millicpus: number): string {
  return `${(millicpus / 1000).toFixed(2).replace(/\.?0+$/, "")}`;
}

/** A command as one would type it. */
export function shellWords(words: readonly string[]): string {
  return words
    .map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`))
    .join(" ");
}
