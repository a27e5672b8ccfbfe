"""Quantities as Kubernetes writes them, and what a run asks of a machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Self

from muster.domain.errors import BadQuantity, UnknownKey

_SUFFIXES: Mapping[str, Decimal] = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,3})|([a-zA-Z]{0,2}))", re.ASCII)
_LARGEST = Decimal(2**63 - 1)


def parse_quantity(value: object, *, what: str = "quantity") -> Decimal:
    """The number a quantity stands for: `500m` is 0.5, `12Gi` is 12884901888."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        raise BadQuantity(value, what=what)
    match = _QUANTITY.fullmatch(str(value).strip())
    if match is None:
        raise BadQuantity(value, what=what)
    digits, exponent, suffix = match.groups()
    factor = _SUFFIXES.get(suffix or "")
    if factor is None:
        raise BadQuantity(value, what=what)
    try:
        number = Decimal(digits + (exponent or "")) * factor
    except InvalidOperation as error:
        raise BadQuantity(value, what=what) from error
    if abs(number) > _LARGEST:
        raise BadQuantity(value, what=what)
    return number


def format_bytes(count: int) -> str:
    """The shortest exact quantity with a binary unit: 8589934592 is `8Gi`."""
    for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
        unit = int(_SUFFIXES[suffix])
        if count and count % unit == 0:
            return f"{count // unit}{suffix}"
    return str(count)


def readable_bytes(count: float) -> str:
    """For people: three digits and a binary unit."""
    for suffix in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024 or suffix == "TiB":
            return f"{count:.0f} {suffix}" if suffix == "B" else f"{count:.1f} {suffix}"
        count /= 1024
    raise AssertionError("unreachable")


def format_cpus(millis: int) -> str:
    """`1500` thousandths are `1.5`."""
    return f"{Decimal(millis) / 1000:f}".rstrip("0").rstrip(".") if millis % 1000 else str(millis // 1000)


@dataclass(frozen=True, kw_only=True)
class Resources:
    """An amount of a machine: asked for, free, or there in all."""

    millicpus: int = 0
    memory: int = 0  #: bytes
    gpus: int = 0

    @classmethod
    def parse(cls, given: Mapping[str, Any], *, where: str = "resources") -> Self:
        """Read `{cpus, memory, gpus}`; what is absent is zero, what is unknown is refused."""
        for key in given:
            if key not in ("cpus", "memory", "gpus"):
                raise UnknownKey(str(key), where=where, known=("cpus", "memory", "gpus"))
        cpus = parse_quantity(_or_zero(given.get("cpus")), what="number of CPUs")
        memory = parse_quantity(_or_zero(given.get("memory")), what="amount of memory")
        gpus = parse_quantity(_or_zero(given.get("gpus")), what="number of GPUs")
        if cpus < 0:
            raise BadQuantity(given["cpus"], what="number of CPUs")
        if memory < 0:
            raise BadQuantity(given["memory"], what="amount of memory")
        if gpus < 0 or gpus != int(gpus):
            raise BadQuantity(given["gpus"], what="whole number of GPUs")
        return cls(millicpus=int(cpus * 1000), memory=int(memory), gpus=int(gpus))

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            millicpus=self.millicpus + other.millicpus,
            memory=self.memory + other.memory,
            gpus=self.gpus + other.gpus,
        )

    def __sub__(self, other: Resources) -> Resources:
        return Resources(
            millicpus=self.millicpus - other.millicpus,
            memory=self.memory - other.memory,
            gpus=self.gpus - other.gpus,
        )

    def __mul__(self, times: int) -> Resources:
        return Resources(millicpus=self.millicpus * times, memory=self.memory * times, gpus=self.gpus * times)

    def at_most(self, limit: Resources) -> Resources:
        """The smaller of the two in each respect."""
        return Resources(
            millicpus=min(self.millicpus, limit.millicpus),
            memory=min(self.memory, limit.memory),
            gpus=min(self.gpus, limit.gpus),
        )

    def fits_in(self, room: Resources) -> bool:
        return not self.short_of(room)

    def short_of(self, room: Resources, *, word: str = "there") -> tuple[str, ...]:
        """What does not fit into `room`, each as a phrase such as `2 GPUs (1 there)`.

        A room may be overdrawn; whoever asks for nothing of it is not short of it.
        """
        gpus, millicpus, memory = max(room.gpus, 0), max(room.millicpus, 0), max(room.memory, 0)
        short: list[str] = []
        if self.gpus > gpus:
            short.append(f"{_counted(str(self.gpus), 'GPU')} ({gpus} {word})")
        if self.millicpus > millicpus:
            short.append(f"{_counted(format_cpus(self.millicpus), 'CPU')} ({format_cpus(millicpus)} {word})")
        if self.memory > memory:
            short.append(f"{readable_bytes(self.memory)} of memory ({readable_bytes(memory)} {word})")
        return tuple(short)


#: The room of an engine that places runs by itself and takes all there are.
UNBOUNDED = Resources(millicpus=2**59, memory=2**59, gpus=2**30)


def _counted(number: str, noun: str) -> str:
    return f"{number} {noun}" if number == "1" else f"{number} {noun}s"


def _or_zero(value: object) -> object:
    return 0 if value is None or value == "" else value
