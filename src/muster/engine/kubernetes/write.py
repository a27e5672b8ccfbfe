"""Putting values into an object, and, for a preview, remembering who put them there."""

from __future__ import annotations

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
        self._notes: dict[tuple[int, str | int], str] = {}
        self._noted: dict[int, Any] = {}
        if not isinstance(sources, str):
            self._learn(filled, sources)

    def put(self, node: dict[str, Any], key: str, value: Any, source: str = INJECTED) -> None:
        super().put(node, key, value, source)
        if source is not INJECTED or (id(node), key) in self._notes:
            self._mark(node, key, value, source)

    def prepend(self, node: dict[str, Any], key: str, values: Sequence[tuple[dict[str, Any], str]]) -> None:
        super().prepend(node, key, values)
        for value, source in values:
            for name in value:
                self._note(value, name, source)

    def credit(self, words: list[Any], place: int, source: str) -> None:
        self._note(words, place, source)

    def sources(self, node: Any) -> Sources:
        """The sources of what became of it."""
        if isinstance(node, dict):
            return {key: self._source(node, key, value) for key, value in node.items()}
        return [self._source(node, place, value) for place, value in enumerate(node)]

    def _source(self, node: Any, key: str | int, value: Any) -> Sources:
        if isinstance(value, dict | list) and value:
            return self.sources(value)
        return self._notes.get((id(node), key), INJECTED)

    def _learn(self, node: Any, sources: Sources) -> None:
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            source = sources[key]
            if isinstance(source, str):
                self._mark(node, key, value, source)
            else:
                self._learn(value, source)

    def _mark(self, node: Any, key: str | int, value: Any, source: str) -> None:
        self._note(node, key, source)
        if isinstance(value, dict | list):
            for inner, item in value.items() if isinstance(value, dict) else enumerate(value):
                self._mark(value, inner, item, source)

    def _note(self, node: Any, key: str | int, source: str) -> None:
        self._notes[id(node), key] = source
        self._noted[id(node)] = node
