"""Reset of a network's recurrent state where an episode ends."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree


def reset_memory(
    memory: PyTree[Array], first: PyTree[Array], done: Bool[Array, "*envs"]
) -> PyTree[Array]:
    """Return the recurrent state `memory`, with `first`, the initial one, wherever `done` is True.

    `memory` and `done` belong to one environment, or have a first axis of environments.
    """

    def forget(memory: Array, first: Array) -> Array:
        return jnp.where(done.reshape(*done.shape, *[1] * jnp.ndim(first)), first, memory)

    return jax.tree.map(forget, memory, first)
