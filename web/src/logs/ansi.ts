/** Colours and weights in terminal output; every other escape sequence is left out. */
export interface Style {
  readonly fg: string | null; //: a CSS colour
  readonly bg: string | null;
  readonly bold: boolean;
  readonly dim: boolean;
  readonly italic: boolean;
  readonly underline: boolean;
}

export interface Piece {
  readonly text: string;
  readonly style: Style | null;
}

const PLAIN: Style = { fg: null, bg: null, bold: false, dim: false, italic: false, underline: false };
const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
// CSI … letter, OSC … BEL or ST, and two-character escapes.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const ESCAPE = /\x1b(?:\[([0-?]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: and these are never shown
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;

/** What a terminal would show of a line: of what was written over itself (progress bars), the last. */
export function lastWritten(line: string): string {
  const text = line.endsWith("\r") ? line.slice(0, -1) : line;
  return text.slice(text.lastIndexOf("\r") + 1);
}

export function parseAnsi(line: string): Piece[] {
  const text = lastWritten(line);
  if (!text.includes("\x1b")) return [{ text: text.replace(CONTROL, ""), style: null }];
  const pieces: Piece[] = [];
  let style = PLAIN;
  let end = 0;
  const push = (part: string) => {
    const shown = part.replace(CONTROL, "");
    if (shown) pieces.push({ text: shown, style: style === PLAIN ? null : style });
  };
  for (const found of text.matchAll(ESCAPE)) {
    push(text.slice(end, found.index));
    end = found.index + found[0].length;
    if (found[2] === "m") style = styled(style, found[1] ?? "");
  }
  push(text.slice(end));
  return pieces;
}

export const plainText = (line: string): string =>
  parseAnsi(line)
    .map((piece) => piece.text)
    .join("");

function styled(before: Style, codes: string): Style {
  const numbers = codes.split(/[;:]/).map((code) => Number.parseInt(code || "0", 10));
  let style = before;
  for (let i = 0; i < numbers.length; i++) {
    const code = numbers[i] ?? 0;
    if (code === 38 || code === 48) {
      const [colour, used] = extended(numbers.slice(i + 1));
      i += used;
      style = code === 38 ? { ...style, fg: colour } : { ...style, bg: colour };
    } else {
      style = one(style, code);
    }
  }
  return style;
}

function one(style: Style, code: number): Style {
  if (code === 0) return PLAIN;
  if (code === 1) return { ...style, bold: true };
  if (code === 2) return { ...style, dim: true };
  if (code === 3) return { ...style, italic: true };
  if (code === 4) return { ...style, underline: true };
  if (code === 22) return { ...style, bold: false, dim: false };
  if (code === 23) return { ...style, italic: false };
  if (code === 24) return { ...style, underline: false };
  if (code === 39) return { ...style, fg: null };
  if (code === 49) return { ...style, bg: null };
  const named = (first: number) => `var(--ansi-${NAMES[code - first]})`;
  if (code >= 30 && code <= 37) return { ...style, fg: named(30) };
  if (code >= 90 && code <= 97) return { ...style, fg: named(90) };
  if (code >= 40 && code <= 47) return { ...style, bg: named(40) };
  if (code >= 100 && code <= 107) return { ...style, bg: named(100) };
  return style;
}

/** `5;n` or `2;r;g;b`: the colour, and how many numbers it took. */
function extended(numbers: number[]): [string | null, number] {
  const byte = (n: number | undefined) => Math.max(0, Math.min(255, n ?? 0));
  if (numbers[0] === 2) return [`rgb(${numbers.slice(1, 4).map(byte).join(" ")})`, 4];
  if (numbers[0] !== 5) return [null, 0];
  const n = byte(numbers[1]);
  if (n < 16) return [`var(--ansi-${NAMES[n % 8]})`, 2];
  if (n >= 232)
    return [
      `rgb(${Array(3)
        .fill(8 + (n - 232) * 10)
        .join(" ")})`,
      2,
    ];
  const level = (v: number) => (v === 0 ? 0 : 55 + v * 40);
  const cube = n - 16;
  return [`rgb(${[Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map(level).join(" ")})`, 2];
}
