"""Queues for people: rules, variables, versions, what a config holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from muster.cli.output import hint, say, show, show_facts, show_table
from muster.cli.table import column
from muster.cli.words import ago, count, moment, visible, written
from muster.cli.yamlfile import dump

if TYPE_CHECKING:
    from muster.wire.queues import (
        DiffModel,
        LimitModel,
        LimitsModel,
        ParseModel,
        QueueModel,
        RulesModel,
        UseModel,
    )

VARIABLE_COLUMNS = (
    column("VARIABLE"),
    column("TYPE", spare=1),
    column("DEFAULT", least=8),
    column("ALLOWED", least=8),
    column("DESCRIPTION", least=12, spare=2),
)
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def standing(queue: QueueModel) -> str:
    """May runs be launched into it and started from it?"""
    words = []
    if queue.draining_at is not None:
        words.append(f"draining since {ago(queue.draining_at)}".replace(" ago", ""))
    if queue.paused_at is not None:
        words.append(f"paused {ago(queue.paused_at)}")
    if not words:
        return "open" if queue.agents_online else "no agent"
    return ", ".join(words)


def rule_facts(rules: RulesModel) -> list[tuple[str, str]]:
    """The rules that are not as always."""
    return [
        ("order", "first in, first out" if rules.order == "fifo" else ""),
        ("priorities", "" if rules.priorities else "off"),
        ("limits", limits_text(rules.limits)),
        ("overridable", "" if rules.overridable is None else ", ".join(rules.overridable) or "nothing"),
        ("allows", ", ".join(rules.allow)),
        ("security", "" if rules.security == "baseline" else rules.security.value),
        ("image", rules.default_image or ""),
    ]


def limits_text(limits: LimitsModel) -> str:
    each = limit_text(limits.user)
    return ", ".join(part for part in (limit_text(limits), f"each user {each}" if each else "") if part)


def limit_text(limit: LimitModel) -> str:
    runs = "" if limit.runs is None else count(limit.runs, "run")
    gpus = "" if limit.gpus is None else count(limit.gpus, "GPU")
    return " and ".join(part for part in (runs, gpus) if part)


def show_definition(variables: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    if variables:
        show()
        rows = [_variable_row(variable, rule) for variable, rule in variables.items()]
        show_table(VARIABLE_COLUMNS, rows, empty="")
    show()
    show(dump({"config": config}).rstrip("\n"))


def show_diff(diff: DiffModel) -> None:
    if not diff.diff:
        say(f"v{diff.from_version} and v{diff.to_version} of queue {diff.queue} say the same.")
    for line in diff.diff.splitlines():
        show(Text(visible(line), style=_DIFF_STYLES.get(line[:1], "")))


def show_survey(found: ParseModel, name: str) -> None:
    """What was found, then what is wrong or missing."""
    if found.objects:
        titles = (column("OBJECT"), column("NAME", least=8), column("LINE", right=True))
        objects = [(f"{o.kind} ({o.api_version})", o.name, o.use.line) for o in found.objects]
        show_table(titles, objects, empty="")
        show()
    columns = (
        column("VARIABLE"),
        column("TYPE"),
        column("DEFAULT", least=8),
        column("ALLOWED", least=8),
        column("LINE"),
        column("PATH", least=16),
    )
    rows: list[tuple[str, ...]] = []
    for variable in found.variables:
        rule = variable.declared
        described = _variable_row(variable.name, dict(rule))[1:4] if rule else ("(not declared)", "", "")
        rows.append((variable.name, *described, _lines(variable.uses), variable.uses[0].path))
    show_table(columns, rows, empty="It has no variables.")
    if found.macros:
        show()
        named = [(f"${{{m.name}}}", _lines(m.uses), m.uses[0].path) for m in found.macros]
        show_table((column("MACRO"), column("LINE"), column("PATH", least=16)), named, empty="")
    for error in found.errors:
        where = f"{name}:{error.line}:{error.column}: " if error.line is not None else ""
        say(Text("Error: ", style="red"), f"{where}{error.message}.")
        if error.hint:
            hint(error.hint)
    missing = [variable.option for variable in found.variables if variable.declared is None]
    if missing:
        hint(f"Declare what is missing, for example: {' '.join(missing)}")


def _lines(uses: list[UseModel]) -> str:
    return ", ".join(dict.fromkeys(str(use.line) for use in uses))


def _variable_row(name: str, rule: Mapping[str, Any]) -> tuple[str, ...]:
    default = rule.get("default")
    return (
        name,
        str(rule.get("type", "")),
        "(required)" if default is None else written(default),
        _allowed(rule),
        str(rule.get("description", "")),
    )


def _allowed(rule: Mapping[str, Any]) -> str:
    if rule.get("choices"):
        return ", ".join(map(written, rule["choices"]))
    low, high = rule.get("minimum"), rule.get("maximum")
    if low is not None and high is not None:
        return f"{low} … {high}"
    if low is not None:
        return f"≥ {low}"
    return f"≤ {high}" if high is not None else ""


def show_queue(queue: QueueModel) -> None:
    show_facts(
        [
            ("queue", f"{queue.entity}/{queue.name} (version {queue.version})"),
            ("resource", queue.resource),
            ("state", standing(queue)),
            ("runs", f"{queue.waiting} waiting, {queue.running} running"),
            ("agents", f"{queue.agents_online} online"),
            *rule_facts(queue),
            ("created", f"{moment(queue.created_at)} by {queue.created_by}"),
        ]
    )
    show_definition(queue.variables, queue.config)
