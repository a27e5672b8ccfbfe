"""The entry of the command line, and the one place where an error becomes words and an exit status.

Exit status:

- 0: done.
- 1: the thing asked failed: the server refused it (also for bad input), the run failed, a check failed,
  or the reader of our output went away.
- 2: bad usage: the command line, or a file it names, cannot be right, and nothing was sent.
- 3: not reachable or not allowed: no server answers, no valid key, no right to do this.
- 130: interrupted.

With `--json` an error is a problem document (RFC 9457) on stderr. A traceback is shown only with
`MUSTER_DEBUG=1`.

`muster --version` must be quick on a slow machine, so nothing is imported before it is needed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import typer

    from muster.domain.errors import MusterError

FAILED = 1
BAD_USAGE = 2
NOT_ALLOWED = 3
INTERRUPTED = 130


def main(args: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if args is None else args)
    if words[:1] in (["--version"], ["-V"]):
        from muster._version import __version__

        print(f"muster {__version__}")
        return 0
    try:
        return _run(words or ["--help"])
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Nobody reads any more. Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def _run(words: list[str]) -> int:
    import typer

    from muster.cli.root import root
    from muster.domain.errors import MusterError

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without ✔ shows ?, and we do not fail
    as_json = "--json" in (words[: words.index("--")] if "--" in words else words)
    try:
        result = root().main(words, prog_name="muster", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except MusterError as error:
        status, problem = exit_status(error), document(error)
    except typer.TyperException as error:
        if error.format_message().startswith("Usage:"):  # a command without its arguments: this is its help
            print(error.format_message(), file=sys.stderr)
            return BAD_USAGE
        status, problem = BAD_USAGE, _usage_document(error)
    except typer.Abort:
        status, problem = FAILED, _plain_document("Aborted.", "Nothing was changed.")
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as error:  # noqa: BLE001 - the last door before a traceback
        if os.environ.get("MUSTER_DEBUG"):
            raise
        what = f"{type(error).__name__}: {error}".strip().rstrip(".")
        hint = "This is a bug in Muster. MUSTER_DEBUG=1 shows where; please report it."
        status, problem = FAILED, _plain_document(f"Something unexpected happened ({what}).", hint)
    if os.environ.get("MUSTER_DEBUG") and (trace := sys.exception_text if False else None):
        print(trace, file=sys.stderr)
    _tell(problem, as_json=as_json)
    return status
