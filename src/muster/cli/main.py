"""The entry of the command line, and the one place where an error becomes words and an exit status.

- 0: done.
- 1: the thing asked failed: the server refused it (bad input too), the run failed, a check failed, or
  whoever read our output went away.
- 2: bad usage: the command line, or a file it names, cannot be right; nothing was sent.
- 3: not reachable or not allowed: no server answers, no valid key, no right to do this.
- 130: interrupted.

With `--json` an error is a problem document (RFC 9457) on stderr. There is no traceback, unless
`MUSTER_DEBUG=1` asks for one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

# `muster --version` must be quick on a slow machine: nothing else is imported before it is needed.

DONE, FAILED, BAD_USAGE, NOT_ALLOWED, INTERRUPTED = 0, 1, 2, 3, 130


def main(args: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if args is None else args)
    if words[:1] in (["--version"], ["-V"]):
        from muster._version import __version__

        print(f"muster {__version__}")
        return DONE
    try:
        return _run(words or ["--help"])
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Nobody reads any more; Python would say so once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def _run(words: list[str]) -> int:
    from muster.cli.root import root

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # where there is no ✔, a ? will do
    try:
        result = root().main(words, prog_name="muster", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - the last door before a traceback
        if os.environ.get("MUSTER_DEBUG"):
            import traceback

            traceback.print_exc()
        before = words[: words.index("--")] if "--" in words else words
        return _tell(error, as_json="--json" in before)
    return result if isinstance(result, int) else DONE


def _tell(error: Exception, *, as_json: bool) -> int:
    """Say what is wrong, on stderr; returns the exit status that goes with it."""
    import typer

    if isinstance(error, typer.TyperException) and error.format_message().startswith("Usage:"):
        print(error.format_message(), file=sys.stderr)  # a command without its arguments: this is its help
        return BAD_USAGE
    status, problem = verdict(error)
    if as_json:
        import json

        print(json.dumps(problem, ensure_ascii=True), file=sys.stderr)
        return status
    typer.secho("Error:", fg="red", bold=True, err=True, nl=False)
    print(f" {problem['detail']}", file=sys.stderr)
    if problem["hint"]:
        print(f"→ {problem['hint']}", file=sys.stderr)
    return status


def verdict(error: Exception) -> tuple[int, dict[str, Any]]:
    """The exit status and the problem document for an error."""
    import typer

    from muster.cli.usage import BadUsage
    from muster.domain.errors import (
        BadConfigFile,
        ClusterUnreachable,
        MusterError,
        NotAllowed,
        NotSignedIn,
        ServerUnreachable,
    )

    match error:
        case ServerUnreachable() | ClusterUnreachable() | NotSignedIn() | NotAllowed():
            return NOT_ALLOWED, _problem(error)
        case BadUsage() | BadConfigFile():
            return BAD_USAGE, _problem(error)
        case MusterError():
            return FAILED, _problem(error)
        case typer.TyperException():
            path = getattr(getattr(error, "ctx", None), "command_path", "muster")
            usage = BadUsage(error.format_message(), hint=f"`{path} --help` shows how it is used.")
            return BAD_USAGE, _problem(usage)
        case typer.Abort():
            return FAILED, _problem(MusterError("Aborted.", hint="Nothing was changed."))
        case _:
            what = f"{type(error).__name__}: {error}".rstrip(": .")
            hint = "This is a bug in Muster. MUSTER_DEBUG=1 shows where it is; please report it."
            return FAILED, _problem(MusterError(f"Something unexpected happened ({what}).", hint=hint))


def _problem(error: Any) -> dict[str, Any]:
    return {
        "type": "about:blank",
        "title": error.title,
        "status": error.status,
        "detail": error.detail,
        "code": error.code,
        "hint": error.hint,
        "facts": error.facts,
    }
