/** What is wrong with a document, and where in its text that is. */
export interface Problem {
  readonly message: string;
  readonly hint?: string;
  readonly line: number | null;
  readonly column: number | null;
}

/** The part of the text to mark. Never empty, if there is anything but blanks to mark. */
export function spanOf(
  text: string,
  line: number | null,
  column: number | null,
): { from: number; to: number } | null {
  if (line === null) return null;
  const lines = text.split("\n");
  let index = Math.min(line, lines.length) - 1;
  while (index > 0 && !lines[index]?.trim()) index--;
  const words = lines[index] ?? "";
  const start = lines.slice(0, index).reduce((sum, one) => sum + one.length + 1, 0);
  const first = words.length - words.trimStart().length;
  const end = words.trimEnd().length;
  const given = index === line - 1 && column !== null ? column - 1 : first;
  const from = given < end ? Math.max(given, 0) : first;
  return { from: start + from, to: start + Math.max(end, from) };
}
