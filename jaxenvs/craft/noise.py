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
    rows, columns = (count - 1 for count in angles.shape)
    fade, ramp = _along(size // rows)
    fade, ramp = fade[None, :, None], ramp[None, :, None]
    steep, flat = jnp.cos(turns)[:, None, :], jnp.sin(turns)[:, None, :]
    steep = steep[:-1] * ((1 - fade) * ramp) + steep[1:] * (fade * (ramp - 1))
    flat = flat[:-1] * (1 - fade) + flat[1:] * fade
    steep, flat = (x.reshape(size, columns + 1, 1) for x in (steep, flat))
    fade, ramp = _along(size // columns)
    left = (1 - fade) * (steep[:, :-1] + ramp * flat[:, :-1])
    right = fade * (steep[:, 1:] + (ramp - 1) * flat[:, 1:])
    raw = (left + right).reshape(size, size)
    low, high = raw.min(), raw.max()
    return (raw - low) / (high - low)


def _along(cells: int) -> tuple[np.ndarray, np.ndarray]:
    """For each place in a lattice cell: the quintic weight of its end, and the way into it."""
    ramp = np.arange(cells) / cells
    fade = ramp**3 * (ramp * (ramp * 6 - 15) + 10)
    return fade.astype(np.float32), ramp.astype(np.float32)
