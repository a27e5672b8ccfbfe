"""Putting values into an object, and, for a preview, remembering who put them there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.domain.path import Location
from muster.domain.provenance import INJECTED, leaves, pointer


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
    """Notes the source of each leaf by the node it hangs on, because nodes move about as a whole."""

    def __init__(self, filled: Any, sources: Mapping[Location, str]) -> None:
        self._notes: dict[tuple[int, str | int], str] = {}
        self._alive: list[Any] = [filled]  # what was taken out; an id must not be used again
        for place, _ in leaves(filled):
            if place:
                self._note(filled, place, sources.get(place, INJECTED))

    def put(self, node: dict[str, Any], key: str, value: Any, source: str = INJECTED) -> None:
        self._alive.append(node.get(key))
        super().put(node, key, value, source)
        self._mark(node, key, value, source)

    def append(self, node: dict[str, Any], key: str, value: dict[str, Any]) -> None:
        self._alive.append(node.get(key))
        super().append(node, key, value)
        self._mark(node, key, value, INJECTED)

    def prepend(self, node: dict[str, Any], key: str, values: Sequence[tuple[dict[str, Any], str]]) -> None:
        self._alive.append(node.get(key))
        super().prepend(node, key, values)
        for value, source in values:
            self._mark(node, key, value, source)

    def credit(self, words: list[Any], place: int, source: str) -> None:
        self._notes[id(words), place] = source

    def sources(self, manifest: Any) -> dict[str, str]:
        """JSON pointer of each leaf → its source."""
        found = {}
        for place, _ in leaves(manifest):
            node = _above(manifest, place)
            found[pointer(place)] = self._notes.get((id(node), place[-1]), INJECTED)
        return found

    def _mark(self, node: Any, key: str, value: Any, source: str) -> None:
        for place, _ in leaves(value):
            if place:
                self._note(value, place, source)
            else:
                self._notes[id(node), key] = source

    def _note(self, root: Any, place: Location, source: str) -> None:
        self._notes[id(_above(root, place)), place[-1]] = source


def _above(root: Any, place: Location) -> Any:
    """The node that holds this leaf."""
    for step in place[:-1]:
        root = root[step]
    return root
