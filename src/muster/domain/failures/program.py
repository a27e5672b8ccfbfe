"""Failures of the program itself: it cannot start, raises, crashes, or just ends."""

from __future__ import annotations

import re
import signal

from muster.domain.failures.sign import FailureClass, Sign, words

SCRIPT_NOT_FOUND = FailureClass(
    kind="script_not_found",
    title="Script not found",
    advice="Check the path, relative to the folder that was launched, and that the file is part of the "
    "code that was taken along (not ignored, not a link to elsewhere).",
    signs=(
        Sign(
            words=words(r"can't open file '(?P<file>[^'\n]{1,500})': \[Errno 2\]"),
            says="could not start: the script {file} is not there",
        ),
    ),
)

MISSING_DEPENDENCY = FailureClass(
    kind="missing_dependency",
    title="A Python package is missing",
    advice="Add it to requirements.txt beside your script, or use an image that has it. If it is a module "
    "of your own, check that it is part of the code that was taken along.",
    signs=(
        Sign(
            words=words(r"^muster: .{0,80}\b(?P<module>torch)(?:run)?\b.{0,80}(?:not |no |missing)"),
            says="needs {module}, which is not installed; add {package} to requirements.txt",
        ),
        Sign(
            words=words(r"(?:^|\()ModuleNotFoundError: No module named '(?P<module>[^'\n]{1,100})'"),
            says="cannot import {module}: it is not installed; add {package} to requirements.txt",
        ),
        Sign(
            words=words(r"^[^\s:]{0,200}python[\d.]{0,6}: No module named (?P<module>[\w.]{1,100})$"),
            says="cannot run {module}: it is not installed; add {package} to requirements.txt",
        ),
    ),
)

MISSING_LIBRARY = FailureClass(
    kind="missing_library",
    title="A system library is missing",
    advice="Install the system package that brings it, in the image or on the machine (libGL.so.1 is in "
    "libgl1), or choose a build that does not need it (opencv-python-headless).",
    signs=(
        Sign(
            words=words(r"(?P<file>\b[\w.+-]{1,80}\.so[\d.]{0,20}): cannot open shared object file"),
            says="could not load the system library {file}",
        ),
    ),
)

COMMAND_NOT_FOUND = FailureClass(
    kind="command_not_found",
    title="Command not found",
    advice="Check the spelling, and that the program is installed where the run runs: its package in "
    "requirements.txt, or the image. A script of your own needs `./`, its execute bit and a `#!` "
    "line, or its interpreter before it.",
    signs=(
        Sign(
            exits={127},
            words=words(
                r"^[^:\n]{1,200}: (?:(?:line )?\d{1,6}: )?(?:exec: )?(?P<command>[^:\n]{1,200}): "
                r"(?:command |inaccessible or )?not found$"
            ),
            says="could not start: the command {command} is not found",
        ),
        Sign(
            exits={127},
            words=words(r"^env: .(?P<command>[^\n]{1,200}).: No such file"),
            says="could not start: the command {command} is not found",
        ),
        Sign(
            exits={126},
            words=words(
                r"^[^:\n]{1,200}: (?:(?:line )?\d{1,6}: )?(?:exec: )?(?P<command>[^:\n]{1,200}): Perm"
            ),
            says="could not start: {command} is not executable",
        ),
        Sign(exits={127}, says="could not start: a command is not found (exit code 127)"),
        Sign(exits={126}, says="could not start: the command is not executable (exit code 126)"),
    ),
)

PERMISSION = FailureClass(
    kind="permission",
    title="Not permitted",
    advice="Write below the working directory or MUSTER_OUTPUT_DIR, or have the owner of the path give the "
    "run's user access.",
    signs=(
        Sign(
            words=words(r"^PermissionError: .{0,80}: '(?P<file>[^'\n]{1,500})'"),
            says="may not use {file}: permission denied",
        ),
        Sign(words=words(r"^PermissionError\b"), says="was refused something: permission denied"),
    ),
)

