"""`settled` and `stored` make XLA compute values once and store them in memory.

Without them, XLA copies a chain of arithmetic into every operation that uses a result of the chain.
A long chain with many results is then compiled and computed once for each result. Compilation can
then take minutes, and the program can do tens of times the work.
"""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from .platforms import by_platform

T = TypeVar("T")


def settled(tree: T) -> T:
    """Return the pytree of arrays unchanged, but on a CPU make XLA store the values in memory.

    Operations that use them then read the stored values instead of recomputing them. On other
    platforms this function does nothing, because there XLA computes many results in one kernel.
    """
    return by_platform(tree, cpu=_by_loop, default=_as_it_is)


def stored(tree: T) -> T:
    """Return the pytree of arrays unchanged, but make XLA store the values in memory.

    On a CPU this is `settled`. On a GPU, `stored` is useful for a small array from which a larger
    array is computed. Without it, XLA would fuse both computations, and the thread of each element
    of the larger array would recompute the entries of the small array that it needs.
    """
    return by_platform(tree, cpu=_by_loop, default=jax.lax.optimization_barrier)


def _as_it_is(tree: Any) -> Any:
    return tree


def _by_loop(tree: Any) -> Any:
    """Pass the values through a loop of zero iterations, which XLA cannot fuse across.

    The loop costs nothing, because its body never runs. XLA does not know that the number of
    iterations is zero, so it keeps the loop. On a CPU, a plain `optimization_barrier` would have no
    effect, because XLA removes it before fusion.
    """
    trips = jax.lax.optimization_barrier(jnp.int32(0))
    leaves, structure = jax.tree.flatten(tree)
    by_type: dict[Any, list[int]] = {}
    for i, leaf in enumerate(leaves):
        by_type.setdefault((leaf.shape, leaf.dtype), []).append(i)
    for places in by_type.values():
        group = [leaves[i] for i in places]
        # XLA would remove a loop whose body changes nothing, so the body rotates the group by one
        # position. The array of zeros is added, because a rotation of one array changes nothing.
        group.append(jnp.zeros_like(group[0]))
        kept = jax.lax.fori_loop(0, trips, lambda _, x: [*x[1:], x[0]], group)
        for i, leaf in zip(places, kept, strict=False):
            leaves[i] = leaf
    return jax.tree.unflatten(structure, leaves)
