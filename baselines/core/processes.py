"""Functions for a run of several processes, on one host or many, with `jax.distributed`.

With these functions, processes join a run, agree on flags, and wait for each other. In a run of a
single process, all of them return at once.
"""

import os
import socket
import time
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

BY_ITSELF = "none"  # value of --coordinator that makes each task of a SLURM step a separate run


def join(coordinator: str | None, count: int | None, index: int | None, timeout: int) -> None:
    """Join the other processes of the run. Call this function before any other use of JAX.

    `coordinator` is `HOST:PORT`, where process 0 listens; `count` is the number of processes, and
    `index` is the index of this process. Without a coordinator, the tasks of a SLURM step find each
    other by SLURM's environment variables. Raises `ValueError` for inconsistent flags, or if
    processes are still missing after `timeout` seconds.
    """
    if coordinator == BY_ITSELF or (coordinator is None and not _in_slurm_step()):
        if count is not None or index is not None:
            raise ValueError("--processes and --process need --coordinator HOST:PORT")
        return
    if jax.distributed.is_initialized():
        return
    # On CPUs, collectives between processes need Gloo. GPUs ignore this option and use NCCL.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    if coordinator is None:
        jax.distributed.initialize(cluster_detection_method="slurm", initialization_timeout=timeout)
        return
    host, port = _checked(coordinator, count, index)
    try:
        _meet(host, port, count or 1, index or 0, timeout)
    except OSError as error:
        raise ValueError(
            f"--coordinator {coordinator}: {error}; start all {count} processes with the same "
            f"--coordinator, process 0 on {host}, open the port, or give a longer --join-timeout"
        ) from error
    jax.distributed.initialize(coordinator, count, index, initialization_timeout=timeout)


def first() -> bool:
    """Return whether this is process 0, the only one that writes files and prints."""
    return jax.process_index() == 0


def agree(*flags: bool) -> tuple[bool, ...]:
    """Return, for each flag, whether it is set in at least one process."""
    if jax.process_count() == 1:
        return flags
    everywhere = multihost_utils.process_allgather(np.array(flags))
    anywhere: Any = np.atleast_2d(everywhere).any(axis=0)
    return tuple(anywhere.tolist())


def wait(what: str) -> None:
    """Wait until every process has called this function; `what` names the point in the program."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(what)


def _in_slurm_step() -> bool:
    """Return whether srun started this process as one of several."""
    tasks = os.environ.get("SLURM_STEP_NUM_TASKS", "1")
    return "SLURM_PROCID" in os.environ and tasks.isdecimal() and int(tasks) > 1


def _checked(coordinator: str, count: int | None, index: int | None) -> tuple[str, int]:
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"--coordinator {coordinator}: give HOST:PORT, such as 10.0.0.1:4321")
    if count is None or index is None:
        raise ValueError("--coordinator needs --processes N and --process I, I from 0 to N - 1")
    if not 0 <= index < count:
        raise ValueError(f"--process {index}: give a number from 0 to {count - 1} (--processes)")
    return host, int(port)


def _meet(host: str, port: int, count: int, index: int, timeout: int) -> None:
    """Wait until all processes of the run have connected to process 0.

    Process 0 listens at the port until each other process has sent its index; then JAX uses the
    port. Raises `OSError` after `timeout` seconds. In process 0, the error names the missing
    processes, which JAX's own timeout error does not.
    """
    end = time.monotonic() + timeout
    if index:
        with reached(host, port, end) as line:
            line.sendall(index.to_bytes(4, "big"))
            line.settimeout(max(end - time.monotonic(), 0.1))
            if not line.recv(1):
                raise OSError("process 0 stopped waiting")
        return
    lines: dict[int, socket.socket] = {}
    with socket.create_server(("", port)) as server:
        while missing := sorted(set(range(1, count)) - set(lines)):
            server.settimeout(max(end - time.monotonic(), 0.01))
            try:
                line, _ = server.accept()
            except TimeoutError:
                names = ", ".join(map(str, missing))
                raise OSError(f"no connection from process {names} after {timeout} s") from None
            line.settimeout(5.0)
            lines[int.from_bytes(line.recv(4), "big")] = line
        for line in lines.values():
            line.sendall(b"!")
            line.recv(1)  # returns once the peer has closed the connection
    for line in lines.values():
        line.close()


def reached(host: str, port: int, end: float) -> socket.socket:
    """Connect to `host:port` as soon as a process listens there.

    Raises `OSError` if no process listens before `end`, a time on the clock `time.monotonic()`.
    """
    while True:
        try:
            return socket.create_connection((host, port), timeout=1)
        except OSError as error:
            if time.monotonic() > end:
                raise OSError(f"no process answers ({error})") from error
            time.sleep(0.2)
