"""Code of which one form suits CPUs and another accelerators; both give the same results."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax

T = TypeVar("T")


def by_platform(*args: Any, cpu: Callable[..., T], default: Callable[..., T]) -> T:
    """Apply `cpu` to the arguments where the program runs on a CPU, else `default`.

    JAX traces both, for it learns of the platform later. Where it may use CPUs alone only `cpu` is
    traced, which takes half as long for a batch of Craft or one whose levels are drawn anew.
    """
    if is_cpu_alone():
        return cpu(*args)
    return jax.lax.platform_dependent(*args, cpu=cpu, default=default)


def is_cpu_alone() -> bool:
    """Whether JAX was told to use CPUs alone (`JAX_PLATFORMS=cpu`)."""
    return jax.config.jax_platforms == "cpu"  # type: ignore[attr-defined]  # an option of JAX
