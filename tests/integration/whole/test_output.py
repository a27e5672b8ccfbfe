"""Whatever a run prints, and however much of it: it arrives whole, and nobody else is kept waiting."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from installation import MUSTER, Installation, until
from muster.client.sdk import Run
from muster.domain.run import RunState

MB = 1024 * 1024
#: What a process may take at most while output of any size goes through it.
BOUND = 256 * MB


def raw_log(muster: Installation, run: Run) -> Iterator[bytes]:
    """Rank 0's output as it is kept, piece by piece."""
    offset = 0
    while data := muster.client().read_log(run.id, offset=offset, limit=8 * MB):
        yield data
        offset += len(data)


def digest(pieces: Iterator[bytes]) -> tuple[int, str]:
    size, made = 0, hashlib.sha256()
    for piece in pieces:
        size += len(piece)
        made.update(piece)
    return size, made.hexdigest()


# --- any bytes --------------------------------------------------------------------------------------

OUTPUTS = {
    "every byte": bytes(range(256)) * 3 + b"and on\n",
    "no newline at the end": b"one\ntwo",
    "nothing but a newline": b"\n",
    "NULs": b"\0" * 1000 + b"\n\0x\0\n",
    "carriage returns": b"".join(b"\r%d%%" % n for n in range(101)) + b"\r\ndone\r\n",
    "characters that lie across the borders of pieces": b"." + "世🚀ü".encode() * 100_000,
    "halves of characters": "世🚀ü".encode()[1:-1] * 100_000,
    "bytes that begin a character and never end it": b"\xf0\x9f\x98" * 200_000 + b"\xff\xc3",
    "separators that are no newlines": "a\u2028b\u2029c\x85d\x0be\x0cf\n".encode() * 10,
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_any_bytes_come_through(shared: Installation, tmp_path: Path, name: str) -> None:
    """Kept byte for byte; followed as text, with a sign in place of what is none."""
    raw, source = OUTPUTS[name], tmp_path / "output"
    source.write_bytes(raw)
    run = shared.launch(["cat", str(source)])
    chunks = list(shared.client().follow_logs(run.id))
    assert run.wait(30) is RunState.SUCCEEDED
    assert b"".join(raw_log(shared, run)) == raw
    text = raw.decode("utf-8", "replace")
    assert "".join(chunk.text for chunk in chunks) == text
    lines = text.removesuffix("\n").split("\n")
    assert list(run.logs()) == list(run.logs(follow=True)) == lines
    shown = subprocess.run(
        [*MUSTER, "run", "logs", "--follow", run.id], env=shared.env, capture_output=True, timeout=60
    )
    assert shown.stdout.decode() == (text if text.endswith("\n") else f"{text}\n")


# --- output after a fork ----------------------------------------------------------------------------

TICK = "echo up; touch {mark}; while :; do echo tick; sleep 0.02; done"
LEFT_BEHIND = {
    "ends when it is asked to": (f"(trap 'echo bye; exit' TERM; {TICK})", ["up", "main", "bye"]),
    "ends only when it must": (f"(trap '' TERM; {TICK})", ["up", "main"]),
    "has a session of its own": (f"setsid sh -c '{TICK}'", ["up", "main"]),
}


@pytest.mark.parametrize("name", LEFT_BEHIND)
def test_a_child_left_behind_is_ended_and_all_it_printed_is_kept(
    shared: Installation, tmp_path: Path, name: str
) -> None:
    child, said = LEFT_BEHIND[name]
    mark, held = tmp_path / "mark", tmp_path / "held"
    main = f"until [ -e {mark} ]; do sleep 0.02; done; echo main"
    run = shared.launch(["sh", "-c", f"exec 9>{held}; {child.format(mark=mark)} 2>/dev/null & {main}"])
    followed = list(run.logs(follow=True))
    assert run.wait(30) is RunState.SUCCEEDED
    assert followed == list(run.logs())
    assert [line for line in followed if line != "tick"] == said
    assert not holders(held), "no process is left"


def holders(path: Path) -> list[str]:
    """Processes that have the file open. Others come and go while we look."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            for number in os.listdir(process / "fd"):
                with suppress(OSError):
                    if (process / "fd" / number).readlink() == path:
                        found.append(process.name)
    return found


# --- a great deal -----------------------------------------------------------------------------------

WITHOUT_END = "import os\nfor _ in range(1024): os.write(1, b'x' * 1048576)"
LINES = """
import sys
for block in range(300):
    sys.stdout.write("".join(f"{n:09d} {'y' * 69}\\n" for n in range(block * 10000, (block + 1) * 10000)))
"""


@pytest.fixture
def roomy(tmp_path: Path) -> Iterator[Installation]:
    """An installation whose files are gone afterwards: there are gigabytes of them."""
    installation = Installation(tmp_path)
    installation.start()
    try:
        yield installation
    finally:
        installation.destroy()
        shutil.rmtree(installation.data)


def following(muster: Installation, run: Run, out: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*MUSTER, "run", "logs", "--follow", run.id], env=muster.env, stdout=out)


class Peaks:
    """The most memory that processes had, looked at while they live."""

    def __init__(self, **pids: int) -> None:
        self._pids = pids
        self._done = threading.Event()
        self.seen: dict[str, int] = {}
        self._looking = threading.Thread(target=self._look)

    def __enter__(self) -> Peaks:
        self._looking.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._looking.join()

    def _look(self) -> None:
        while not self._done.wait(0.05):
            for name, pid in self._pids.items():
                try:
                    status = Path(f"/proc/{pid}/status").read_text()
                except OSError:
                    continue
                if peak := re.search(r"VmHWM:\s*(\d+) kB", status):
                    self.seen[name] = int(peak[1]) * 1024


@pytest.mark.slow
def test_a_line_of_a_gigabyte_goes_through_and_nobody_holds_it(roomy: Installation) -> None:
    run = roomy.launch(["python3", "-c", WITHOUT_END])
    [agent] = roomy.agent_pids()
    printed = 0
    with (
        following(roomy, run, subprocess.PIPE) as cli,
        Peaks(server=roomy.server_pid(), agent=agent, cli=cli.pid) as peaks,
    ):
        assert cli.stdout is not None
        while data := cli.stdout.read(MB):
            assert data.strip(b"x") in (b"", b"\n")
            printed += len(data)
        assert cli.wait(10) == 0
    assert run.wait(60) is RunState.SUCCEEDED
    assert printed == 1024 * MB + 1, "the terminal gets an end of line"
    assert digest(raw_log(roomy, run))[0] == 1024 * MB
    assert set(peaks.seen) == {"server", "agent", "cli"}
    assert all(peak < BOUND for peak in peaks.seen.values()), peaks.seen


@pytest.mark.slow
def test_a_flood_arrives_whole_and_others_are_served_meanwhile(roomy: Installation) -> None:
    """240 MB as fast as they can be printed, with three who follow, one of whom does not read."""
    run = roomy.launch(["python3", "-c", LINES])
    [agent] = roomy.agent_pids()
    slowest = 0.0
    with (
        following(roomy, run, subprocess.PIPE) as stuck,
        following(roomy, run, subprocess.DEVNULL) as one,
        following(roomy, run, subprocess.DEVNULL) as other,
        Peaks(server=roomy.server_pid(), agent=agent) as peaks,
    ):
        while not run.state.terminal:
            begun = time.monotonic()
            roomy.client().list_runs(limit=20)
            slowest = max(slowest, time.monotonic() - begun)
            time.sleep(0.05)
        assert (one.wait(120), other.wait(120)) == (0, 0)
        stuck.kill()
    assert run.state is RunState.SUCCEEDED
    assert slowest < 2.0, "the API answers during it"
    expected = (f"{n:09d} {'y' * 69}\n".encode() for n in range(3_000_000))
    assert digest(raw_log(roomy, run)) == digest(expected)
    assert all(peak < BOUND for peak in peaks.seen.values()), peaks.seen


# --- a full disk ------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Installation]:
    """An installation whose logs have a disk of 4 MiB to themselves."""
    installation = Installation(tmp_path)
    logs = installation.data / "logs"
    logs.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", logs], check=True)
    try:
        installation.start()
        yield installation
    finally:
        installation.destroy()
        subprocess.run(["umount", "-l", logs], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_is_said_and_waited_for_and_costs_nothing(small: Installation, tmp_path: Path) -> None:
    before = small.launch(["echo", "before"])
    assert before.wait(30) is RunState.SUCCEEDED
    output = tmp_path / "output"
    output.write_bytes(os.urandom(9 * MB))
    run = small.launch(["cat", str(output)])
    [said] = until(lambda: re.findall(r".*the server does not take logs.*", small.log.read_text()))
    assert "The server's disk is full: logs cannot be written." in said
    assert "Make room in the server's data directory." in said

    assert small.client().list_runs(limit=5).items[0].id == run.id, "the API answers"
    assert list(before.logs()) == ["before"], "what was there is as it was"
    taken = b"".join(raw_log(small, run))
    assert 0 < len(taken) < 4 * MB
    assert taken == output.read_bytes()[: len(taken)], "what there was room for is whole"
    assert run.state is RunState.RUNNING, "its end waits for its log"

    subprocess.run(["mount", "-o", "remount,size=32m", small.data / "logs"], check=True)
    assert run.wait(30) is RunState.SUCCEEDED
    assert b"".join(raw_log(small, run)) == output.read_bytes()
    assert run.model.attempt == 1
