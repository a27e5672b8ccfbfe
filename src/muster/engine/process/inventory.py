"""What this machine has: CPUs and memory as far as this process may use them, and GPUs."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from muster.domain.resources import Resources
from muster.engine.port import Device, Inventory
from muster.engine.process import cgroup

log = logging.getLogger(__name__)
_FAKE = "GPU-fake-"


def take_inventory(root: Path, environ: Mapping[str, str]) -> Inventory:
    """Read once at start: NVML takes its time."""
    devices = visible(find_devices(environ), environ.get("CUDA_VISIBLE_DEVICES"))
    identity = f"{_host_id()}\0{root.resolve()}"
    return Inventory(
        host=socket.gethostname(),
        locality=f"process:{hashlib.sha256(identity.encode()).hexdigest()[:16]}",
        total=Resources(millicpus=_millicpus(), memory=_memory(), gpus=len(devices)),
        devices=devices,
    )


def find_devices(environ: Mapping[str, str]) -> tuple[Device, ...]:
    """The GPUs NVML knows, or the `MUSTER_FAKE_GPUS` a test asks for."""
    fake = environ.get("MUSTER_FAKE_GPUS")
    if fake is not None:
        return tuple(
            Device(uuid=f"{_FAKE}{index}", index=index, name="fake", memory=8 * 2**30)
            for index in range(int(fake or 0))
        )
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound:
        return ()
    except pynvml.NVMLError as error:
        log.warning("NVML is here but does not work, so no GPU is offered: %s", error)
        return ()
    try:
        return tuple(_device(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError as error:
        log.warning("NVML cannot list the GPUs, so none is offered: %s", error)
        return ()
    finally:
        pynvml.nvmlShutdown()


def visible(devices: Sequence[Device], restriction: str | None) -> tuple[Device, ...]:
    """Those the agent's own CUDA_VISIBLE_DEVICES leaves, read as CUDA does: by index or by (short) UUID."""
    if restriction is None:
        return tuple(devices)
    chosen: list[Device] = []
    for word in filter(None, (word.strip() for word in restriction.split(","))):
        match = [d for d in devices if (int(word) == d.index if word.isdigit() else d.uuid.startswith(word))]
        if len(match) != 1:
            break  # CUDA ignores an invalid one and all that follow
        if match[0] not in chosen:
            chosen.append(match[0])
    return tuple(chosen)


def cuda_name(device: Device) -> str:
    """How CUDA_VISIBLE_DEVICES names it: real ones by UUID, which no order of enumeration changes."""
    return str(device.index) if device.uuid.startswith(_FAKE) else device.uuid


def is_fake(device: Device) -> bool:
    return device.uuid.startswith(_FAKE)


def _device(pynvml: Any, index: int) -> Device:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    return Device(
        uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
        index=index,
        name=_text(pynvml.nvmlDeviceGetName(handle)),
        memory=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
    )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value  # bytes before nvidia-ml-py 12


def _host_id() -> str:
    with contextlib.suppress(OSError):
        if found := Path("/etc/machine-id").read_text("ascii").strip():
            return found
    return socket.gethostname()


def _millicpus() -> int:
    cores = float(len(os.sched_getaffinity(0)))
    quota = cgroup.cpu_limit()
    return int(min(cores, quota if quota is not None else cores) * 1000)


def _memory() -> int:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = cgroup.memory_limit()
    return min(total, limit) if limit is not None else total
