"""Give new arrays the types that the carry of a loop needs: strong, and varying over devices."""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .random import Key

T = TypeVar("T")


def as_carry(key: Key, tree: T) -> T:
    """Return a pytree whose leaves are strongly typed and vary over devices as the key does."""
    return jax.tree.map(lambda leaf: varying_like(key, _strong(leaf)), tree)


def varying_like(key: Key, leaf: Array) -> Array:
    """Under `shard_map`, make a leaf vary over the devices over which the key varies.

    A constant of a new state, such as a `time` of 0, is the same on all devices. It cannot be the
    carry of a loop whose steps make it vary. A selection between two equal values marks it as
    varying, and the compiler removes the selection.
    """
    return jnp.where(jax.random.key_data(key)[0] == 0, leaf, leaf)


def _strong(leaf: Any) -> Array:
    """Drop a weak type, which would make JAX compile a scan or a jit a second time."""
    array = jnp.asarray(leaf)
    return jax.lax.convert_element_type(array, array.dtype)
