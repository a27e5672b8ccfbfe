"""A cluster as an agent sees it: its nodes with what is free there, and the volume claims for runs."""

from __future__ import annotations

from dataclasses import dataclass

from muster.domain.resources import Resources

MOST = 5_000  #: nodes, or claims, of one cluster; a bigger one is told in part


@dataclass(frozen=True, kw_only=True)
class Node:
    """One machine of a cluster. What is free there is what no pod, of whomever, has asked for."""

    name: str
    closed: str = ""  #: why no pod goes there, such as `cordoned`; empty where one may
    gpu: str = ""  #: the model of its GPUs, as far as its labels say
    total: Resources
    free: Resources
    pods: int  #: that are there


@dataclass(frozen=True, kw_only=True)
class VolumeClaim:
    """A volume claim that runs may mount."""

    namespace: str
    name: str
    size: int = 0  #: bytes; 0 where it has none yet
    modes: tuple[str, ...] = ()  #: such as ReadWriteMany
    bound: bool = False


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """None: the agent may not look. Empty: it looked, and there are none."""

    namespace: str  #: where runs go whose queue names none
    nodes: tuple[Node, ...] | None
    claims: tuple[VolumeClaim, ...] | None
