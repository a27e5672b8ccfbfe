"""What the page's own thread did while somebody used it, from a trace of Chromium.

A task's length is told in the time that the thread was on a processor: on a machine with other work to do,
the clock on the wall says more about that work than about the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Page

CATEGORIES = [
    "toplevel",
    "devtools.timeline",
    "disabled-by-default-devtools.timeline",
    "loading",
    "__metadata",
]
#: Work that tracing and Playwright themselves give to the thread.
_OURS = ("V8.InvokeApiInterruptCallbacks",)
_MARKS = ("firstContentfulPaint",)
Event = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Task:
    cpu: float  #: ms on a processor
    wall: float  #: ms
    parts: dict[str, float]  #: what took longest in it, in ms on a processor
    at: float  #: ms, when it began, by the clock of the trace


class MainThread:
    """Filled when the `with` ends."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.marks: dict[str, float] = {}  #: name → ms by the clock of the trace

    @property
    def longest(self) -> Task:
        return max(self.tasks, key=lambda task: task.cpu)

    def cpu_before(self, mark: str) -> float:
        """ms that the thread worked until a mark of the page's timing, e.g. `firstContentfulPaint`."""
        return sum(task.cpu for task in self.tasks if task.at < self.marks[mark])

    def told(self) -> str:
        task = self.longest
        parts = ", ".join(f"{name} {ms:.0f}" for name, ms in task.parts.items())
        return f"longest task {task.cpu:.0f} ms of CPU, {task.wall:.0f} ms by the clock ({parts})"


@contextmanager
def traced(page: Page) -> Iterator[MainThread]:
    """Every task of the page's thread from here to the end of the block."""
    browser = page.context.browser
    assert browser is not None
    seen = MainThread()
    browser.start_tracing(page=page, categories=CATEGORIES)
    try:
        yield seen
    finally:
        events = json.loads(browser.stop_tracing())["traceEvents"]
        seen.tasks = list(_tasks(events))
        seen.marks = {e["name"]: e["ts"] / 1000 for e in events if e.get("name") in _MARKS}


def _tasks(events: list[Event]) -> Iterator[Task]:
    mains = {(e["pid"], e["tid"]) for e in events if _named(e) == "CrRendererMain"}
    spans = [e for e in events if e["ph"] == "X" and "tdur" in e and (e["pid"], e["tid"]) in mains]
    spans.sort(key=lambda e: (e["pid"], e["ts"], -e["dur"]))
    for place, event in enumerate(spans):
        if event["name"] != "RunTask":
            continue
        inner = list(_within(event, spans, place))
        if any(part["name"] in _OURS for part in inner):
            continue
        inner.sort(key=lambda part: -part["tdur"])
        parts = {part["name"]: part["tdur"] / 1000 for part in inner[:6] if "RunTask" not in part["name"]}
        yield Task(cpu=event["tdur"] / 1000, wall=event["dur"] / 1000, parts=parts, at=event["ts"] / 1000)


def _within(task: Event, spans: list[Event], place: int) -> Iterator[Event]:
    for event in spans[place + 1 :]:
        if event["pid"] != task["pid"] or event["ts"] >= task["ts"] + task["dur"]:
            return
        yield event


def _named(event: Event) -> str | None:
    return event["args"].get("name") if event.get("name") == "thread_name" else None
