import { expect, it } from "vitest";
import { shellWords } from "../ui/format";
import { OpenQuote, splitCommand, splitWords } from "./words";

it("a line becomes the words a shell would make of it", () => {
  const table: [string, string[]][] = [
    ["train.py --epochs 3", ["train.py", "--epochs", "3"]],
    ["sh -c 'echo $HOME; exit 3'", ["sh", "-c", "echo $HOME; exit 3"]],
    ['say "a \\"b\\" \\n c"', ["say", 'a "b" \\n c']],
    ["a\\ b  ''  \"\"", ["a b", "", ""]],
    ["one \\\n  two\nthree", ["one", "two", "three"]],
    ["x'y'\"z\"", ["xyz"]],
    ["  ", []],
  ];
  for (const [text, words] of table) expect(splitWords(text), text).toEqual(words);
});

it("a quote that is not closed is noticed", () => {
  for (const text of ["echo 'a", 'echo "a', "echo a\\"]) expect(() => splitWords(text)).toThrow(OpenQuote);
});

it("words are shown so that they are read back as themselves", () => {
  const hard = ["a b", "it's", "", "$HOME", "a\nb", "--x=1", '"', "\\", "#", "*"];
  expect(splitWords(shellWords(hard))).toEqual(hard);
});

it("a command is split as the server splits it", () => {
  expect(splitCommand(["train.py", "-x"])).toEqual([["train.py"], ["-x"]]);
  expect(splitCommand(["python3.11", "-m", "pkg", "x"])).toEqual([["python3.11", "-m", "pkg"], ["x"]]);
  expect(splitCommand(["/usr/bin/python", "a.py", "x"])).toEqual([["/usr/bin/python", "a.py"], ["x"]]);
  expect(splitCommand(["python", "-c", "x"])).toEqual([["python"], ["-c", "x"]]);
});
