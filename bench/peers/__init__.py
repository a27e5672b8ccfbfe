"""Who Muster is measured against, behind one small interface (`bench.peers.port.Peer`)."""

from __future__ import annotations

from bench.peers.forkexec import ForkExec
from bench.peers.muster import Muster
from bench.peers.port import Peer
from bench.peers.prefect import Prefect
from bench.peers.ray import Ray
from bench.peers.rq import Rq
from bench.peers.slurm import Slurm
from bench.peers.submitit import Submitit

PEERS: tuple[type[Peer], ...] = (Submitit, Rq, Slurm, Ray, Prefect)

__all__ = ["PEERS", "ForkExec", "Muster", "Peer"]
