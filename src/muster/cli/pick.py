"""Which run is meant: by id, by name, or by the beginning of either."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.cli.usage import BadUsage
from muster.cli.words import ago
from muster.domain.errors import NotFound
from muster.domain.names import is_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.client.sync import Client
    from muster.wire.runs import RunModel

SHOWN = 8
_MOST = 100


def pick_run(client: Client, word: str) -> RunModel:
    """The one run that `word` stands for."""
    if is_id(word):
        try:
            return client.get_run(word)
        except NotFound:
            pass  # it may still be a name that looks like an id
    if not 0 < len(word) <= 64:
        raise NotFound("run", word)
    found = client.list_runs(text=word, limit=_MOST).items
    named = [run for run in found if run.name == word]
    begun = [run for run in found if run.id.startswith(word) or run.name.startswith(word)]
    meant = named or begun
    if not meant:
        raise NotFound("run", word, known=[run.name for run in found])
    if len(meant) > 1:
        raise _ambiguous(word, meant)
    return meant[0]


def pick_runs(client: Client, words: Sequence[str]) -> list[RunModel]:
    """The runs that are meant, each once, all of them found before anything is done to one."""
    found = {run.id: run for run in (pick_run(client, word) for word in words)}
    return list(found.values())


def _ambiguous(word: str, found: Sequence[RunModel]) -> BadUsage:
    lines = [f"  {run.id}  {run.name}  {run.state}, {ago(run.created_at)}" for run in found[:SHOWN]]
    more = ["  …"] if len(found) > SHOWN else []
    return BadUsage(
        "\n".join([f"{word!r} may be any of these runs:", *lines, *more]),
        hint="Give the id, or enough of it.",
        facts={"candidates": [run.id for run in found]},
    )
