"""What a file, options or an editor say about a queue."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.cli import yamlfile
from muster.cli.output import hint
from muster.cli.usage import BadUsage, as_usage
from muster.domain.errors import BadConfigFile, LocalProblem, MusterError
from muster.domain.variables import Variable

if TYPE_CHECKING:
    from muster.wire.queues import QueueEdit, QueueModel

KEYS = ("resource", "config", "variables")


def read_new(file: Path | None, *, resource: str | None, specs: Sequence[str]) -> dict[str, Any]:
    """`resource`, `config` and `variables` of a new queue."""
    if file is None:
        raise BadUsage("A queue needs a config.", hint="Name its file: --config queue.yaml")
    said = _read(file)
    if "config" not in said:
        raise BadConfigFile(f"{file} has no key 'config'.", hint="Put the queue's config under it.")
    if resource and said.get("resource", resource) != resource:
        raise BadUsage(f"--resource {resource} and resource: {said['resource']} in {file} differ.")
    variables = dict(said.get("variables", {}))
    for name, rule in _variables(specs).items():
        if name in variables:
            raise BadUsage(f"--var and {file} both declare {name!r}.", hint="Declare it once.")
        variables[name] = rule
    return {
        "resource": resource or said.get("resource", "process"),
        "config": said["config"],
        "variables": variables,
    }


def read_edit(queue: QueueModel, file: Path | None, *, specs: Sequence[str]) -> QueueEdit:
    """What is to change: of variables given as options, those and no others."""
    from muster.wire.queues import QueueEdit

    said = _read(file) if file is not None else {}
    _check_resource(said, queue, str(file))
    variables = said.get("variables")
    if specs:
        variables = {**(queue.variables if variables is None else variables), **_variables(specs)}
    return QueueEdit(config=said.get("config"), variables=variables)


def edit_in_editor(queue: QueueModel, send: Callable[[QueueEdit], QueueModel]) -> QueueModel:
    """Let the user's editor have config and variables. What could not be used is kept, and its place told."""
    from muster.wire.queues import QueueEdit

    before = yamlfile.dump({"config": queue.config, "variables": queue.variables})
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
        said = _read(path)
        _check_resource(said, queue, name)
        changed = send(QueueEdit(config=said.get("config"), variables=said.get("variables")))
    except MusterError:
        hint(f"Your text is kept: muster queue edit {queue.name} --config {path}")
        raise
    path.unlink()
    return changed


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


def _read(file: Path) -> dict[str, Any]:
    """The file's `resource`, `config` and `variables`; a file without these keys is the config itself."""
    data = yamlfile.read_mapping(file)
    if not data or not set(data) <= set(KEYS):
        return {"config": data}
    for key in ("config", "variables"):
        if not isinstance(data.get(key, {}), dict):
            raise BadConfigFile(f"{file}: {key} is not a mapping.", hint="Write it as `key: value` lines.")
    if not isinstance(data.get("resource", ""), str):
        raise BadConfigFile(f"{file}: resource is not text.")
    return data


def _check_resource(said: dict[str, Any], queue: QueueModel, where: str) -> None:
    if said.get("resource", queue.resource) != queue.resource:
        raise BadConfigFile(
            f"{where} says resource: {said['resource']}; queue {queue.name} is for {queue.resource}.",
            hint="The resource of a queue cannot change. Create another queue.",
        )


def _variables(specs: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for spec in specs:
        with as_usage(f"--var {spec}"):
            variable = Variable.parse_text(spec)
        if variable.name in found:
            raise BadUsage(f"--var declares {variable.name!r} twice.", hint="Declare it once.")
        found[variable.name] = variable.to_data()
    return found
