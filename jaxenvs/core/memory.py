"""Memory of this machine and of a device, in bytes."""

import os

import jax


def machine_memory() -> int | None:
    """Bytes of main memory; None where the operating system does not say."""
    if not hasattr(os, "sysconf"):
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def device_memory(device: jax.Device) -> int | None:
    """Bytes that a program may use on a device, of a CPU the main memory; None if unknown."""
    if device.platform == "cpu":
        return machine_memory()
    return (device.memory_stats() or {}).get("bytes_limit")
