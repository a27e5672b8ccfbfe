"""Asking the cluster what this agent may do, right by right, by SelfSubjectAccessReview."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from muster.engine.kubernetes.access import Right
from muster.engine.kubernetes.api import Api

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
AT_ONCE = 16


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The cluster's answer for one verb."""

    right: Right
    verb: str
    namespace: str | None  #: None: everywhere
    allowed: bool

    @property
    def required(self) -> bool:
        return self.right.extra is None

    @property
    def sentence(self) -> str:
        where = f"in {self.namespace}" if self.namespace else "in the whole cluster"
        return f"{self.verb} {self.right.kind} {where}"

    @property
    def means(self) -> str:
        """What cannot be done without it."""
        return self.right.verbs[self.verb]


async def review(api: Api, rights: Iterable[Right], namespaces: Sequence[str]) -> list[Verdict]:
    """Raises `ApiError` or `Unreachable` where the cluster does not answer."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def ask(right: Right, verb: str, namespace: str | None) -> Verdict:
        plural, _, part = right.kind.plural.partition("/")
        attributes = {
            "group": right.kind.group,
            "resource": plural,
            "subresource": part,
            "verb": verb,
            "namespace": namespace or "",
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        async with turn:
            answer = await api.call("POST", _REVIEWS, body=body)
        allowed = answer["status"]["allowed"] is True
        return Verdict(right=right, verb=verb, namespace=namespace, allowed=allowed)

    places = [
        (right, verb, namespace)
        for right in rights
        for namespace in ((None,) if right.everywhere else namespaces)
        for verb in right.verbs
    ]
    return list(await asyncio.gather(*(ask(*place) for place in places)))
