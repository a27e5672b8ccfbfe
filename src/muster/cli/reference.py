"""The page `docs/reference/cli.md`, made from the commands themselves.

python -m muster.cli.reference docs/reference/cli.md
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

from muster.cli.command import argument_name
from muster.cli.root import GROUPS, Command, GroupMissing, load, root

HEAD = """\
# The command line

After this page you know every command of `muster`, its options and its exit status.
It is made from the code by `python -m muster.cli.reference docs/reference/cli.md`.

Every command that prints takes `--json`: the HTTP resource as it is; lists as
`{"items": […], "next": …}`; streams (`--follow`) as one document a line. Results go to standard output,
everything else to standard error, errors too: a sentence and what to do, or with `--json` a problem
document (RFC 9457).

| Exit status | Meaning |
| --- | --- |
| 0 | done |
| 1 | the thing asked failed: the server refused it, the run failed, a check failed |
| 2 | bad usage: the command line, or a file it names, cannot be right; nothing was sent |
| 3 | not reachable or not allowed |
| 130 | interrupted |

Which server, and who you are: `MUSTER_URL`, `MUSTER_API_KEY`, `MUSTER_ENTITY` and `MUSTER_PROJECT`, else
what `muster login` kept. Completion: `muster --install-completion`. A bug: `MUSTER_DEBUG=1` shows where.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    with typer.Context(root(), info_name="muster") as ctx:
        for name in GROUPS:
            try:
                parts += _sections(load(name), name, ctx, level=2)
            except GroupMissing:
                continue
    return "\n".join(parts)


def _sections(command: Command, name: str, parent: Any, *, level: int) -> Iterator[str]:
    with typer.Context(command, info_name=name, parent=parent) as ctx:
        yield f"{'#' * level} {ctx.command_path}\n"
        yield f"{_help(command)}\n"
        usage = " ".join(command.collect_usage_pieces(ctx))
        yield f"```\n{ctx.command_path} {usage}\n```\n"
        rows = [row for param in command.params if (row := _row(param, ctx))]
        if rows:
            yield "\n".join(["| | |", "| --- | --- |", *rows]) + "\n"
        if isinstance(command, TyperGroup):
            for child_name, child in command.commands.items():
                if isinstance(child, Command) and not child.hidden:
                    yield from _sections(child, child_name, ctx, level=min(level + 1, 4))


def _help(command: Command) -> str:
    """The help text; what is not to be re-wrapped there is a block here."""
    text = inspect.cleandoc(command.help or "")
    paragraphs = []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("\b\n"):
            paragraphs.append("```\n" + paragraph.removeprefix("\b\n") + "\n```")
        else:
            paragraphs.append(paragraph)
    return "\n\n".join(paragraphs)


def _row(param: Any, ctx: Any) -> str | None:
    if not isinstance(param, TyperArgument | TyperOption):
        return None
    record = param.get_help_record(ctx)
    if record is None:
        return None
    if isinstance(param, TyperArgument):
        record = argument_name(param), param.help or ""
    name, text = (re.sub(r"\s+", " ", part).replace("|", "\\|") for part in record)
    return f"| `{name}` | {text} |"


def main(args: list[str]) -> int:
    if len(args) != 1:
        print("Usage: python -m muster.cli.reference FILE", file=sys.stderr)
        return 2
    target = Path(args[0])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
