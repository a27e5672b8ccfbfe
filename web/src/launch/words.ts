/** A command line as words, split as a shell does; and the words of a command as its job keeps them. */

export class OpenQuote extends Error {}

export function splitWords(text: string): string[] {
  const words: string[] = [];
  let word: string | null = null;
  let quote = "";
  for (let i = 0; i < text.length; i++) {
    const one = text[i] ?? "";
    if (quote === "'") {
      if (one === "'") quote = "";
      else word = (word ?? "") + one;
    } else if (quote === '"') {
      const next = text[i + 1] ?? "";
      if (one === '"') quote = "";
      else if (one === "\\" && (next === '"' || next === "\\")) {
        word = (word ?? "") + next;
        i++;
      } else word = (word ?? "") + one;
    } else if (one === "'" || one === '"') {
      quote = one;
      word ??= "";
    } else if (one === "\\") {
      const next = text[++i];
      if (next === undefined) throw new OpenQuote(text);
      if (next !== "\n") word = (word ?? "") + next; // a line that goes on
    } else if (/\s/.test(one)) {
      if (word !== null) words.push(word);
      word = null;
    } else word = (word ?? "") + one;
  }
  if (quote) throw new OpenQuote(text);
  if (word !== null) words.push(word);
  return words;
}

const PYTHON = /^(?:.*\/)?python(?:\d+(?:\.\d+)*)?$/;

/** What is started, and what it is told: `python -m pkg x` → `python -m pkg`, `x`. As the server does it. */
export function splitCommand(words: readonly string[]): [entrypoint: string[], rest: string[]] {
  const [first, second] = words;
  let length = 1;
  if (first !== undefined && second !== undefined && PYTHON.test(first)) {
    if (second === "-m" && words.length > 2) length = 3;
    else if (second.endsWith(".py")) length = 2;
  }
  return [words.slice(0, length), words.slice(length)];
}
