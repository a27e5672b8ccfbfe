"""The options of `muster queue` that say what a queue is to be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.domain.policy import QueueOrder, Security

if TYPE_CHECKING:
    from muster.cli.queuefile import Options

RULES = "Rules"
Config = Annotated[
    Path | None, typer.Option("--config", "-c", metavar="FILE", help="YAML or JSON; - for standard input.")
]
Var = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SPEC",
        help="Variable: gpus:integer:default=1,min=1,max=4; also choices=a|b, description=text. Repeat.",
    ),
]
Order = Annotated[
    QueueOrder | None,
    typer.Option(
        help="Among runs of one priority: fair share, or first in, first out.", rich_help_panel=RULES
    ),
]
Priorities = Annotated[
    bool | None,
    typer.Option("--priorities/--no-priorities", help="May a launch name one?", rich_help_panel=RULES),
]
Limit = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SPEC",
        help="At once: runs=8,gpus=4,user.runs=2,user.gpus=2; `none` lifts one. Repeat.",
        rich_help_panel=RULES,
    ),
]
SecurityLevel = Annotated[
    Security | None, typer.Option("--security", help="How tightly pods are held.", rich_help_panel=RULES)
]
DefaultImage = Annotated[
    str | None,
    typer.Option(metavar="IMAGE", help="For launches that name no image.", rich_help_panel=RULES),
]


def options_of(
    var: list[str] | None,
    order: QueueOrder | None,
    priorities: bool | None,
    limit: list[str] | None,
    security: Security | None,
    default_image: str | None,
) -> Options:
    from muster.cli.queuefile import Options

    rules = {
        "order": order,
        "priorities": priorities,
        "security": security,
        "default_image": default_image,
    }
    return Options(specs=var or (), rules=rules, limits=limit or ())
