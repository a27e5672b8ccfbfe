"""What an owner writes about a queue, in one file: its config alone, or that beside variables and rules.

::

    resource: process                    apiVersion: batch/v1
    order: fifo                          kind: Job
    limits: {gpus: 8}            or      spec: …
    variables: …                         ---
    config: …                            apiVersion: v1 …

Several documents are the objects of one config; only Kubernetes has such, and a List holds them there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.domain import policy
from muster.domain.document import Document, Path, Place, read_all
from muster.domain.errors import BadDocument, BadInput, UnknownKey

KEYS = ("resource", "config", "variables", *policy.KEYS)
MANY_OBJECTS = "kubernetes"  #: the resource whose config may hold several


@dataclass(frozen=True, kw_only=True)
class Written:
    """What was said of a queue; None: nothing was."""

    resource: str | None = None
    config: dict[str, Any] | None = None
    variables: dict[str, Any] | None = None
    policy: dict[str, Any] = field(default_factory=dict)
    places: Mapping[Path, Place] = field(default_factory=dict)  #: in the text; see `place`
    config_at: Path = ()

    def place(self, path: Path) -> Place | None:
        """Where a value of the config stands in the text, or what it is in."""
        whole = (*self.config_at, *path)
        while whole not in self.places and whole:
            whole = whole[:-1]
        return self.places.get(whole)


def looks_like_objects(config: Mapping[str, Any]) -> bool:
    """Is this of Kubernetes? No other config has keys like these."""
    return bool({"apiVersion", "kind", "spec", "template"} & set(config)) or set(config) == {MANY_OBJECTS}


def read_definition(text: str, *, name: str = "", resource: str | None = None) -> Written:
    """A queue's file; `resource`: what is known of it from elsewhere, `name`: what errors call the file."""
    documents = read_all(text, name=name)
    if len(documents) != 1:
        return _config_only(documents, name, resource)
    data = documents[0].value
    if not isinstance(data, dict) or not _is_whole(data):
        return _config_only(documents, name, resource)
    return _whole(documents[0], name)


def read_config(text: str, *, name: str = "", resource: str | None = None) -> dict[str, Any]:
    """A config alone, as text."""
    return _config_only(read_all(text, name=name), name, resource).config or {}


def _is_whole(data: Mapping[str, Any]) -> bool:
    """Is this more than a config? No engine's config has these keys at its top."""
    return bool(data) and ("config" in data or set(data) <= set(KEYS)) and "kind" not in data


def _whole(document: Document, name: str) -> Written:
    data = document.value

    def refuse(key: str, problem: str, hint: str) -> BadDocument:
        line, column = document.places[(key,)]
        return BadDocument(problem, name=name, line=line, column=column, hint=hint)

    for key in data:
        if key not in KEYS:
            unknown = UnknownKey(key, where="the queue", known=KEYS)
            raise refuse(key, unknown.detail.rstrip("."), unknown.hint)
    for key in ("config", "variables"):
        if not isinstance(data.get(key, {}), dict):
            raise refuse(key, f"{key} is not a mapping", "Write it as `key: value` lines.")
    if not isinstance(data.get("resource", ""), str):
        raise refuse("resource", "resource is not text", "Name an engine: process.")
    rules = {key: data[key] for key in policy.KEYS if key in data}
    for key, value in rules.items():
        try:
            policy.Policy.parse({key: value})
        except BadInput as error:
            raise refuse(key, error.detail.rstrip("."), error.hint) from error
    return Written(
        resource=data.get("resource"),
        config=data.get("config"),
        variables=data.get("variables"),
        policy=rules,
        places=document.places,
        config_at=("config",),
    )


def _config_only(documents: Sequence[Document], name: str, resource: str | None) -> Written:
    if not documents:
        raise BadDocument("there is nothing here", name=name, line=1, column=1, hint="Write the config.")
    for place, document in enumerate(documents):
        line, column = document.places[()]
        if place and resource != MANY_OBJECTS:
            raise BadDocument(
                "a second document begins here",
                name=name,
                line=line,
                column=column,
                hint=f"Only the config of resource {MANY_OBJECTS} may be of several: "
                f"--resource {MANY_OBJECTS}. Else keep one, and drop the `---`.",
            )
        if not isinstance(document.value, dict):
            what = "a list" if isinstance(document.value, list) else "a single value"
            raise BadDocument(
                f"this is {what}, not a mapping",
                name=name,
                line=line,
                column=column,
                hint="Write it as `key: value` lines.",
            )
    if len(documents) == 1:
        return Written(config=documents[0].value, places=documents[0].places)
    items = [document.value for document in documents]
    places = {
        ("items", item, *path): place
        for item, document in enumerate(documents)
        for path, place in document.places.items()
    }
    config = {"apiVersion": "v1", "kind": "List", "items": items}
    return Written(config=config, places={(): (1, 1), **places})
