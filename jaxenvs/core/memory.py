"""Memory sizes of this machine and its devices, in bytes."""

import os
from typing import Any


def machine_memory() -> int | None:
    """Return the size of this machine's main memory in bytes.

    None if the operating system does not report it.
    """
    if not hasattr(os, "sysconf"):
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def device_memory(device: Any) -> int | None:
    """Return the number of bytes that JAX may use on a `jax.Device`; None if unknown.

    For a CPU, the result is the size of the main memory.
    """
    if device.platform == "cpu":
        return machine_memory()
    return (device.memory_stats() or {}).get("bytes_limit")
