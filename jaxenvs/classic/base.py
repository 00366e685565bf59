"""What the problems of classic control share: how they begin, and angles."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32

from ..core.random import Key, words

Number = Float[Any, "..."] | float  # of params
TURN = np.float32(2 * np.pi)


def uniform(key: Key, *most: float) -> Float32[Array, " numbers"]:
    """Draw a number for each of `most`, uniform and at most that far from zero."""
    signed = (words(key, len(most)) >> np.uint32(8)).astype(jnp.int32) - np.int32(2**23)
    return signed.astype(jnp.float32) * np.float32(np.array(most) / 2**23)


def wrapped(angle: Float32[Array, ""]) -> Float32[Array, ""]:
    """The same angle from -pi to pi; one that is there already keeps its bits."""
    return angle - TURN * jnp.round(angle / TURN)
