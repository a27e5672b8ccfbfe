"""What waits, and who is given it: `muster queue line`, `muster run move`, `muster agent pause`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .conftest import Terminal


def test_an_agent_is_shown_paused_and_resumed(terminal: Terminal) -> None:
    assert terminal.json("agent", "show", "local")["agent"]["online"] is True
    assert "given no more runs" in terminal.type("agent", "pause", "local")[1]
    try:
        assert "online, paused" in terminal.out("agent", "show", "local")
        assert "paused" in terminal.out("agent", "list")
        terminal.out("launch", "--name", "behind-a-pause", "--", "true")
        assert "paused" in terminal.out("run", "why", "behind-a-pause")
    finally:
        resumed = terminal.json("agent", "resume", "local")
    assert resumed["paused_at"] is None
    terminal.out("run", "wait", "behind-a-pause")
    assert "It runs nothing" in terminal.type("agent", "show", "local")[1]


def test_runs_that_wait_are_listed_in_order_and_moved(terminal: Terminal) -> None:
    terminal.out("queue", "pause", "local")
    try:
        for name in ("line-1", "line-2", "line-3"):
            terminal.out("launch", "--name", name, "--", "true")
        terminal.out("run", "move", "line-3", "--before", "line-1")
        terminal.out("run", "move", "line-1", "--priority", "low")
        waiting = terminal.json("queue", "line", "local")
        assert [run["name"] for run in waiting["items"]] == ["line-3", "line-2", "line-1"]
        first, more = terminal.type("queue", "line", "local", "--limit", "1")
        assert "line-3" in first
        assert "2 runs more wait behind these" in more
        refused = terminal.refused(
            "run", "move", "line-1", "--priority", "low", "--before", "line-2", status=2
        )
        assert "one of --priority, --before RUN and --behind RUN" in refused
    finally:
        terminal.out("queue", "resume", "local")
    terminal.out("run", "wait", "line-1")
