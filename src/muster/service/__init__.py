"""What can be done: one module a use case. Load, decide, apply; no network call in a transaction."""
