"""Runs as objects of a Kubernetes cluster."""
