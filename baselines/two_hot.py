"""Numbers as distributions over a few whole numbers, learned by cross-entropy.

A number is squeezed first (Pohlen et al., 2018), so that a few atoms are enough for values of any
scale, and then divided between the two atoms beside it (Schrittwieser et al., 2020).
"""

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32

SLOPE = 1e-3  # least slope of the squeezing, so that it can be undone


def squeezed(x: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """About the square root of a number, with its sign."""
    return jnp.sign(x) * (jnp.sqrt(jnp.abs(x) + 1.0) - 1.0) + SLOPE * x


def stretched(y: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """The number that was squeezed.

    Written without differences of nearly equal numbers, which cost float32 three digits near 0.
    """
    y, sign = jnp.abs(y), jnp.sign(y)
    more = y + 1.0 + SLOPE
    root = 2.0 * more / (jnp.sqrt(1.0 + 4.0 * SLOPE * more) + 1.0)  # of the number, plus 1
    return sign * (root - 1.0) * (root + 1.0)


def two_hot(value: Float[Array, "*batch"], top: int) -> Float32[Array, "*batch atoms"]:
    """Shares of the atoms from `-top` to `top`, whose mean is the squeezed value, clipped."""
    place = jnp.clip(squeezed(value.astype(jnp.float32)), -top, top)[..., None]
    atoms = np.arange(-top, top + 1, dtype=np.float32)
    return jnp.maximum(1.0 - jnp.abs(place - atoms), 0.0)


def mean(logits: Float[Array, "*batch atoms"]) -> Float32[Array, "*batch"]:
    """The number that a distribution over atoms stands for."""
    top = logits.shape[-1] // 2
    atoms = np.arange(-top, top + 1, dtype=np.float32)
    return stretched((jax.nn.softmax(logits.astype(jnp.float32)) * atoms).sum(axis=-1))


def cross_entropy(
    logits: Float[Array, "*batch atoms"], value: Float[Array, "*batch"]
) -> Float32[Array, "*batch"]:
    """Of distributions with those of the true numbers."""
    chex.assert_shape(value, logits.shape[:-1], custom_message="a number for each distribution")
    shares = two_hot(value, logits.shape[-1] // 2)
    return -(shares * jax.nn.log_softmax(logits.astype(jnp.float32))).sum(axis=-1)
