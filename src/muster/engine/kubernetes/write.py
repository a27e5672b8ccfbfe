"""Putting values into an object, and, for a preview, remembering who put them there."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from muster.domain.provenance import INJECTED, Sources


class Writer:
    """Puts values; what a launch uses."""

    def put(self, node: dict[str, Any], key: str, value: Any, source: str = INJECTED) -> None:
        node[key] = value

    def append(self, node: dict[str, Any], key: str, value: dict[str, Any]) -> None:
        """One more item of a list that may not be there yet."""
        node[key] = [*(node.get(key) or ()), value]

    def prepend(self, node: dict[str, Any], key: str, values: Sequence[tuple[dict[str, Any], str]]) -> None:
        """Items with their sources, before those that are there."""
        node[key] = [*(value for value, _ in values), *(node.get(key) or ())]

    def fill(self, node: dict[str, Any], values: Mapping[str, Any]) -> None:
        """Put what is not there yet."""
        for key, value in values.items():
            if key not in node:
                self.put(node, key, value)

    def credit(self, words: list[Any], place: int, source: str) -> None:
        """This item of a list came from elsewhere than the rest."""

    def copied(self, node: Any) -> Any:
        """The same once more, from the same sources."""
        return copy.deepcopy(node)

    def mapping(self, node: dict[str, Any], key: str) -> dict[str, Any]:
        """The mapping under this key, made if there is none."""
        found = node.get(key)
        if not isinstance(found, dict):
            found = node[key] = {}
        return found


class Tracer(Writer):
    """Notes the source of each leaf by the node it hangs on, because nodes move about as a whole.

    What nobody noted was injected. Every node with a note is kept, also if it was taken out: else its id
    would be given to a new one, and the note with it.
    """

    def __init__(self, filled: Any, sources: Sources) -> None:
        self._notes: dict[int, dict[str | int, str]] = {}
        self._noted: list[Any] = []
        if not isinstance(sources, str):
            self._learn(filled, sources)

    def put(self, node: dict[str, Any], key: str, value: Any, source: str = INJECTED) -> None:
        super().put(node, key, value, source)
        if source is not INJECTED or key in self._notes.get(id(node), ()):
            self._mark(node, key, value, source)

    def prepend(self, node: dict[str, Any], key: str, values: Sequence[tuple[dict[str, Any], str]]) -> None:
        super().prepend(node, key, values)
        for value, source in values:
            self._of(value).update(dict.fromkeys(value, source))

    def credit(self, words: list[Any], place: int, source: str) -> None:
        self._of(words)[place] = source

    def copied(self, node: Any) -> Any:
        if not isinstance(node, dict | list):
            return node
        parts = node.items() if isinstance(node, dict) else enumerate(node)
        inside = {key: self.copied(value) for key, value in parts}
        twin: Any = inside if isinstance(node, dict) else [*inside.values()]
        if id(node) in self._notes:
            self._of(twin).update(self._notes[id(node)])
        return twin

    def sources(self, node: Any) -> Sources:
        """The sources of what became of it."""
        notes = self._notes.get(id(node), {})
        if isinstance(node, dict):
            return {
                key: self.sources(value)
                if value and isinstance(value, dict | list)
                else notes.get(key, INJECTED)
                for key, value in node.items()
            }
        return [
            self.sources(value) if value and isinstance(value, dict | list) else notes.get(place, INJECTED)
            for place, value in enumerate(node)
        ]

    def _learn(self, node: Any, sources: Sources) -> None:
        notes = self._of(node)
        for key, source in sources.items() if isinstance(sources, dict) else enumerate(sources):
            value = node[key]
            if not isinstance(source, str):
                self._learn(value, source)
            elif value and isinstance(value, dict | list):
                self._mark(node, key, value, source)
            else:
                notes[key] = source

    def _mark(self, node: Any, key: str | int, value: Any, source: str) -> None:
        self._of(node)[key] = source
        if isinstance(value, dict | list):
            for inner, item in value.items() if isinstance(value, dict) else enumerate(value):
                self._mark(value, inner, item, source)

    def _of(self, node: Any) -> dict[str | int, str]:
        """What is noted of the leaves of a node."""
        notes = self._notes.get(id(node))
        if notes is None:
            notes = self._notes[id(node)] = {}
            self._noted.append(node)
        return notes
