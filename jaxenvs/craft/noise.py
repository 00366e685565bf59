"""Perlin noise over a square map, one octave, stretched to [0, 1] as Craftax does."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32


def noises(
    lattices: Sequence[Float32[Array, "_ _"]], size: int
) -> Float32[Array, "noises size size"]:
    """Return the noise of each lattice of gradients; an angle is a share of the full turn.

    All are one array from the angles on, so that a GPU needs few kernels.
    """
    turns = jnp.concatenate([x.reshape(-1) for x in lattices]) * np.float32(2 * np.pi)
    ends = np.cumsum([x.size for x in lattices])[:-1]
    steep, flat = (jnp.split(x, ends) for x in (jnp.cos(turns), jnp.sin(turns)))
    raw = jnp.stack(
        [
            _raw(s.reshape(x.shape), f.reshape(x.shape), size).reshape(-1)
            for x, s, f in zip(lattices, steep, flat, strict=True)
        ]
    )
    low, high = raw.min(axis=1, keepdims=True), raw.max(axis=1, keepdims=True)
    return ((raw - low) / (high - low)).reshape(-1, size, size)


def _raw(
    steep: Float32[Array, "rows columns"], flat: Float32[Array, "rows columns"], size: int
) -> Float32[Array, "size size"]:
    """Noise from the gradients' rows and columns, before it is stretched."""
    rows, columns = (count - 1 for count in steep.shape)
    fade_down, down = (x[None, :, None, None] for x in _along(size // rows))
    fade_right, right = (x[None, None, None, :] for x in _along(size // columns))

    def corner(row: int, column: int) -> Any:
        s, f = (x[row : rows + row, None, column : columns + column, None] for x in (steep, flat))
        return (down - np.float32(row)) * s + (right - np.float32(column)) * f

    left: Any = corner(0, 0) * (1 - fade_down) + fade_down * corner(1, 0)
    far: Any = corner(0, 1) * (1 - fade_down) + fade_down * corner(1, 1)
    return ((1 - fade_right) * left + fade_right * far).reshape(size, size)


def _along(cells: int) -> tuple[np.ndarray, np.ndarray]:
    """For each place in a lattice cell: the quintic weight of its end, and the way into it."""
    ramp = np.arange(cells) / cells
    fade = ramp**3 * (ramp * (ramp * 6 - 15) + 10)
    return fade.astype(np.float32), ramp.astype(np.float32)
