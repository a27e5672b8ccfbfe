from __future__ import annotations


class ClusterError(Exception):
    """The cluster of the tests did not do as it was told; the message says what to do."""


class CannotBeHad(ClusterError):
    """This machine has not what a cluster needs, through no fault of ours: its tests are skipped."""
