"""Names and labels that a cluster takes.

Text that is not legal is made so, and gets a hash of itself: two different texts never become one name.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from muster.domain.observation import AttemptKey

MAX = 63

_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_LABEL = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_NOT_NAME = re.compile(r"[^a-z0-9]+")
_NOT_LABEL = re.compile(r"[^A-Za-z0-9_.-]+")

#: Fields, wherever they stand, that hold a name of an object or of a host.
_NAME_FIELDS = frozenset({"subdomain", "hostname", "serviceName"})
#: Mappings, wherever they stand, whose values are labels.
_LABEL_FIELDS = frozenset({"labels", "matchLabels", "selector", "nodeSelector"})


def secret_name(key: AttemptKey) -> str:
    """Of the Secret that has what an attempt may know and a manifest may not."""
    return f"muster-{key.run_id}-{key.attempt}"


def helper_name(key: AttemptKey, what: str) -> str:
    """Of an object that goes with a workload; legal for all kinds, a Service's too."""
    return f"muster-{key.run_id}-{key.attempt}-{what}"


def legal_name(text: str, limit: int = MAX) -> str:
    """`text` as an RFC 1123 label of at most 63 characters, or fewer."""
    if len(text) <= limit and _NAME.fullmatch(text):
        return text
    return _hashed(_NOT_NAME.sub("-", text.lower()).strip("-"), text, end="-", limit=limit)


def legal_label(text: str) -> str:
    """`text` as the value of a label."""
    if len(text) <= MAX and _LABEL.fullmatch(text):
        return text
    return _hashed(_NOT_LABEL.sub("-", text).strip("-_."), text, end="-_.", limit=MAX)


def _hashed(cleaned: str, original: str, *, end: str, limit: int) -> str:
    digest = hashlib.sha256(original.encode()).hexdigest()[:8]
    kept = cleaned[: limit - len(digest) - 1].rstrip(end)
    return f"{kept}-{digest}" if kept else f"x{digest}"


def make_legal(template: Any, filled: Any, parent: str = "") -> None:
    """Mend the names and labels in `filled` that a macro of `template` went into; others stand."""
    if isinstance(filled, dict):
        for key, value in filled.items():
            if isinstance(value, str):
                if value != template[key]:
                    _mend(filled, key, value, parent)
            elif isinstance(value, dict | list):
                make_legal(template[key], value, key)
    elif isinstance(filled, list):
        for place, value in enumerate(filled):
            if isinstance(value, dict | list):
                make_legal(template[place], value)


def _mend(node: dict[str, Any], key: str, value: str, parent: str) -> None:
    if (key == "name" and parent == "metadata") or key in _NAME_FIELDS:
        node[key] = legal_name(value)
    elif key == "generateName" and parent == "metadata":
        node[key] = legal_name(value.rstrip("-")) + "-"
    elif parent in _LABEL_FIELDS:
        node[key] = legal_label(value)
