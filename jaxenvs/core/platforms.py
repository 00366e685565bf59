"""Choose between code for CPUs and code for accelerators, with the same results."""

import functools
import importlib.util
from collections.abc import Callable
from typing import Any, TypeVar

import jax

T = TypeVar("T")


def by_platform(*args: Any, cpu: Callable[..., T], default: Callable[..., T]) -> T:
    """Apply `cpu` to the arguments if the program runs on a CPU, else `default`.

    JAX traces both, because it learns the platform after tracing. If only CPUs are available, only
    `cpu` is traced, which halves the tracing time of a batch of Craft, or of one with fresh levels.
    """
    if is_cpu_alone():
        return cpu(*args)
    return jax.lax.platform_dependent(*args, cpu=cpu, default=default)


def is_cpu_alone() -> bool:
    """Return whether JAX may only use CPUs (`JAX_PLATFORMS=cpu`) and no plugin is installed.

    With a plugin, JAX can compile ahead of time for an accelerator despite `JAX_PLATFORMS`.
    """
    only_cpu = jax.config.jax_platforms == "cpu"  # type: ignore[attr-defined]  # an option of JAX
    return only_cpu and not _has_plugin()


def has_accelerator() -> bool:
    """Return whether JAX computes on an accelerator by default; may start JAX's backend."""
    return _has_plugin() and jax.default_backend() != "cpu"


@functools.cache
def _has_plugin() -> bool:
    return any(importlib.util.find_spec(name) for name in ("jax_plugins", "libtpu"))
