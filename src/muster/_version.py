"""The version, alone in a module so that `muster --version` need not load anything else."""

__version__ = "0.1.0"
