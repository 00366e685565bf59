"""Choose between code for CPUs and code for accelerators; both give the same results."""

import functools
import importlib.util
from collections.abc import Callable
from typing import Any, TypeVar

import jax

T = TypeVar("T")


def by_platform(*args: Any, cpu: Callable[..., T], default: Callable[..., T]) -> T:
    """Return `cpu(*args)` if the compiled program runs on a CPU, else `default(*args)`.

    JAX traces both functions, because it learns the platform only after tracing. If JAX can use no
    platform but the CPU (see `is_cpu_alone`), only `cpu` is traced. This halves the tracing time of
    a batch of Craft environments, and of any batch that generates a level for every environment in
    each step.
    """
    if is_cpu_alone():
        return cpu(*args)
    return jax.lax.platform_dependent(*args, cpu=cpu, default=default)


def is_cpu_alone() -> bool:
    """Return whether JAX can only use CPUs: `JAX_PLATFORMS=cpu`, and no accelerator plugin.

    `JAX_PLATFORMS=cpu` alone is not enough: with an installed plugin, JAX can still compile ahead
    of time for an accelerator.
    """
    only_cpu = jax.config.jax_platforms == "cpu"  # type: ignore[attr-defined]  # an option of JAX
    return only_cpu and not _has_plugin()


def has_accelerator() -> bool:
    """Return whether JAX's default device is an accelerator.

    May initialise JAX's backend.
    """
    return _has_plugin() and jax.default_backend() != "cpu"


@functools.cache
def _has_plugin() -> bool:
    return any(importlib.util.find_spec(name) for name in ("jax_plugins", "libtpu"))
