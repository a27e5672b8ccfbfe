"""What a file, options or an editor say about a queue."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.cli import yamlfile
from muster.cli.output import hint
from muster.cli.usage import BadUsage, as_usage
from muster.domain.definition import Written, read_definition
from muster.domain.errors import BadConfigFile, LocalProblem, MusterError
from muster.domain.policy import KEYS, Policy
from muster.domain.queue import as_written, engine_for
from muster.domain.variables import Variable

if TYPE_CHECKING:
    from muster.wire.queues import QueueEdit, QueueModel, RulesModel

_LIMITS = ("runs", "gpus", "user.runs", "user.gpus")
NONE = "none"  #: lifts a limit


@dataclass(frozen=True, kw_only=True)
class Options:
    """What was said on the command line itself, beside a file."""

    specs: Sequence[str] = ()  #: variables
    rules: Mapping[str, Any] = field(default_factory=dict)  #: None: not given
    limits: Sequence[str] = ()

    def policy(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """The rules given, over those there are."""
        given = {key: value for key, value in self.rules.items() if value is not None}
        if self.limits:
            given["limits"] = limited(before.get("limits") or {}, self.limits)
        return given


def read_new(file: Path | None, *, resource: str | None, options: Options) -> dict[str, Any]:
    """All that is said of a new queue, as the request takes it."""
    if file is None:
        raise BadUsage("A queue needs a config.", hint="Name its file: --config queue.yaml")
    said = read(file, resource=resource)
    if said.config is None:
        raise BadConfigFile(f"{file} has no key 'config'.", hint="Put the queue's config under it.")
    if resource and said.resource and _engine(resource) != _engine(said.resource):
        raise BadUsage(f"--resource {resource} and resource: {said.resource} in {file} differ.")
    variables = dict(said.variables or {})
    for name, rule in read_variables(options.specs).items():
        if name in variables:
            raise BadUsage(f"--var and {file} both declare {name!r}.", hint="Declare it once.")
        variables[name] = rule
    return {
        "resource": resource or said.resource or "process",
        "config": said.config,
        "variables": variables,
        **said.policy,
        **options.policy(said.policy),
    }


def read_edit(queue: QueueModel, file: Path | None, *, options: Options) -> QueueEdit:
    """What is to change: of variables, rules and limits given as options, those and no others."""
    said = read(file, resource=queue.resource) if file is not None else Written()
    _check_resource(said, queue, str(file))
    variables = said.variables
    if options.specs:
        variables = {**(queue.variables if variables is None else variables), **read_variables(options.specs)}
    before = {**rules_of(queue), **said.policy}
    return _edit(said.config, variables, {**said.policy, **options.policy(before)})


def edit_in_editor(queue: QueueModel, send: Callable[[QueueEdit], QueueModel]) -> QueueModel:
    """Let the user's editor have the definition. What could not be used is kept, and its place told."""
    rules = rules_of(queue)
    before = yamlfile.dump(as_written(queue.config, queue.variables, Policy.parse(rules)))
    descriptor, name = tempfile.mkstemp(prefix=f"muster-{queue.name}-", suffix=".yaml")
    path = Path(name)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"# Queue {queue.name}, version {queue.version}. Save to make a new version.\n{before}")
    try:
        untouched = path.read_bytes()
        _run_editor(path)
        if path.read_bytes() == untouched:
            path.unlink()
            return queue
        said = read(path, resource=queue.resource)
        _check_resource(said, queue, name)
        dropped = {key: None for key in rules if key not in said.policy}
        changed = send(_edit(said.config, said.variables, {**dropped, **said.policy}))
    except MusterError:
        hint(f"Your text is kept: muster queue edit {queue.name} --config {path}")
        raise
    path.unlink()
    return changed


def read(file: Path, *, resource: str | None) -> Written:
    """The file's config, variables and rules; a file without these keys is the config itself."""
    text = yamlfile.read_text(file)
    with yamlfile.as_file():
        return read_definition(text, name=yamlfile.name_of(file), resource=resource)


def read_variables(specs: Sequence[str]) -> dict[str, Any]:
    """Variables given as `--var`."""
    found: dict[str, Any] = {}
    for spec in specs:
        with as_usage(f"--var {spec}"):
            variable = Variable.parse_text(spec)
        if variable.name in found:
            raise BadUsage(f"--var declares {variable.name!r} twice.", hint="Declare it once.")
        found[variable.name] = variable.to_data()
    return found


def rules_of(queue: RulesModel) -> dict[str, Any]:
    """A queue's rules as its owner would write them: without what is as always."""
    data = queue.model_dump(mode="json", include=set(KEYS))
    limits = data["limits"]
    data["limits"] = {**limits, "user": limits.get("user") or {}}
    return Policy.parse(data).to_data()


def limited(before: Mapping[str, Any], given: Sequence[str]) -> dict[str, Any]:
    """Limits with some changed: `runs=8,user.gpus=2`, or `gpus=none`."""
    whole = {key: before.get(key) for key in ("runs", "gpus")}
    user = dict(before.get("user") or {})
    for part in (part for text in given for part in text.split(",")):
        name, equals, value = part.strip().partition("=")
        if not equals or name not in _LIMITS:
            raise BadUsage(
                f"--limit {part}: this is no limit.",
                hint=f"Write --limit runs=8,user.gpus=2; there are {', '.join(_LIMITS)}.",
            )
        place = user if name.startswith("user.") else whole
        place[name.removeprefix("user.")] = read_limit(f"--limit {name}", value)
    said = {key: value for key, value in whole.items() if value is not None}
    of_user = {key: value for key, value in user.items() if value is not None}
    return {**said, **({"user": of_user} if of_user else {})}


def read_limit(option: str, text: str) -> int | None:
    if text == NONE:
        return None
    if not text.isascii() or not text.isdigit():
        raise BadUsage(f"{option} {text}: this is not a whole number.", hint=f"`{NONE}` lifts the limit.")
    return int(text)


def _edit(
    config: dict[str, Any] | None, variables: dict[str, Any] | None, rules: Mapping[str, Any]
) -> QueueEdit:
    """With nothing in it that was not said: that is what the server leaves as it is."""
    from muster.wire.queues import QueueEdit

    said = {"config": config, "variables": variables}
    return QueueEdit(**{key: value for key, value in said.items() if value is not None}, **rules)


def _run_editor(path: Path) -> None:
    words = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    try:
        status = subprocess.run([*words, str(path)], check=False).returncode
    except OSError as error:
        raise BadUsage(
            f"The editor {words[0]!r} cannot be started: {error.strerror}.", hint="Set EDITOR to yours."
        ) from error
    if status != 0:
        raise LocalProblem(f"The editor ended with status {status}.", hint="Nothing was changed.")


def _check_resource(said: Written, queue: QueueModel, where: str) -> None:
    if said.resource is not None and _engine(said.resource) != _engine(queue.resource):
        raise BadConfigFile(
            f"{where} says resource: {said.resource}; queue {queue.name} is for {queue.resource}.",
            hint="The resource of a queue cannot change. Create another queue.",
        )


def _engine(resource: str) -> str:
    """What two names of one resource have in common; one that nobody knows is itself."""
    try:
        return engine_for(resource)
    except MusterError:
        return resource
