"""Processes on this machine: whole GPUs by count, all members or none."""
