"""Perlin noise over a square map, one octave, stretched to [0, 1] as Craftax does.

The last bits depend on the device: GPUs approximate cosines and divisions, and CPUs fuse products
and sums. Of a million cells made of noise, one or two are so near to a threshold that two devices
give them different blocks; a ladder or diamond may then move too. From equal levels, steps agree
bit for bit in integers and in the float state, except where a mob's chance lies within rounding.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32


def noises(
    lattices: Sequence[Float32[Array, "_ _"]], size: int
) -> Float32[Array, "noises size size"]:
    """Return the noise of each lattice of gradients; an angle is a share of the full turn.

    All are one array from the angles on, so that a GPU needs few kernels.
    """
    shapes = [x.shape for x in lattices]
    steep, flat = (_split(x, shapes) for x in _gradients(lattices))
    raw = jnp.stack([_raw(*pair, size).reshape(-1) for pair in zip(steep, flat, strict=True)])
    low, high = raw.min(axis=1, keepdims=True), raw.max(axis=1, keepdims=True)
    return ((raw - low) / (high - low)).reshape(-1, size, size)


def each(
    lattices: Sequence[Float32[Array, "_ _"]], size: int, turned: int
) -> tuple[Float32[Array, "size size"], ...]:
    """Return the noises one by one, then that of the lattice `turned` transposed: for GPUs.

    Lattices of one shape are made together, in that shape. A thread makes four neighbours and loads
    the gradients that they share once; with other lattices in one array it would not.
    """
    # The transposed noise is made anew: a GPU transposes all that is fused with a transposition.
    every = [*lattices, lattices[turned].T]
    kinds = [(x.shape, i == len(lattices)) for i, x in enumerate(every)]
    groups = {kind: [i for i, other in enumerate(kinds) if other == kind] for kind in kinds}
    order = [i for group in groups.values() for i in group]
    # Barriers: or each cell would compute its gradients, and all that read noise would make it.
    gradients = jax.lax.optimization_barrier(_gradients([every[i] for i in order]))
    shapes = [(len(group), *shape) for (shape, _), group in groups.items()]
    raw = [
        jax.vmap(functools.partial(_raw, size=size, turned=is_turned))(steep, flat)
        for (_, is_turned), *(steep, flat) in zip(
            groups, *(_split(x, shapes) for x in gradients), strict=True
        )
    ]
    raw = jax.lax.optimization_barrier(raw)
    # Joined into one array, both ends would be reduced by a kernel that diverges.
    ends = [(x.min(axis=(1, 2)), x.max(axis=(1, 2))) for x in raw[: len(groups) - 1]]
    ends = jax.lax.optimization_barrier([(low, high - low) for low, high in ends])
    low, span = ([x for pair in ends for x in pair[end]] for end in (0, 1))
    cells = dict(zip(order, (x for group in raw for x in group), strict=True))
    places = [(i, order.index(i)) for i in range(len(lattices))]
    places.append((len(lattices), order.index(turned)))
    return tuple((cells[i] - low[k]) / span[k] for i, k in places)


def _gradients(lattices: Sequence[Float32[Array, "_ _"]]) -> tuple[Array, Array]:
    """Rows and columns of the gradients of all lattices, one after another."""
    turns = jnp.concatenate([x.reshape(-1) for x in lattices]) * np.float32(2 * np.pi)
    return jnp.cos(turns), jnp.sin(turns)


def _split(x: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """Arrays of these shapes that lie one after another."""
    parts = jnp.split(x, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _raw(
    steep: Float32[Array, "_ _"], flat: Float32[Array, "_ _"], size: int, turned: bool = False
) -> Float32[Array, "size size"]:
    """Noise from the gradients' rows and columns, before it is stretched.

    If `turned` it is transposed, as the gradients already are.
    """
    way = -1 if turned else 1
    rows, columns = (count - 1 for count in steep.shape[::way])
    first, second = (np.s_[None, :, None, None], np.s_[None, None, None, :])[::way]
    fade_down, down = (x[first] for x in _along(size // rows))
    fade_right, right = (x[second] for x in _along(size // columns))

    def corner(row: int, column: int) -> Any:
        one, two = (slice(row, rows + row), slice(column, columns + column))[::way]
        s, f = (x[one, None, two, None] for x in (steep, flat))
        return (down - np.float32(row)) * s + (right - np.float32(column)) * f

    left: Any = corner(0, 0) * (1 - fade_down) + fade_down * corner(1, 0)
    far: Any = corner(0, 1) * (1 - fade_down) + fade_down * corner(1, 1)
    return ((1 - fade_right) * left + fade_right * far).reshape(size, size)


def _along(cells: int) -> tuple[np.ndarray, np.ndarray]:
    """For each place in a lattice cell: the quintic weight of its end, and the way into it."""
    ramp = np.arange(cells) / cells
    fade = ramp**3 * (ramp * (ramp * 6 - 15) + 10)
    return fade.astype(np.float32), ramp.astype(np.float32)
