"""How a failed attempt is understood: its log, its traceback, its causes, and the table of classes."""
