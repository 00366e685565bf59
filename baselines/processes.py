"""The processes of a run, on one host or many: how they join, agree and gather (jax.distributed).

A run of one process needs none of this: then `join` does nothing and the others cost nothing.
"""

import os
import socket
import time
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from .checkpoints import RunError

BY_ITSELF = "none"  # value of --coordinator for a process on SLURM that runs by itself


def join(coordinator: str | None, count: int | None, index: int | None, timeout: int) -> None:
    """Join the other processes of the run; call it before JAX is used.

    With a coordinator (`HOST:PORT`, where process 0 listens) `count` and `index` say how many
    processes there are and which one this is. Without one, the tasks of a SLURM step join by what
    SLURM tells. Raises `RunError` for flags that do not fit, and after `timeout` seconds.
    """
    if coordinator == BY_ITSELF or (coordinator is None and not _in_slurm_step()):
        if count is not None or index is not None:
            raise RunError("--processes and --process need --coordinator HOST:PORT")
        return
    if jax.distributed.is_initialized():
        return
    # The only collectives between processes that CPUs have; a GPU uses its own.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    if coordinator is None:
        jax.distributed.initialize(cluster_detection_method="slurm", initialization_timeout=timeout)
        return
    host, port = _checked(coordinator, count, index)
    if index:
        _await(host, port, timeout)
    try:
        jax.distributed.initialize(coordinator, count, index, initialization_timeout=timeout)
    except RuntimeError as error:
        raise RunError(
            f"--coordinator {coordinator}: the {count} processes did not meet there within "
            f"{timeout} s ({str(error).splitlines()[0]}); start all of them, or give "
            f"--join-timeout more seconds"
        ) from error


def first() -> bool:
    """Whether this process is the one that writes and speaks."""
    return jax.process_index() == 0


def agree(flag: bool) -> bool:
    """Whether the flag is set in any process."""
    if jax.process_count() == 1:
        return flag
    return bool(multihost_utils.process_allgather(np.array(flag)).any())


def gather(tree: Any) -> Any:
    """The arrays of all processes, whole, in the memory of each."""
    return tree if jax.process_count() == 1 else multihost_utils.process_allgather(tree, tiled=True)


def wait(what: str) -> None:
    """Go on when every process has come here."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(what)


def _in_slurm_step() -> bool:
    """Whether srun started this process as one of several."""
    tasks = os.environ.get("SLURM_STEP_NUM_TASKS", "1")
    return "SLURM_PROCID" in os.environ and tasks.isdecimal() and int(tasks) > 1


def _checked(coordinator: str, count: int | None, index: int | None) -> tuple[str, int]:
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdecimal():
        raise RunError(f"--coordinator {coordinator}: give HOST:PORT, such as 10.0.0.1:4321")
    if count is None or index is None:
        raise RunError("--coordinator needs --processes N and --process I, I from 0 to N - 1")
    if not 0 <= index < count:
        raise RunError(f"--process {index}: give a number from 0 to {count - 1} (--processes)")
    return host, int(port)


def _await(host: str, port: int, timeout: int) -> None:
    """Wait until somebody listens: JAX itself would end this process without a word of where."""
    end = time.monotonic() + timeout
    while True:
        try:
            socket.create_connection((host, port), timeout=1).close()
            return
        except OSError as error:
            if time.monotonic() > end:
                raise RunError(
                    f"--coordinator {host}:{port}: nobody answers there after {timeout} s "
                    f"({error}); start process 0 on that host with the same --coordinator, open "
                    f"the port, or give --join-timeout more seconds"
                ) from error
            time.sleep(0.2)
