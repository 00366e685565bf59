"""`settled` and `stored`: values computed once, where XLA would compute them repeatedly.

XLA fuses a chain of arithmetic into each of its consumers. A long chain with many results is then
computed, and compiled, once for every result: minutes of compilation and tens of times the work.
"""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from .platforms import by_platform

T = TypeVar("T")


def settled(tree: T) -> T:
    """Return the pytree of arrays unchanged; on a CPU, its consumers read the values from memory.

    On other platforms it does nothing, because there XLA computes many results in one kernel.
    """
    return by_platform(tree, cpu=_by_loop, default=_as_it_is)


def stored(tree: T) -> T:
    """Return the pytree of arrays unchanged; its consumers read the values from memory.

    The same as `settled` on a CPU. A GPU needs it where a larger array is made from a smaller one:
    XLA would fuse them, and each element would recompute everything that it depends on.
    """
    return by_platform(tree, cpu=_by_loop, default=jax.lax.optimization_barrier)


def _as_it_is(tree: Any) -> Any:
    return tree


def _by_loop(tree: Any) -> Any:
    """Pass the values through a loop of zero iterations; XLA cannot know that number.

    A plain `optimization_barrier` would not do: on a CPU, XLA removes it before fusion. The loop's
    body only swaps values of one type, which costs nothing.
    """
    trips = jax.lax.optimization_barrier(jnp.int32(0))
    leaves, structure = jax.tree.flatten(tree)
    by_type: dict[Any, list[int]] = {}
    for i, leaf in enumerate(leaves):
        by_type.setdefault((leaf.shape, leaf.dtype), []).append(i)
    for places in by_type.values():
        group = [leaves[i] for i in places]
        group.append(jnp.zeros_like(group[0]))  # so that each has a partner to swap with
        kept = jax.lax.fori_loop(0, trips, lambda _, x: [*x[1:], x[0]], group)
        for i, leaf in zip(places, kept, strict=False):
            leaves[i] = leaf
    return jax.tree.unflatten(structure, leaves)
