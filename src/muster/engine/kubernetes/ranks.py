"""Which member of the run a pod is.

Where the cluster numbers its pods, that number is the rank. Where it does not, ranks go by the order in
which pods were made: equal for every agent that looks, because later pods only come after earlier ones, and
those that are made at once are numbered when all of them are there.
A pod that stands in for a failed one takes its rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muster.engine.kubernetes.pod import Pod


def by_rank(pods: Iterable[Pod], *, members: int, at_once: int) -> dict[int, list[Pod]]:
    """Each rank's pods, the newest last. Without an index they wait until as many are there as go at once."""
    ordered = sorted(pods, key=lambda pod: (pod.created, pod.name))
    found: dict[int, list[Pod]] = {}
    unnumbered = []
    for pod in ordered:
        if pod.index is None:
            unnumbered.append(pod)
        elif pod.index < members:
            found.setdefault(pod.index, []).append(pod)
    if len(unnumbered) >= min(at_once, members) or _is_trickle(unnumbered):
        _deal(unnumbered, found, members)
    return found


def _is_trickle(pods: Sequence[Pod]) -> bool:
    """Some have ended already: they come one after the other, not all at once."""
    return any(pod.over for pod in pods)


def _deal(pods: Sequence[Pod], found: dict[int, list[Pod]], members: int) -> None:
    for pod in pods:
        rank = _open_rank(found, members)
        if rank is None:
            return
        found.setdefault(rank, []).append(pod)


def _open_rank(found: dict[int, list[Pod]], members: int) -> int | None:
    """The first that nobody has, else the first whose pod failed or was taken away."""
    free = next((rank for rank in range(members) if rank not in found), None)
    if free is not None:
        return free
    return next((rank for rank in sorted(found) if _is_vacant(found[rank][-1])), None)


def _is_vacant(pod: Pod) -> bool:
    return pod.phase == "Failed" or (pod.phase != "Succeeded" and pod.told_at is not None)
