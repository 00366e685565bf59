"""Code of which one form suits CPUs and another accelerators; both give the same results."""

import functools
import importlib.util
from collections.abc import Callable
from typing import Any, TypeVar

import jax

T = TypeVar("T")


def by_platform(*args: Any, cpu: Callable[..., T], default: Callable[..., T]) -> T:
    """Apply `cpu` to the arguments where the program runs on a CPU, else `default`.

    JAX traces both, for it learns of the platform later. Where it can use CPUs alone only `cpu` is
    traced, which takes half as long for a batch of Craft or one whose levels are drawn anew.
    """
    if is_cpu_alone():
        return cpu(*args)
    return jax.lax.platform_dependent(*args, cpu=cpu, default=default)


def is_cpu_alone() -> bool:
    """Whether JAX was told to use CPUs alone (`JAX_PLATFORMS=cpu`) and cannot compile for others.

    With a plugin it can, ahead of time, whatever it was told.
    """
    told = jax.config.jax_platforms == "cpu"  # type: ignore[attr-defined]  # an option of JAX
    return told and not _has_plugin()


def has_accelerator() -> bool:
    """Whether JAX computes on something else than a CPU by default; starts JAX where it may."""
    return _has_plugin() and jax.default_backend() != "cpu"


@functools.cache
def _has_plugin() -> bool:
    return any(importlib.util.find_spec(name) for name in ("jax_plugins", "libtpu"))
