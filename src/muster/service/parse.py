"""Looking through a queue's config before it is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from muster.domain.definition import MANY_OBJECTS, Written, looks_like_objects, read_definition
from muster.domain.document import check_tree
from muster.domain.errors import BadDocument, MusterError
from muster.domain.queue import engine_for
from muster.domain.survey import Fault, Survey, survey
from muster.service.queue import checked_variables

DEFAULT_RESOURCE = "process"


def parse(text: str, *, resource: str | None, variables: Mapping[str, Any]) -> Survey:
    """What is in this text, and what keeps it from being a queue. Refuses only what is too much."""
    check_tree(variables, what="variables")
    try:
        found = read_definition(text, resource=resource or MANY_OBJECTS)
    except BadDocument as error:
        return Survey(resource=resource or DEFAULT_RESOURCE, faults=(Fault.of(error),))
    wanted = resource or found.resource or _guess(found)
    surveyed = survey(found, resource=wanted, declared={**(found.variables or {}), **variables})
    try:
        _try_out(surveyed)
    except MusterError as error:
        return replace(surveyed, faults=(*surveyed.faults, Fault.of(error)))
    return surveyed


def _guess(found: Written) -> str:
    return MANY_OBJECTS if looks_like_objects(found.config or {}) else DEFAULT_RESOURCE


def _try_out(surveyed: Survey) -> None:
    """Would the engine take it, if what is missing were declared as suggested?"""
    engine = engine_for(surveyed.resource)
    if surveyed.faults or surveyed.config is None:
        return
    variables = {found.name: found.declared or found.suggested for found in surveyed.variables}
    checked_variables(engine, surveyed.config, variables)
