"""Failures of what the machine gives: memory, disk, GPUs."""

from __future__ import annotations

import re
import signal

from muster.domain.failures.sign import FailureClass, Sign, words

GPU_OUT_OF_MEMORY = FailureClass(
    kind="gpu_out_of_memory",
    title="Out of GPU memory",
    advice="Use a smaller batch, gradient accumulation, activation checkpointing or a lower precision; or "
    "take GPUs with more memory, or shard the model over more of them (--gpus).",
    signs=(
        Sign(
            words=words(
                r"out of memory\. Tried to allocate (?P<tried>[\d.]{1,12} [KMGT]iB).{0,200}?"
                r"total capacity of (?P<total>[\d.]{1,12} [KMGT]iB) of which (?P<free>[\d.]{1,12} [KMGT]iB)"
            ),
            says="ran out of GPU memory: it tried to allocate {tried} where {free} of {total} were free",
        ),
        Sign(
            words=words(r"out of memory\. Tried to allocate (?P<tried>[\d.]{1,12} [KMGT]iB)"),
            says="ran out of GPU memory: it tried to allocate {tried}",
        ),
        Sign(
            words=words(r"(?:CUDA|HIP) (?:error: )?out of memory|CUDA_ERROR_OUT_OF_MEMORY"),
            says="ran out of GPU memory",
        ),
    ),
)

OUT_OF_MEMORY = FailureClass(
    kind="out_of_memory",
    title="Out of memory",
    advice="Ask for more memory, such as --memory 16Gi, or use less: fewer DataLoader workers, smaller "
    "batches, data that is read in pieces. `muster run usage` has the use over time.",
    signs=(
        Sign(
            reason=re.compile(r"oom.{0,2}kill|out.of.memory|memory limit|over its memory", re.IGNORECASE),
            says="ran out of memory: it needed more than the run may use and was killed",
        ),
        Sign(
            words=words(r"^slurmstepd: error: Detected \d{1,9} oom.kill event"),
            says="ran out of memory: it needed more than the Slurm job may use and was killed",
        ),
        Sign(
            words=words(
                r"^(?:[\w.]{0,99}\.)?(?:_Array)?MemoryError\b|std::bad_alloc"
                r"|DefaultCPUAllocator: .{0,40}(?:can't allocate|not enough) memory"
            ),
            says="ran out of memory: an allocation was refused",
        ),
        Sign(
            words=words(r"DataLoader worker \(pid.{0,40}\) is killed by signal: Killed"),
            says="lost a DataLoader worker to SIGKILL, probably because memory ran out",
        ),
        Sign(
            signals={signal.SIGKILL},
            says="was killed with SIGKILL, probably because memory ran out: nobody had asked to stop it",
        ),
    ),
)

SHARED_MEMORY = FailureClass(
    kind="shared_memory",
    title="Out of shared memory",
    advice="Use fewer DataLoader workers, or give the run a larger /dev/shm: on one's own machine with "
    "`mount -o remount,size=16G /dev/shm`, in containers with training.shm.",
    signs=(
        Sign(
            words=words(
                r"killed by signal: Bus error|insufficient shared memory \(shm\)"
                r"|unable to \w{1,10} .{0,40}</torch_|/dev/shm/nccl-.{0,80}No space left"
                r"|creating shared memory segment /dev/shm/nccl-"
            ),
            says="ran out of shared memory (/dev/shm)",
        ),
        Sign(
            signals={signal.SIGBUS},
            says="died of a bus error (SIGBUS), mostly a sign that shared memory (/dev/shm) is full",
        ),
    ),
)

DISK_FULL = FailureClass(
    kind="disk_full",
    title="Disk full",
    advice="Free space where the run writes (checkpoints, caches, /tmp), keep fewer checkpoints, or write "
    "to a larger volume.",
    signs=(
        Sign(
            words=words(r"No space left on device(?:: '(?P<file>[^'\n]{1,300})')"),
            says="could not write {file}: no space is left on the device",
        ),
        Sign(words=words(r"No space left on device|ENOSPC"), says="found no space left on the disk"),
        Sign(words=words(r"Disk quota exceeded"), says="used up its disk quota"),
    ),
)

NO_GPU = FailureClass(
    kind="no_gpu",
    title="No usable GPU",
    advice="Ask for GPUs (--gpus 1) on a queue that has some, and use a PyTorch build with CUDA; or let "
    "the code use the CPU where torch.cuda.is_available() is false.",
    signs=(
        Sign(
            words=words(
                r"(?P<why>Found no NVIDIA driver|No CUDA GPUs are available"
                r"|Torch not compiled with CUDA enabled"
                r"|no CUDA-capable device is detected|CUDA error: invalid device ordinal)"
            ),
            says="wanted a GPU and has none it can use: {why}",
        ),
    ),
)

CUDA_ERROR = FailureClass(
    kind="cuda_error",
    title="CUDA error",
    advice="For a device-side assert: run with CUDA_LAUNCH_BLOCKING=1, mostly an index is out of range "
    "(labels, embeddings). For `no kernel image` or a driver that is too old: take a PyTorch build "
    "that fits the GPU and its driver. For others, see whether the same GPU fails again.",
    signs=(
        Sign(
            words=words(r"CUDA (?:driver )?error: (?P<why>[^\n]{1,120})"),
            says="had a CUDA error: {why}",
        ),
        Sign(
            words=words(r"(?:CUDA|NVIDIA) driver (?:version|on your system).{0,60}(?:insufficient|too old)"),
            says="cannot use the GPU: the driver is too old for this CUDA",
        ),
        Sign(
            words=words(r"(?P<why>CUDNN_STATUS_\w{1,40}|CUBLAS_STATUS_\w{1,40})"),
            says="had a CUDA library error: {why}",
        ),
    ),
)
