"""The HTTP client: the SDK, the CLI and the agent stand on it."""
