"""Words a shell completes from the server: quickly, or not at all, and never with a complaint."""

from __future__ import annotations

from typing import Any

from muster.domain.runorder import RunKey

SECONDS = 1.0


def run_words(incomplete: str) -> list[tuple[str, str]]:
    """Ids of the newest runs; names too, once some of one is typed."""
    found = _items("runs", limit=50, **({"text": incomplete} if incomplete else {}))
    words = [(run["id"], f"{run['name']}, {run['state']}") for run in found]
    if incomplete:
        words += [(run["name"], f"{run['id']}, {run['state']}") for run in found]
    return [word for word in words if word[0].startswith(incomplete)]


def queue_names(incomplete: str) -> list[tuple[str, str]]:
    found = _items("queues")
    return [
        (queue["name"], f"{queue['resource']}, {queue['waiting']} waiting")
        for queue in found
        if queue["name"].startswith(incomplete)
    ]


def run_orders(incomplete: str) -> list[str]:
    return [word for key in RunKey for word in (key.value, f"-{key}") if word.startswith(incomplete)]


def job_names(incomplete: str) -> list[tuple[str, str]]:
    found = _items("jobs", limit=100)
    return [
        (job["name"], f"v{job['version']}, {job['project']}")
        for job in found
        if job["name"].startswith(incomplete)
    ]


def _items(resource: str, **params: Any) -> list[dict[str, Any]]:
    # Not the client: importing it takes longer than a person waits for a Tab.
    import json
    from http.client import HTTPException
    from urllib.parse import urlencode
    from urllib.request import Request, urlopen

    from muster.client.settings import load
    from muster.domain.errors import MusterError

    try:
        settings = load()
        headers = {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}
        url = f"{settings.url}/api/v1/{resource}?{urlencode(params)}"
        with urlopen(Request(url, headers=headers), timeout=SECONDS) as answer:  # noqa: S310 - http(s) only
            items: list[dict[str, Any]] = json.load(answer)["items"]
            return items
    except (OSError, ValueError, KeyError, HTTPException, MusterError):
        return []
