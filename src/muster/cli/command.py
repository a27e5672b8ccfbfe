"""How a command looks in its help: plain text, options in sections, nothing but the names people type."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperOption

ARGUMENTS, OPTIONS = "Arguments", "Options"


class Command(TyperCommand):
    """Without the arguments it needs, it shows its help."""

    def __init__(self, name: str | None, **settings: Any) -> None:
        super().__init__(name, **settings)
        self.no_args_is_help = self.no_args_is_help or any(param.required for param in self.params)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = ["[OPTIONS]"]
        for param in self.params:
            if isinstance(param, TyperArgument) and not param.hidden:
                name = argument_name(param)
                pieces.append(name if param.required else f"[{name}]")
        return pieces

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            if isinstance(param, TyperArgument):
                title, record = param.rich_help_panel or ARGUMENTS, (argument_name(param), param.help or "")
            else:
                title = (param.rich_help_panel if isinstance(param, TyperOption) else None) or OPTIONS
            sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def argument_name(param: TyperArgument) -> str:
    name = (param.metavar or param.name or "").upper()
    return f"{name}…" if param.nargs != 1 else name


def dress(app: typer.Typer) -> None:
    """Make all commands of `app` look so, unless they have a class of their own."""
    app.rich_markup_mode = None
    for info in app.registered_commands:
        if info.cls is None or info.cls is TyperCommand:
            info.cls = Command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            dress(group.typer_instance)
