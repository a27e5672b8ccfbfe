"""All failure classes in the order in which they are tried: the more specific first, the first sign wins."""

from __future__ import annotations

from muster.domain.failures import cluster, distributed, machine, program
from muster.domain.failures.sign import FailureClass

CLASSES: tuple[FailureClass, ...] = (
    cluster.DELETED_OUTSIDE,
    cluster.DEADLINE,
    cluster.NODE_LOST,
    cluster.EVICTED,
    cluster.IMAGE_PULL,
    cluster.CANNOT_START,
    cluster.ADMISSION_REFUSED,
    machine.GPU_OUT_OF_MEMORY,
    machine.OUT_OF_MEMORY,
    cluster.INIT_FAILED,
    machine.SHARED_MEMORY,
    machine.DISK_FULL,
    distributed.PORT_IN_USE,
    distributed.RENDEZVOUS_TIMEOUT,
    distributed.NCCL,
    distributed.PEER_LOST,
    machine.NO_GPU,
    machine.CUDA_ERROR,
    program.SCRIPT_NOT_FOUND,
    program.MISSING_DEPENDENCY,
    program.MISSING_LIBRARY,
    program.COMMAND_NOT_FOUND,
    program.PERMISSION,
    program.KILLED,
    program.USER_EXCEPTION,
    program.ABORTED_AT_EXIT,
    program.CRASH,
    program.NONZERO_EXIT,
    program.UNKNOWN,
    program.ENVIRONMENT_FAILED,
    program.CHECKOUT_FAILED,
    program.COULD_NOT_START,
    program.LOST,
    program.PREEMPTED,
)
