"""A page of the documentation, and somebody who types what it says.

How a page says what is run and compared is told in docs/contributing/tests.md.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from installation import Installation

PATIENCE = 60.0  #: seconds for what is typed again
_BLOCK = re.compile(r"((?:^<!--[^\n]*-->\n)*)^```(console|bash|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_STATUS = re.compile(r"<!-- status: (\d+) -->")
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\b\d+(?:\.\d+)? (?:s|min|h)\b")
_ID = re.compile(r"\b[a-z][a-z0-9]{9}\b")


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block of a page and what the comments before it say."""

    kind: str
    text: str
    marks: str

    @property
    def needs_torch(self) -> bool:
        return "<!-- needs: torch -->" in self.marks

    @property
    def by_hand(self) -> bool:
        return "<!-- by hand -->" in self.marks

    @property
    def in_background(self) -> bool:
        return "<!-- another terminal -->" in self.marks

    @property
    def again(self) -> bool:
        return "<!-- again -->" in self.marks

    @property
    def status(self) -> int:
        found = _STATUS.search(self.marks)
        return int(found[1]) if found else 0

    def commands(self) -> list[tuple[str, list[str]]]:
        """Each command of a console block, with the lines of output the page shows."""
        found: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            elif line.strip():
                found[-1][1].append(line)
        return found


def blocks(page: Path) -> list[Block]:
    return [
        Block(marks=marks, kind=kind, text=text)
        for marks, kind, text in _BLOCK.findall(page.read_text("utf-8"))
    ]


def normal(line: str) -> str:
    """Without what differs from one time to the next: ids, times, widths of columns."""
    return " ".join(_ID.sub("ID", _TIME.sub("TIME", line)).split())


def is_shown(expected: str, output: list[str]) -> bool:
    """Is this line of the page among the lines printed? `…` stands for anything."""
    parts = [re.escape(normal(part)) for part in expected.split("…")]
    pattern = re.compile(r"\s?.*\s?".join(parts))
    return any(pattern.fullmatch(line) for line in output)


@dataclass(kw_only=True)
class Reader:
    """Somebody who types what a page says, in one terminal and sometimes another."""

    muster: Installation
    folder: Path
    background: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        path = os.pathsep.join((str(Path(sys.executable).parent), self.muster.env["PATH"]))
        return {**self.muster.env, "PATH": path, "NO_COLOR": "1"}

    def read(self, page: Sequence[Block]) -> None:
        todo = [block for block in page if not block.by_hand]
        assert todo, "there is nothing to type"
        programs = [block for block in todo if block.kind == "python"]
        for block in todo:
            match block.kind:
                case "bash":
                    self._type(block.text, expect=0)
                case "console" if block.in_background:
                    self._start(block)
                case "console":
                    self._follow(block)
                case "python" if block is programs[-1]:  # names go on from block to block
                    self._run_python("\n".join(program.text for program in programs))

    def _follow(self, block: Block) -> None:
        commands = block.commands()
        for place, (command, shown) in enumerate(commands):
            expect = block.status if place == len(commands) - 1 else 0
            deadline = time.monotonic() + (PATIENCE if block.again else 0)
            while missing := self._missing(command, shown, expect):
                assert time.monotonic() < deadline, missing

    def _missing(self, command: str, shown: list[str], expect: int) -> str | None:
        """What the page shows and the command does not print."""
        output = self._type(command, expect=expect)
        lines = [normal(line) for line in self._neutral(output).splitlines()]
        for line in shown:
            if not is_shown(line, lines):
                return f"$ {command}\nthe page shows: {line}\nbut it prints:\n{output}"
        return None

    def _type(self, command: str, *, expect: int) -> str:
        """In a shell; where it ends up is where the next command starts."""
        place = self.muster.data.parent / "place"
        script = f'{command}\nstatus=$?; pwd > "{place}"; exit $status'
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
        )
        assert done.returncode == expect, f"$ {command}\nexit status {done.returncode}:\n{done.stdout}"
        self.folder = Path(place.read_text().strip())
        return done.stdout

    def _start(self, block: Block) -> None:
        for command, _ in block.commands():
            self.background.append(
                subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=self.folder, env=self.env)
            )

    def _run_python(self, text: str) -> None:
        done = subprocess.run(
            [sys.executable, "-c", text],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _neutral(self, output: str) -> str:
        output = output.replace(str(self.muster.data), "~/.local/share/muster")
        return re.sub(rf"\b{re.escape(socket.gethostname())}\b", "workstation", output)

    def leave(self) -> None:
        for process in self.background:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
