"""Convert new arrays so that they can be the carry of a JAX loop.

The arrays get strong dtypes. Under `shard_map`, the arrays also get JAX's type "varying", for
arrays that may differ between devices.
"""

import functools
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .random import Key

T = TypeVar("T")


def as_carry(key: Key, tree: T) -> T:
    """Convert each leaf of `tree` to a strong dtype, and apply `varying_like` to it."""
    return jax.tree.map(lambda leaf: varying_like(key, _strong(leaf)), tree)


def varying_like(key: Key, leaf: Array) -> Array:
    """Return `leaf`; under `shard_map`, mark it as varying over the same mesh axes as `key`.

    JAX marks a constant, such as a `time` of 0 in a new state, as equal on all devices. A step
    makes `time` vary between devices, so a loop with the constant as its initial carry would fail.
    The function returns `leaf` in both branches of a `where` whose condition depends on the key.
    JAX therefore marks the result as varying, and the compiler removes the `where`.
    """
    return jnp.where(jax.random.key_data(key)[0] == 0, leaf, leaf)


def varying_with(inputs: Any, tree: T) -> T:
    """Return `tree`; under `shard_map`, mark its leaves as varying over the mesh axes of `inputs`.

    If any leaf of `inputs` varies over an axis of the device mesh, every leaf of the result does
    too. Each leaf of `inputs` must have elements and must not be a random key. See `varying_like`.
    """
    leaves = map(jnp.asarray, jax.tree.leaves(inputs))
    firsts = (leaf[(0,) * leaf.ndim].astype(jnp.bool_) for leaf in leaves)
    varies = functools.reduce(jnp.logical_or, firsts)
    return jax.tree.map(lambda leaf: jnp.where(varies, leaf, leaf), tree)


def _strong(leaf: Any) -> Array:
    """Return an array with a strong dtype; a weak one makes JAX compile a scan or jit twice."""
    array = jnp.asarray(leaf)
    return jax.lax.convert_element_type(array, array.dtype)
