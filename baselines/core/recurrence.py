"""Reset of the recurrent state at the ends of episodes."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree


def reset_memory(
    memory: PyTree[Array], first: PyTree[Array], done: Bool[Array, "*envs"]
) -> PyTree[Array]:
    """Return `memory`, reset to `first` where `done`, for one environment or a batch."""

    def forget(memory: Array, first: Array) -> Array:
        return jnp.where(done.reshape(*done.shape, *[1] * jnp.ndim(first)), first, memory)

    return jax.tree.map(forget, memory, first)