_CRASHES = {
    signal.SIGSEGV,
    signal.SIGABRT,
    signal.SIGILL,
    signal.SIGFPE,
    signal.SIGTRAP,
    signal.SIGSYS,
}

KILLED = FailureClass(
    kind="killed",
    title="Killed from outside",
    advice="Neither Muster nor the program did this. Look for a time limit, a shutdown of the machine or "
    "somebody with access to it; then launch again.",
    signs=(
        Sign(signals={signal.SIGTERM}, says="was told to end from outside (SIGTERM)", echo=True),
        Sign(
            words=words(r"^(?:[\w.]{1,80}\.)?SignalException: Process \d{1,9} got signal: 15$"),
            says="was told to end from outside (SIGTERM)",
            echo=True,
        ),
        Sign(signals=set(range(1, 65)) - _CRASHES, says="was ended by {signal}"),
    ),
)

USER_EXCEPTION = FailureClass(
    kind="user_exception",
    title="The program raised an error",
    advice="The traceback ends in the program itself: mend it there and launch again.",
    signs=(Sign(raised=True, says="raised {error}{at}"),),
)

ABORTED_AT_EXIT = FailureClass(
    kind="aborted_at_exit",
    title="Aborted while it ended",
    advice="Its work may well be done: see its outputs. With PyTorch's gloo the thread is one of a process "
    "group: call torch.distributed.destroy_process_group() at the end and, with DistributedDataParallel, "
    "import torch.distributed.nn before init_process_group().",
    signs=(
        Sign(
            signals={signal.SIGABRT},
            words=words(r"^terminate called without an active exception$"),
            says="was aborted while it ended: a thread of native code was still at work (SIGABRT)",
        ),
    ),
)

CRASH = FailureClass(
    kind="crash",
    title="Crashed in native code",
    advice="Run with PYTHONFAULTHANDLER=1 to see the Python line. Mostly a package built for another "
    "machine, CUDA or library version: reinstall it, or change the image.",
    signs=(
        Sign(
            signals=_CRASHES,
            says="crashed in native code ({signal})",
        ),
    ),
)

NONZERO_EXIT = FailureClass(
    kind="nonzero_exit",
    title="Ended with an error code",
    advice="The program chose this code itself and left no traceback: its last lines, `muster run logs`, "
    "are the place to look.",
    signs=(Sign(exits=range(1, 2**32), says="exited with code {exit_code}{last}"),),
)

UNKNOWN = FailureClass(
    kind="unknown",
    title="Failed without a reason",
    advice="See `muster run events` and `muster run logs` for what led to it.",
    signs=(
        Sign(reason=re.compile(r"(?P<words>[^\n]{1,300})"), says="failed: {words}"),
        Sign(says="failed and left no reason"),
    ),
)

ENVIRONMENT_FAILED = FailureClass(
    kind="environment_failed",
    title="The environment could not be prepared",
    advice="Mend requirements.txt (a name or version that does not exist, packages that exclude each "
    "other, an index that cannot be reached) and launch again; the installer's words are in the "
    "evidence.",
)

CHECKOUT_FAILED = FailureClass(
    kind="checkout_failed",
    title="The repository could not be fetched",
    advice="The agent's machine must reach the repository and may have to sign in there (a credential "
    "helper, an ssh key); the branch, tag or commit must exist. Git's own words are in the summary.",
)

COULD_NOT_START = FailureClass(
    kind="could_not_start",
    title="Could not be started",
    advice="The reason is the engine's own; `muster launch --dry-run` shows what is submitted.",
)

LOST = FailureClass(
    kind="lost",
    title="Lost",
    advice="Nothing of its processes could be found any more: the machine went down, or they were killed "
    "from outside. `muster run events` says when it was last heard of; launch it again.",
)

PREEMPTED = FailureClass(
    kind="preempted",
    title="Preempted",
    advice="It had to make room too often. Give it a higher --priority or more tries (--retry).",
)
