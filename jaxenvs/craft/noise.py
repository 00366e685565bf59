"""Perlin noise over a square map: one octave, stretched to [0, 1] as in Craftax.

The last bits of the noise depend on the device: GPUs approximate cosines and divisions, and CPUs
fuse products and sums. In one or two of a million cells, the noise is so close to a threshold that
two devices generate different blocks. The different block can also move a ladder or diamond to
another cell. If two devices start from equal levels, the integers and floats of their states stay
bit-identical in every step. There is one exception: a random draw may be so close to the
probability of a new mob that rounding decides whether the mob appears.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32

from .compiler.barriers import materialised


def noises(
    lattices: Sequence[Float32[Array, "_ _"]], size: int
) -> Float32[Array, "noises size size"]:
    """Return one noise map for each lattice of gradient angles.

    Angles are in turns (full circles). Gradients, minima and maxima are computed for all lattices
    at once, so that XLA makes few kernels.
    """
    shapes = [x.shape for x in lattices]
    steep, flat = (_split(x, shapes) for x in _gradients(lattices))
    raw = jnp.stack([_raw(*pair, size).reshape(-1) for pair in zip(steep, flat, strict=True)])
    low, high = raw.min(axis=1, keepdims=True), raw.max(axis=1, keepdims=True)
    return ((raw - low) / (high - low)).reshape(-1, size, size)


def each(
    lattices: Sequence[Float32[Array, "_ _"]], size: int, turned: int
) -> tuple[Float32[Array, "size size"], ...]:
    """Do the work of `noises` on a GPU.

    Return the noise map of each lattice, then the transposed noise map of `lattices[turned]`.
    Lattices of equal shape are processed together, so that a GPU thread computes four neighbouring
    cells and loads their common gradients once.
    """
    # Transpose the lattice, not the noise computed from it. XLA on a GPU would fuse a transposition
    # of the noise with other operations, and would then transpose the arrays of these operations.
    every = [*lattices, lattices[turned].T]
    kinds = [(x.shape, i == len(lattices)) for i, x in enumerate(every)]
    groups = {kind: [i for i, other in enumerate(kinds) if other == kind] for kind in kinds}
    order = [i for group in groups.values() for i in group]
    # Without this barrier, the thread of each cell would compute its gradients from angles.
    # Without the two barriers below, each consumer of the noise would compute the noise again.
    gradients = materialised(_gradients([every[i] for i in order]))
    shapes = [(len(group), *shape) for (shape, _), group in groups.items()]
    raw = [
        jax.vmap(functools.partial(_raw, size=size, turned=is_turned))(steep, flat)
        for (_, is_turned), *(steep, flat) in zip(
            groups, *(_split(x, shapes) for x in gradients), strict=True
        )
    ]
    raw = materialised(raw)
    # Compute minima and maxima separately for each group of lattices with equal shape. For one
    # array of all lattices, XLA would make one kernel whose threads diverge.
    ends = [(x.min(axis=(1, 2)), x.max(axis=(1, 2))) for x in raw[: len(groups) - 1]]
    ends = materialised([(low, high - low) for low, high in ends])
    low, span = ([x for pair in ends for x in pair[end]] for end in (0, 1))
    cells = dict(zip(order, (x for group in raw for x in group), strict=True))
    places = [(i, order.index(i)) for i in range(len(lattices))]
    places.append((len(lattices), order.index(turned)))
    return tuple((cells[i] - low[k]) / span[k] for i, k in places)


def _gradients(lattices: Sequence[Float32[Array, "_ _"]]) -> tuple[Array, Array]:
    """Return the row components and the column components of all lattices' gradients.

    Each of the two results is a flat array in which one lattice follows another.
    """
    turns = jnp.concatenate([x.reshape(-1) for x in lattices]) * np.float32(2 * np.pi)
    return jnp.cos(turns), jnp.sin(turns)


def _split(x: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """Split a flat array into consecutive arrays of the given shapes."""
    parts = jnp.split(x, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _raw(
    steep: Float32[Array, "_ _"], flat: Float32[Array, "_ _"], size: int, turned: bool = False
) -> Float32[Array, "size size"]:
    """Return the noise of one lattice before it is stretched to [0, 1].

    `steep` and `flat` are the row and column components of the lattice's gradients. If `turned` is
    True, the caller passes both components transposed, and the result is the transposed noise.
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
    """Return two arrays with one value for each map cell along a side of a lattice cell.

    The first array has the weight of the side's far end in the interpolation (Perlin's quintic
    curve), the second the distance from the near end, as a fraction of the side.
    """
    ramp = np.arange(cells) / cells
    fade = ramp**3 * (ramp * (ramp * 6 - 15) + 10)
    return fade.astype(np.float32), ramp.astype(np.float32)
