"""Nothing of a cluster outlives it, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import room
from cluster.errors import ClusterError
from cluster.network import join
from cluster.room import Room
from cluster.traces import namespace_of, processes_of, traces
from installation import until


@pytest.fixture
def opened() -> Iterator[Room]:
    room = Room.open()
    yield room
    room.close()


def test_a_room_takes_everything_with_it_that_was_in_it() -> None:
    opened = Room.open()
    network = join(opened)
    interface = Path("/sys/class/net", network.interface)
    opened.run("mount", "-t", "tmpfs", "tmpfs", str(opened.logs))
    opened.run("sh", "-c", "setsid sleep 1000 > /dev/null 2>&1 &")
    opened.start("sleeper", "sleep", "1000")
    inside = namespace_of(opened.pid)
    until(lambda: len(processes_of(inside)) == 3, what="the first process, the orphan and the sleeper live")
    assert traces(opened.folder)
    assert interface.exists()

    opened.close()

    assert processes_of(inside) == set()
    assert traces(opened.folder) == []
    assert not interface.exists()


def test_a_room_ends_with_its_owner_and_the_next_one_sweeps_it() -> None:
    program = (
        "from cluster.room import Room; room = Room.open(); print(room.folder, room.pid, flush=True); input()"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        folder, first = owner.stdout.readline().split()
        inside = namespace_of(int(first))
        owner.send_signal(signal.SIGKILL)
    until(lambda: not processes_of(inside), what="its processes end")

    room.sweep()
    assert traces(Path(folder)) == []


def test_a_room_that_lives_is_not_swept(opened: Room) -> None:
    room.sweep()
    assert opened.run("echo", "here") == "here\n"
    assert opened.folder.exists()


def test_a_room_that_stays_is_found_and_closed_by_another_process() -> None:
    stays = Room.open(stays=True)
    found = Room.existing(stays.folder)
    assert found is not None
    found.close()
    assert traces(stays.folder) == []
    assert Room.existing(stays.folder) is None
    stays.close()


def test_rooms_at_once_have_addresses_of_their_own(opened: Room) -> None:
    beside = Room.open()
    try:
        assert join(opened) != join(beside)
    finally:
        beside.close()


def test_where_not_even_root_may_make_one_one_line_says_so() -> None:
    fewer = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-all"]
    words = ["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", str(Path(__file__).parent)]
    done = subprocess.run([*fewer, sys.executable, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    [said] = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert "no cluster on this machine, which" in said
    assert "gives no process a room of its own (unshare: unshare failed: Operation not permitted)" in said
    assert "1 skipped" in done.stdout.splitlines()[-1]


def test_a_part_that_ends_too_soon_is_quoted(opened: Room) -> None:
    opened.start("part", "sh", "-c", "echo 'the flag is unknown' >&2; exit 3")
    with pytest.raises(ClusterError, match=r"part ended with 3:\nthe flag is unknown"):
        opened.wait_for("part", lambda: False)


def test_a_part_that_heeds_no_signal_is_killed(opened: Room) -> None:
    opened.start("part", "sh", "-c", "trap '' TERM; while true; do sleep 1; done")
    until(lambda: len(processes_of(namespace_of(opened.pid))) >= 2, what="the part lives")
    opened.stop("part", seconds=0.5)
    until(lambda: len(processes_of(namespace_of(opened.pid))) <= 2, what="the part is gone")
