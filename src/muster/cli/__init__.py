"""The command line: one file a command group, each a thin call of the client."""
