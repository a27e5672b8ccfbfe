"""Make docs/images/demo.svg: a real terminal session against a real `muster up`, as a picture.

python scripts/record.py [FILE]

It needs PyTorch in the package index (or uv's cache), like `make demo`. Nothing in the picture is typed by
hand but the commands below. What would name this machine is replaced: the account, the host, the data
directory; the hash of the Python environment is shortened so that its lines fit. OMP_NUM_THREADS=1 is set
for the runs: without it torchrun prints a warning of four lines a node.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shlex
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator, Mapping
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "images" / "demo.svg"
COLUMNS, ROWS = 100, 50
MUSTER = [sys.executable, "-m", "muster.cli"]
SHAPE = "--nodes 2 --procs-per-node 2"

#: What is typed; and, where there is a name, the run whose end is waited for, unseen, before the next.
SESSION: tuple[tuple[str, str | None], ...] = (
    (f"muster launch examples/ddp {SHAPE} --follow --name ddp -- train.py", None),
    (f"muster launch examples/ddp {SHAPE} --name negative -- train.py --lr=-1", "negative"),
    ("muster run why negative", None),
    ("muster run list", None),
)


def colours(words: str) -> list[tuple[int, int, int]]:
    return [(int(word[:2], 16), int(word[2:4], 16), int(word[4:], 16)) for word in words.split()]


BACKGROUND, TEXT = colours("161b22 d6dde6")
THEME = TerminalTheme(
    BACKGROUND,
    TEXT,
    colours("484f58 ff7b72 56d364 e3b341 6cb6ff d2a8ff 56d4dd b1bac4"),
    colours("6e7681 ffa198 7ee787 eac560 8fcaff e2c5ff 81e6ed f0f6fc"),
)
_ESCAPE = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])")
_WEB_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # a picture in a repository loads nothing
_INDENTED = re.compile(r'x="([\d.]+)" (y="[\d.]+") textLength="([\d.]+)" ([^>]*)>((?:&#160;)+)(?=[^<&])')
_LINE_END = re.compile(r"<text [^>]*>\n</text>")
_CELL = 12.2  #: width of a column in rich's pictures


def type_into_terminal(command: str, env: Mapping[str, str]) -> str:
    """Run a command in a terminal of its own; what it printed there, byte for byte."""
    words = shlex.split(command)
    words[:1] = MUSTER
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execvpe(words[0], words, env)  # noqa: S606 - the commands are written above
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    output = b"".join(_read_all(terminal))
    os.waitpid(pid, 0)
    os.close(terminal)
    return output.decode("utf-8")


def _read_all(terminal: int) -> Iterator[bytes]:
    while True:
        select.select([terminal], [], [])
        try:
            data = os.read(terminal, 65536)
        except OSError:  # how Linux says that the other side is closed
            return
        if not data:
            return
        yield data


def screen(output: str) -> list[str]:
    """The lines that are left to see: what a progress bar drew over is gone, as in the terminal."""
    lines, row = [""], 0
    for piece in re.split(r"(\r\n|\r|\n|\x1b\[[?\d;]*[A-Za-z])", output):
        escape = _ESCAPE.fullmatch(piece)
        if piece == "\r\n" or piece == "\n":
            row += 1
            if row == len(lines):
                lines.append("")
        elif escape and escape[2] == "A":
            row = max(0, row - int(escape[1] or 1))
        elif escape and escape[2] == "K":
            lines[row] = ""
        elif piece != "\r" and not (escape and escape[2] != "m"):
            lines[row] += piece
    return lines[:-1] if not lines[-1] else lines


def without_this_machine(line: str, data: Path) -> str:
    line = line.replace(str(data), "~/.local/share/muster")
    line = re.sub(r"(environments/[0-9a-f]{8})[0-9a-f]{56}", r"\1…", line)
    return re.sub(rf"\b(on) {re.escape(socket.gethostname())}\b", r"\1 workstation", line)


def record(env: Mapping[str, str], data: Path) -> Console:
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115
    for number, (command, ends) in enumerate(SESSION):
        print(f"$ {command}", file=sys.stderr)
        if number:
            console.print()
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        for line in screen(type_into_terminal(command, env)):
            text = Text.from_ansi(without_this_machine(line, data))
            for part in text.divide(range(COLUMNS, len(text), COLUMNS)):  # as a terminal breaks lines
                console.print(part)
        if ends is not None:
            subprocess.run([*MUSTER, "run", "wait", ends], env=env, stdout=subprocess.DEVNULL, check=False)
    return console


def picture(console: Console) -> str:
    """As SVG that looks the same in every viewer and loads nothing."""
    svg = console.export_svg(title="muster", theme=THEME, unique_id="muster")
    svg = _WEB_FONT.sub("", svg).replace("Fira Code", "ui-monospace, Menlo, DejaVu Sans Mono")
    # Some viewers drop spaces at the beginning of a text, and all of them place it where x says.
    svg = _INDENTED.sub(_without_indent, _LINE_END.sub("", svg))
    return "".join(f"{line.rstrip()}\n" for line in svg.splitlines())


def _without_indent(text: re.Match[str]) -> str:
    x, y, length, rest, spaces = text.groups()
    indent = spaces.count("&") * _CELL
    return f'x="{float(x) + indent:.1f}" {y} textLength="{float(length) - indent:.1f}" {rest}>'


def main(args: list[str]) -> int:
    target = Path(args[0]) if args else TARGET
    with tempfile.TemporaryDirectory(prefix="muster-record-") as folder:
        data = Path(folder) / "data"
        env = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        env |= {"HOME": folder, "LOGNAME": "you", "USER": "you", "TERM": "xterm-256color", "COLORTERM": ""}
        env |= {"MUSTER_DATA_DIR": str(data), "MUSTER_LOCK_DIR": f"{folder}/locks", "OMP_NUM_THREADS": "1"}
        env |= {"UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv"))}
        server = subprocess.Popen(
            [*MUSTER, "up", "--port", "0", "--stop-runs"], env=env, stderr=subprocess.PIPE, text=True
        )
        try:
            assert server.stderr is not None
            said = next(line for line in server.stderr if "ready at" in line)
            console = record({**env, "MUSTER_URL": said.split()[-1]}, data)
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(picture(console), encoding="utf-8")
    print(f"{target}: {target.stat().st_size // 1024} KiB", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
