"""Bad usage: what was typed cannot be right, and that is known before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from muster.domain.errors import BadInput, LocalProblem


class BadUsage(LocalProblem):
    code = "bad_usage"
    status = 422
    title = "Not used as it is meant to be"


@contextmanager
def as_usage(what: str = "", *, kind: type[BadInput] = BadInput) -> Iterator[None]:
    """Input refused in here is bad usage: nothing was sent yet. `what` names the option it came from."""
    try:
        yield
    except kind as error:
        detail = f"{what}: {error.detail}" if what else error.detail
        raise BadUsage(detail, hint=error.hint, facts=error.facts) from error
