"""Claims runs, prepares them, drives an engine, reports. Never touches the store."""
