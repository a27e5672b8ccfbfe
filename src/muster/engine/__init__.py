"""Adapters to whatever starts processes, behind one small interface (`muster.engine.port`)."""
