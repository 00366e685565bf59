"""Memory of this machine and of a device, in bytes."""

import os
from typing import Any


def machine_memory() -> int | None:
    """Bytes of main memory; None where the operating system does not say."""
    if not hasattr(os, "sysconf"):
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def device_memory(device: Any) -> int | None:
    """Bytes that a program may use on a `jax.Device`, of a CPU the main memory; None if unknown."""
    if device.platform == "cpu":
        return machine_memory()
    return (device.memory_stats() or {}).get("bytes_limit")
