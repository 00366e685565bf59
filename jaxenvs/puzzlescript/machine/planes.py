"""Bit planes: one bit for each cell of a level, in uint32 arrays [..., lines, words].

Bit x % 32 of word x // 32 of line y is the cell in column x and line y. An operation on a word
thus handles 32 cells. Shifts fill with zeros.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from .sizes import WORD

Plane = UInt32[Array, "*batch side words"]
RIGHT, DOWN, LEFT, UP = range(4)
OPPOSITE = (LEFT, UP, RIGHT, DOWN)
ALL = np.uint32(0xFFFFFFFF)


def index(count: int) -> np.ndarray:
    """Return the int32 array 0, 1 ... count - 1."""
    return np.arange(count, dtype=np.int32)


def first(found: Bool[Array, "*batch n"]) -> Int32[Array, "*batch"]:
    """Return the index of the first true flag on the last axis; 0 if there is none."""
    return jax.lax.argmax(found, found.ndim - 1, np.int32)


def rank(found: Bool[Array, "*batch n"]) -> Int32[Array, "*batch n"]:
    """Return the number of true flags before each entry of the last axis."""
    return jnp.cumsum(found, axis=-1, dtype=jnp.int32) - found.astype(jnp.int32)


def moved(plane: Plane, direction: int, by: int = 1) -> Plane:
    """Return the plane with every bit moved by `by` cells; bits that leave the plane are lost."""
    if by == 0:
        return plane
    if direction in (DOWN, UP):
        return _shifted(plane, -2, by if direction == DOWN else -by)
    words, rest = divmod(by, WORD)
    if direction == RIGHT:
        plane = _shifted(plane, -1, words)
        return plane if not rest else plane << rest | _shifted(plane, -1, 1) >> WORD - rest
    plane = _shifted(plane, -1, -words)
    return plane if not rest else plane >> rest | _shifted(plane, -1, -1) << WORD - rest


def _shifted(plane: Plane, axis: int, by: int) -> Plane:
    """Shift the words of a plane along an axis, by whole words or lines, and fill with zeros."""
    size = plane.shape[axis]
    if by == 0:
        return plane
    if abs(by) >= size:
        return jnp.zeros_like(plane)
    pad = [(0, 0)] * plane.ndim
    pad[axis] = (by, 0) if by > 0 else (0, -by)
    index = [slice(None)] * plane.ndim
    index[axis] = slice(None, size - by) if by > 0 else slice(-by, None)
    return jnp.pad(plane[tuple(index)], pad)


def forth(plane: Plane, direction: Int32[Array, "*#batch"], by: int) -> Plane:
    """Move the bits of each plane by `by` cells; `direction` has the direction of each plane."""
    return _selected(plane, direction, by, (RIGHT, DOWN, LEFT, UP))


def back(plane: Plane, direction: Int32[Array, "*#batch"], by: int) -> Plane:
    """Move the bits of each plane by `by` cells against the plane's direction in `direction`."""
    return _selected(plane, direction, by, OPPOSITE)


def back_by(
    plane: UInt32[Array, "rows side words"],
    direction: Int32[Array, ""],
    by: Int32[Array, "rows gaps"],
    end: int,
) -> UInt32[Array, "rows gaps side words"]:
    """Return, for each row and gap, the row's plane moved by `by` cells against `direction`.

    A row is a pair of brackets of a rule. A gap says how many cells the row's ellipses skip. All
    entries of `by` are below `end`.
    """
    direction = jnp.broadcast_to(direction, (len(plane),))
    each = jnp.stack([back(plane, direction, number) for number in range(end)])
    return each[by, index(len(plane))[:, None]]


def _selected(plane: Plane, direction: Array, by: int, order: tuple[int, ...]) -> Plane:
    """Move the bits of each plane by `by` cells in the direction `order[direction]`."""
    if by == 0:
        return plane
    chosen = direction[..., None, None]
    result = moved(plane, order[3], by)
    for i in (2, 1, 0):
        result = jnp.where(chosen == i, moved(plane, order[i], by), result)
    return result


def union(plane: UInt32[Array, "..."], *axes: int) -> UInt32[Array, "..."]:
    """Return the union (bitwise or) of planes along `axes`; these axes are removed."""
    return jax.lax.reduce(plane, jnp.uint32(0), jax.lax.bitwise_or, axes)


def intersection(plane: UInt32[Array, "..."], axis: int) -> UInt32[Array, "..."]:
    """Return the intersection (bitwise and) of planes along `axis`; this axis is removed."""
    return jax.lax.reduce(plane, ALL, jax.lax.bitwise_and, (axis,))


def some(plane: Plane) -> Bool[Array, "*batch"]:
    """Return whether any bit of each plane is set."""
    return (plane != 0).any(axis=(-2, -1))


def flags(words: UInt32[Array, "*batch words"], count: int) -> Bool[Array, "*batch count"]:
    """Return the first `count` bits of the words as flags; the lowest bit of a word comes first."""
    places = index(count)
    found = jnp.take(words, places // WORD, axis=-1)
    return (found >> (places % WORD).astype(jnp.uint32) & 1).astype(jnp.bool_)


def cells(plane: Plane) -> Bool[Array, "*batch side side"]:
    """Return the bits of a plane as flags [..., line, column]."""
    return flags(plane, plane.shape[-2])


def lowest(words: UInt32[Array, "*batch words"]) -> Int32[Array, "*batch"]:
    """Return the index of the lowest set bit in an array of words; undefined if no bit is set."""
    number = first(words != 0)
    word = jnp.take_along_axis(words, number[..., None], -1)[..., 0]
    below = jax.lax.population_count((word & -word) - np.uint32(1)).astype(jnp.int32)
    return number * np.int32(WORD) + below


def column(x: Int32[Array, "*batch one"], words: int) -> UInt32[Array, "*batch words"]:
    """Return the words of a line in which only the bit of column `x` is set."""
    place = x - np.int32(WORD) * index(words)
    bit = jnp.uint32(1) << (place & WORD - 1).astype(jnp.uint32)
    return jnp.where((place >= 0) & (place < WORD), bit, jnp.uint32(0))


def columns_behind(x: Int32[Array, "*batch one"], words: int) -> UInt32[Array, "*batch words"]:
    """Return the words of a line in which the bits of all columns after column `x` are set."""
    place = (x + 1 - np.int32(WORD) * index(words)).clip(0, WORD)
    bits = ALL << (place & WORD - 1).astype(jnp.uint32)
    return jnp.where(place == WORD, jnp.uint32(0), bits)


def cell(x: Int32[Array, "*batch"], y: Int32[Array, "*batch"], side: int, words: int) -> Plane:
    """Return the plane in which only cell (x, y) is set; no cell if (x, y) is outside."""
    line = index(side)[:, None] == y[..., None, None]
    return jnp.where(line, column(x[..., None, None], words), jnp.uint32(0))


def level(width: Int32[Array, ""], height: Int32[Array, ""], side: int, words: int) -> Plane:
    """Return the plane in which all cells of a level with this width and height are set."""
    count = jnp.clip(width - np.int32(WORD) * index(words), 0, WORD)
    full = jnp.where(count == WORD, ALL, (jnp.uint32(1) << count.astype(jnp.uint32)) - 1)
    return jnp.where(index(side)[:, None] < height, full, jnp.uint32(0))
