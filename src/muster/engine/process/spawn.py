"""Starting a shim: its own session, its output straight into a file, its attempt's locks in its hands."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from muster._failpoint import failpoint
from muster.domain.errors import BadCommand, CannotPlace, LocalProblem, MusterError

SHIM = str(Path(__file__).with_name("shim.sh"))

# A signal ignored in the agent (nohup, a background job of a script) would stay ignored in the run, and sh
# cannot even trap it. Python itself ignores the last two.
_DEFAULT_SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGCHLD,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGPIPE,
    signal.SIGXFSZ,
)


def spawn(
    replica: str,
    *,
    command: Sequence[str],
    env: Mapping[str, str],
    workdir: str,
    cgroup: str,
    locks: Iterable[int],
) -> int:
    """Start a shim for this command; its process id.

    `posix_spawn`, not `Popen`: it resets signals, keeps no object to collect, and is no slower. What else
    this process has open is not inherited, as Python opens everything close-on-exec.
    """
    failpoint("spawn.before")
    try:
        pid = os.posix_spawn(
            "/bin/sh",
            ["sh", SHIM, replica, workdir, cgroup, *command],
            env,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, f"{replica}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                *((os.POSIX_SPAWN_DUP2, fd, fd) for fd in locks),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=_DEFAULT_SIGNALS,
        )
    except OSError as error:
        raise _refusal(error) from error
    except ValueError as error:  # a NUL inside
        raise BadCommand(f"The command or its environment cannot be passed on: {error}.") from error
    failpoint("spawn.after")
    return pid


def _refusal(error: OSError) -> MusterError:
    if error.errno == errno.E2BIG:
        return BadCommand(
            "The command and its environment are larger than the kernel takes.",
            hint="Put large inputs into a file of the code.",
        )
    if error.errno in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE):
        return CannotPlace(f"This machine cannot start another process just now: {error.strerror}.")
    return LocalProblem(f"The process cannot be started: {error}.")
