"""Perlin noise over a square map, one octave, stretched to [0, 1] as Craftax does.

A gradient's share is a product of a row and a column factor, so rows are interpolated first, on the
lattice's columns only: ten operations a cell, and no gradient is repeated over the map.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32


def noise(angles: Float32[Array, "rows columns"], size: int) -> Float32[Array, "size size"]:
    """Return noise from the lattice's gradients; an angle is a share of the full turn."""
    turns = angles * np.float32(2 * np.pi)
    row, fade, ramp = _along(angles.shape[0] - 1, size)
    lower, upper = jnp.cos(turns)[row], jnp.cos(turns)[row + 1]
    steep = lower * ((1 - fade) * ramp)[:, None] + upper * (fade * (ramp - 1))[:, None]
    lower, upper = jnp.sin(turns)[row], jnp.sin(turns)[row + 1]
    flat = lower * (1 - fade)[:, None] + upper * fade[:, None]
    column, fade, ramp = _along(angles.shape[1] - 1, size)
    left = (1 - fade) * (steep[:, column] + ramp * flat[:, column])
    right = fade * (steep[:, column + 1] + (ramp - 1) * flat[:, column + 1])
    raw = left + right
    low, high = raw.min(), raw.max()
    return (raw - low) / (high - low)


def _along(cells: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each place on an axis: the lattice cell, the quintic weight of its end, the way into it."""
    place = np.arange(size) * cells / size
    ramp = place % 1
    fade = ramp**3 * (ramp * (ramp * 6 - 15) + 10)
    return place.astype(np.int32), fade.astype(np.float32), ramp.astype(np.float32)
