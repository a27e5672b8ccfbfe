"""How much the replicas use, all in one pass over /proc."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Sequence
from typing import Any

import psutil

from muster.engine.port import Device, Sample
from muster.engine.process.inventory import is_fake
from muster.engine.process.live import Live, find_processes
from muster.engine.process.proc import Owner, Process


class UsageMeter:
    """Remembers the pass before, to tell a rate."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._gpus = Gpus([device for device in devices if not is_fake(device)])
        self._before: dict[Owner, tuple[float, float]] = {}  #: when (monotonic), CPU seconds until then

    def measure(self, lives: Iterable[Live], *, at: float) -> list[Sample]:
        """One sample per replica."""
        lives = list(lives)
        if not lives:
            self._before.clear()
            return []
        processes = find_processes(lives)
        now = time.monotonic()
        received, sent = _network()
        samples: list[Sample] = []
        before, self._before = self._before, {}
        for live in lives:
            members = processes.get(live.owner, [])
            # The shim's own count includes what it has reaped, so the sum only grows.
            cpu = sum(process.cpu for process in members)
            then, cpu_then = before.get(live.owner, (live.since, 0.0))
            self._before[live.owner] = (now, cpu)
            gpu, gpu_memory = self._gpus.read(live.member.devices)
            disk_read, disk_write = _disk(members)
            samples.append(
                Sample(
                    key=live.owner.key,
                    rank=live.rank,
                    at=at,
                    cpu=max(cpu - cpu_then, 0.0) / max(now - then, 0.001),
                    memory=sum(process.memory for process in members),
                    gpu=gpu,
                    gpu_memory=gpu_memory,
                    disk_read=disk_read,
                    disk_write=disk_write,
                    net_received=received,
                    net_sent=sent,
                )
            )
        return samples


class Gpus:
    """Reads GPUs through NVML, which stays open between passes as opening it is slow."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._known = frozenset(device.uuid for device in devices)
        self._handles: dict[str, Any] = {}

    def read(self, uuids: Sequence[str]) -> tuple[float | None, int | None]:
        """Mean utilisation and memory in use of these; None where NVML cannot tell."""
        if not uuids or not self._known.issuperset(uuids):
            return None, None
        import pynvml

        try:
            if not self._handles:
                pynvml.nvmlInit()
                self._handles = {uuid: pynvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in self._known}
            handles = [self._handles[uuid] for uuid in uuids]
            busy = [pynvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100 for handle in handles]
            memory = [int(pynvml.nvmlDeviceGetMemoryInfo(handle).used) for handle in handles]
        except pynvml.NVMLError:
            self._handles = {}
            return None, None
        return sum(busy) / len(busy), sum(memory)


def _disk(processes: Iterable[Process]) -> tuple[int | None, int | None]:
    """Bytes read from and written to disk; a process's count includes the children it has reaped."""
    counts = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            counts.append(psutil.Process(process.pid).io_counters())
    if not counts:
        return None, None
    return sum(count.read_bytes for count in counts), sum(count.write_bytes for count in counts)


def _network() -> tuple[int, int]:
    """Bytes received and sent by the host since it started, over all but the loopback."""
    counts = [count for name, count in psutil.net_io_counters(pernic=True).items() if name != "lo"]
    return sum(count.bytes_recv for count in counts), sum(count.bytes_sent for count in counts)
