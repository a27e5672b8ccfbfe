"""Muster launches machine-learning jobs."""

from muster._version import __version__

__all__ = ["__version__"]
