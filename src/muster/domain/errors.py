"""Every error Muster raises on purpose, in one tree.

::

    MusterError
    ├── BadInput                 422  what was asked cannot be right
    │   ├── BadQuantity               not a number with a known unit
    │   ├── BadName                   a name that breaks the naming rule
    │   ├── UnknownKey                a key nobody knows, with the nearest known one
    │   ├── BadDocument               YAML or JSON with a slip or a trick in it, and where
    │   ├── BadTemplate               a config template that cannot be read
    │   ├── BadVariable               a launch value that breaks the queue's rule
    │   ├── BadOverride               a change of the template that the queue does not open
    │   ├── BadDeclaration            inputs declared in a way that cannot be used
    │   ├── BadInputValue             an input that breaks the job's rule
    │   ├── BadManagedFile            a config file that inputs cannot be merged into
    │   ├── BadGrid                   a grid that gives no runs, or too many
    │   ├── BadTraining               a training shape that cannot run
    │   ├── BadCommand                a script or program that is not there
    │   ├── BadSnapshot               code that cannot be taken along
    │   ├── BadGit                    an address, ref or folder of a repository that may not be used
    │   └── ImpossibleRequest         more than the queue's machines have
    ├── NotSignedIn              401  no key, or one that is not valid (any more)
    ├── NotAllowed               403  a key that may not do this
    ├── NotFound                 404  no such thing
    ├── Conflict                 409  the thing is not in a state for this
    │   ├── AlreadyExists             the name is taken
    │   ├── IdempotencyMismatch       the key was used for another request
    │   ├── IllegalMove               a state change the table does not know
    │   └── StaleLease                word from an attempt that was overtaken
    ├── TooLarge                 413  over a stated size
    ├── Unavailable              503  try again later
    │   └── StoreUnavailable          the database or the disk cannot be read or written
    └── LocalProblem                  found on this side, before or without a server
        ├── ServerUnreachable         nobody answers at the address
        ├── BadConfigFile             a config file that cannot be used
        ├── BadBackup                 a backup that is damaged, or none
        ├── PortInUse                 another program listens there
        ├── CheckoutFailed            a repository that git could not fetch or check out
        ├── ClusterUnreachable        a cluster that does not answer, or does not know who asks
        ├── ClusterRefused            a cluster that does not take the run's objects
        ├── CannotPlace               an engine has no room for all members just now
        └── Overtaken                 an engine saw a newer claim of the run

Each has a stable ``code``, an HTTP ``status``, a ``detail`` that says what was given and what is
allowed, and a ``hint`` that says what to do. Its ``facts`` are for programs: ``field`` is the key of a
launch that is wrong, where one is. Doors translate them; nothing else catches broadly.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self


class MusterError(Exception):
    """The root: anything Muster refuses or fails at, said in a sentence."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Something went wrong"

    def __init__(self, detail: str, *, hint: str = "", facts: Mapping[str, Any] | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint
        self.facts: dict[str, Any] = dict(facts or {})

    def __str__(self) -> str:
        return f"{self.detail} {self.hint}".strip()

    @classmethod
    def rebuild(cls, detail: str, hint: str, facts: Mapping[str, Any]) -> Self:
        """Make the error again from what crossed the wire, past the subclass's own arguments."""
        error = cls.__new__(cls)
        MusterError.__init__(error, detail, hint=hint, facts=facts)
        return error


class BadInput(MusterError):
    code = "bad_input"
    status = 422
    title = "The request is not valid"


class BadQuantity(BadInput):
    code = "bad_quantity"
    title = "Not a quantity"

    def __init__(self, value: object, *, what: str = "quantity") -> None:
        super().__init__(
            f"{value!r} is not a {what}.",
            hint="Write a number with an optional unit, as Kubernetes does: 500m, 2, 8Gi, 1.5G.",
            facts={"value": str(value)},
        )


class BadName(BadInput):
    code = "bad_name"
    title = "Not a valid name"

    def __init__(self, value: str, *, what: str, rule: str) -> None:
        super().__init__(
            f"{value!r} is not a valid {what} name.", hint=rule, facts={"what": what, "value": value}
        )


class UnknownKey(BadInput):
    code = "unknown_key"
    title = "Unknown key"

    def __init__(self, key: str, *, where: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = nearest(key, names)
        hint = f"Did you mean {near!r}?" if near else f"Known keys: {', '.join(names)}."
        super().__init__(f"{where} has no key {key!r}.", hint=hint, facts={"key": key, "nearest": near})


class BadDocument(BadInput):
    code = "bad_document"
    title = "The text cannot be read"

    def __init__(self, problem: str, *, line: int, column: int, hint: str, name: str = "") -> None:
        """`name`: the file it came from, if there is one. Lines and columns count from one."""
        where = f"{name}:{line}:{column}" if name else f"Line {line}, column {column}"
        super().__init__(f"{where}: {problem}.", hint=hint, facts={"line": line, "column": column})
        self.problem = problem


class BadTemplate(BadInput):
    code = "bad_template"
    title = "The queue's configuration cannot be used"


class BadVariable(BadInput):
    code = "bad_variable"
    title = "A value breaks the queue's rule"


class BadOverride(BadInput):
    code = "bad_override"
    title = "The queue does not let a launch change this"


class BadDeclaration(BadInput):
    code = "bad_declaration"
    title = "The declared inputs cannot be used"


class BadInputValue(BadInput):
    code = "bad_input_value"
    title = "An input breaks the job's rule"


class BadManagedFile(BadInput):
    code = "bad_managed_file"
    title = "A config file cannot be managed"


class BadGrid(BadInput):
    code = "bad_grid"
    title = "The grid cannot be launched"


class BadTraining(BadInput):
    code = "bad_training"
    title = "The training shape cannot run"


class BadCommand(BadInput):
    code = "bad_command"
    title = "The command cannot be started"


class BadSnapshot(BadInput):
    code = "bad_snapshot"
    title = "The code cannot be taken along"


class BadGit(BadInput):
    code = "bad_git"
    title = "The git repository cannot be used"


class ImpossibleRequest(BadInput):
    code = "impossible_request"
    title = "No machine of this queue can ever run this"


class NotSignedIn(MusterError):
    code = "not_signed_in"
    status = 401
    title = "Not signed in"

    def __init__(
        self, detail: str = "This server wants an API key, and none that is valid was sent."
    ) -> None:
        super().__init__(detail, hint="Run `muster login`, or set MUSTER_API_KEY.")


class NotAllowed(MusterError):
    code = "not_allowed"
    status = 403
    title = "Not allowed"


class NotFound(MusterError):
    code = "not_found"
    status = 404
    title = "Not found"

    def __init__(self, what: str, name: str, *, known: Iterable[str] = (), hint: str = "") -> None:
        near = nearest(name, known)
        super().__init__(
            f"There is no {what} {name!r}.",
            hint=hint
            or (f"Did you mean {near!r}?" if near else f"`muster {what} list` shows what there is."),
            facts={"what": what, "name": name, "nearest": near},
        )


class Conflict(MusterError):
    code = "conflict"
    status = 409
    title = "Not possible now"


class AlreadyExists(Conflict):
    code = "already_exists"
    title = "The name is taken"

    def __init__(self, what: str, name: str) -> None:
        super().__init__(
            f"There is already a {what} {name!r}.",
            hint=f"Choose another name; `muster {what} show {name}` shows that one.",
            facts={"what": what, "name": name},
        )


class IdempotencyMismatch(Conflict):
    code = "idempotency_mismatch"
    title = "The idempotency key was used for another request"


class IllegalMove(Conflict):
    code = "illegal_move"
    title = "The state does not allow this"


class StaleLease(Conflict):
    code = "stale_lease"
    title = "Overtaken by a newer claim"

    def __init__(self, run_id: str, *, given: int, current: int) -> None:
        super().__init__(
            f"Epoch {given} no longer speaks for run {run_id}; epoch {current} does.",
            hint="Another agent took the run over. Drop it without touching its processes.",
            facts={"run_id": run_id, "given": given, "current": current},
        )


class TooLarge(MusterError):
    code = "too_large"
    status = 413
    title = "Too large"


class Unavailable(MusterError):
    code = "unavailable"
    status = 503
    title = "Not available now"


class StoreUnavailable(Unavailable):
    code = "store_unavailable"
    title = "What is kept cannot be read or written"


class LocalProblem(MusterError):
    code = "local_problem"
    title = "A problem on this side"


class ServerUnreachable(LocalProblem):
    code = "server_unreachable"
    title = "No server answers"

    def __init__(self, url: str, *, reason: str = "", sent: bool = False) -> None:
        """`sent`: the request went out, so the server may have acted on it."""
        why = f" ({reason})" if reason else ""
        super().__init__(
            f"No Muster server answers at {url}{why}.",
            hint="Start one here with `muster up`, or point MUSTER_URL at yours.",
            facts={"url": url, "sent": sent},
        )


class BadConfigFile(LocalProblem):
    code = "bad_config_file"
    title = "A config file cannot be used"


class BadBackup(LocalProblem):
    code = "bad_backup"
    title = "The backup cannot be used"


class PortInUse(LocalProblem):
    code = "port_in_use"
    title = "The port is taken"

    def __init__(self, host: str, port: int) -> None:
        super().__init__(
            f"Another program already listens on {host}:{port}.",
            hint=f"If it is Muster, use it as it is; else choose another port: --port {port + 1}.",
            facts={"host": host, "port": port},
        )


class CheckoutFailed(LocalProblem):
    code = "checkout_failed"
    title = "The code could not be fetched from its repository"


class ClusterUnreachable(LocalProblem):
    code = "cluster_unreachable"
    title = "The cluster does not answer"


class ClusterRefused(LocalProblem):
    code = "cluster_refused"
    title = "The cluster does not take this"


class CannotPlace(LocalProblem):
    code = "cannot_place"
    title = "No room just now"


class Overtaken(LocalProblem):
    code = "overtaken"
    title = "A newer claim was here"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like `word`, if any is like it."""
    matches = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def _tree(root: type[MusterError]) -> dict[str, type[MusterError]]:
    found = {root.code: root}
    for child in root.__subclasses__():
        found.update(_tree(child))
    return found


def by_code(code: str) -> type[MusterError]:
    """The class that carries `code`; the root for one this version does not know."""
    return _tree(MusterError).get(code, MusterError)
