"""What was asked of the API server, as it wrote down itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Request:
    verb: str  #: get, list, watch, create, update, patch, delete, deletecollection
    uri: str
    resource: str  #: "pods", "pods/log"; "" for what is no resource
    user: str
    user_agent: str
    code: int  #: of HTTP
    received_at: datetime


def read(log: Path) -> Iterator[Request]:
    """Each request once, in the order of the answers. A watch counts when it begins."""
    seen: set[str] = set()
    whole, _, _ = log.read_text().rpartition("\n")  # the last line may be in the writing
    for line in whole.splitlines():
        event = json.loads(line)
        if event["auditID"] in seen:
            continue
        seen.add(event["auditID"])
        target = event.get("objectRef", {})
        yield Request(
            verb=event["verb"],
            uri=event["requestURI"],
            resource="/".join(filter(None, [target.get("resource"), target.get("subresource")])),
            user=event["user"].get("username", ""),  # none, where nobody was recognised
            user_agent=event.get("userAgent", ""),
            code=event.get("responseStatus", {}).get("code", 0),
            received_at=datetime.fromisoformat(event["requestReceivedTimestamp"]),
        )
