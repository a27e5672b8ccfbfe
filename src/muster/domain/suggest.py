"""What type a variable probably has, from its name and where it stands: a guess, for its owner to change."""

from __future__ import annotations

import re
from collections.abc import Iterable

from muster.domain.document import Path
from muster.domain.variables import VariableType

#: The first that matches the key a variable stands under, else the variable's own name, wins.
_WORDS: tuple[tuple[re.Pattern[str], VariableType], ...] = (
    (re.compile(r"(^|[_./-])(mem(ory)?|storage|disk|shm|sizelimit)([_./-]|$)", re.I), VariableType.QUANTITY),
    (
        re.compile(
            r"gpu|replica|parallelism|completions|minavailable|backofflimit|nodes?$|workers?$|slots|"
            r"(^|_)(num|n|count|max|min)(_|$)|seconds$|grace|port$|nproc|epochs|steps",
            re.I,
        ),
        VariableType.INTEGER,
    ),
    (re.compile(r"^(enable|disable|use|is|has)_|^(suspend|privileged|debug)$", re.I), VariableType.BOOLEAN),
)
_CPU = re.compile(r"cpu", re.I)


def suggested_type(name: str, paths: Iterable[Path]) -> VariableType:
    """`paths`: where in the config the variable is used."""
    for path in paths:
        keys = [part for part in path if isinstance(part, str)]
        if "env" in keys or "command" in keys or "args" in keys:
            continue  # text wherever it lands
        for word in (keys[-1] if keys else "", name):
            if _CPU.search(word):
                in_pod = "limits" in keys or "requests" in keys
                return VariableType.QUANTITY if in_pod else VariableType.NUMBER
            for pattern, kind in _WORDS:
                if pattern.search(word):
                    return kind
    return VariableType.STRING
