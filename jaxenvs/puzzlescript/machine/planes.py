"""Bit planes: one bit for each cell of a level, in uint32 arrays [..., lines, words].

Bit x % 32 of word x // 32 of line y is the cell in column x and line y. An operation on a word
thus handles 32 cells. Shifts fill with zeros.
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from ...core.platforms import by_platform
from .sizes import WORD

Plane = UInt32[Array, "*batch side words"]
RIGHT, DOWN, LEFT, UP = range(4)
OPPOSITE = (LEFT, UP, RIGHT, DOWN)
ALL = np.uint32(0xFFFFFFFF)
NONE = np.int32(np.iinfo(np.int32).max)  # number of a place if there is none


def index(count: int) -> np.ndarray:
    """Return the int32 array 0, 1 ... count - 1."""
    return np.arange(count, dtype=np.int32)


def stacked(values: Sequence[Array]) -> Array:
    """Stack arrays without axes.

    On a GPU, XLA fuses the result with its users, which it does not for `jnp.stack`.
    """
    return by_platform(values, cpu=jnp.stack, default=_selected_from)


def _selected_from(values: Sequence[Array]) -> Array:
    place, found = index(len(values)), jnp.broadcast_to(values[0], len(values))
    for i, value in enumerate(values[1:], 1):
        found = jnp.where(place == i, value, found)
    return found


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


def steps(direction: Int32[Array, "*n"]) -> tuple[Int32[Array, "*n"], Int32[Array, "*n"]]:
    """Return the numbers of columns and of lines of one step in `direction`."""
    right, down, left, up = ((direction == d).astype(jnp.int32) for d in range(4))
    return right - left, down - up


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


def digits(
    found: UInt32[Array, "*batch n side words"],
) -> UInt32[Array, "*batch digits parts side words"]:
    """Return the number of planes that have each cell, in each part of at most `WORD` planes.

    There is one plane for each binary digit of the number; the lowest digit comes first. Without
    the parts, the program of a level with hundreds of planes would be long.
    """
    *batch, count, side, words = found.shape
    parts = -(-count // WORD)
    padded = jnp.pad(found, [*[(0, 0)] * len(batch), (0, parts * WORD - count), (0, 0), (0, 0)])
    padded = padded.reshape(*batch, parts, WORD, side, words)
    total, terms = [], [padded[..., i, :, :] for i in range(min(count, WORD))]
    while terms:
        carries = []
        while len(terms) > 1:
            one, other, third = *terms[:2], terms[2] if len(terms) > 2 else jnp.uint32(0)
            carries.append(one & other | (one ^ other) & third)
            terms = [*terms[3:], one ^ other ^ third]
        total.append(terms[0])
        terms = carries
    return jnp.stack(total, -4)


def some(plane: Plane) -> Bool[Array, "*batch"]:
    """Return whether any bit of each plane is set."""
    return (plane != 0).any(axis=(-2, -1))


def some_of(*parts: UInt32[Array, "..."]) -> list[Bool[Array, ""]]:
    """Return, for each of several arrays of equal shape, whether any of its bits is set."""
    return some_in(jnp.ndim(parts[0]), *parts)


def some_in(axes: int, *parts: UInt32[Array, "..."]) -> list[Bool[Array, "*batch"]]:
    """Return, for each of several arrays of equal shape, whether any bit on its last axes is set.

    A GPU computes this in one reduction.
    """
    found = (jnp.where(part != 0, np.uint32(1 << i), np.uint32(0)) for i, part in enumerate(parts))
    flags = union(
        functools.reduce(jnp.bitwise_or, found), *range(parts[0].ndim - axes, parts[0].ndim)
    )
    return [(flags >> i & 1) != 0 for i in range(len(parts))]


def flags(words: UInt32[Array, "*batch words"], count: int) -> Bool[Array, "*batch count"]:
    """Return the first `count` bits of the words as flags; the lowest bit of a word comes first."""
    bits = words[..., None] >> index(WORD).astype(np.uint32) & 1
    return bits.reshape(*words.shape[:-1], -1)[..., :count].astype(jnp.bool_)


def count(words: UInt32[Array, "*batch words"]) -> Int32[Array, "*batch"]:
    """Return the number of set bits of a mask of several words."""
    numbers = jax.lax.population_count(words).astype(jnp.int32)
    return functools.reduce(jnp.add, [numbers[..., i] for i in range(words.shape[-1])])


def ranks(words: UInt32[Array, "*batch words"], count: int) -> Int32[Array, "*batch count"]:
    """Return, for each of the first `count` bits of a mask, the number of set bits before it."""
    numbers = jax.lax.population_count(words).astype(jnp.int32)
    before = jnp.zeros_like(numbers)
    for i in range(words.shape[-1] - 1):
        before += jnp.where(index(words.shape[-1]) > i, numbers[..., i : i + 1], 0)
    below = (np.uint32(1) << index(WORD).astype(np.uint32)) - np.uint32(1)
    inside = jax.lax.population_count(words[..., None] & below).astype(jnp.int32)
    return (before[..., None] + inside).reshape(*words.shape[:-1], -1)[..., :count]


def cells(plane: Plane) -> Bool[Array, "*batch side side"]:
    """Return the bits of a plane as flags [..., line, column]."""
    return flags(plane, plane.shape[-2])


def lowest(words: UInt32[Array, "..."]) -> Int32[Array, "..."]:
    """Return the position of the lowest set bit of each word; 32 if a word has none."""
    return jax.lax.population_count((words & -words) - np.uint32(1)).astype(jnp.int32)


def numbers(plane: Plane, vertical: Bool[Array, ""]) -> Int32[Array, "*batch side words"]:
    """Return, for each word of a plane, the number of the first set cell; `NONE` if it has none.

    Cells are numbered from 0 line by line, or column by column if `vertical`.
    """
    side = plane.shape[-2]
    x, y = column_of(lowest(plane)), index(side)[:, None]
    outer, inner = jnp.where(vertical, x, y), jnp.where(vertical, y, x)
    return jnp.where(plane != 0, outer * np.int32(side) + inner, NONE)


def place(
    number: Int32[Array, "*batch"], vertical: Bool[Array, ""], side: int
) -> tuple[Int32[Array, "*batch"], Int32[Array, "*batch"]]:
    """Return the column and the line of a cell from its number, see `numbers`."""
    outer, inner = parts(number, side)
    return jnp.where(vertical, outer, inner), jnp.where(vertical, inner, outer)


def parts(
    number: Int32[Array, "*batch"], count: int
) -> tuple[Int32[Array, "*batch"], Int32[Array, "*batch"]]:
    """Return quotient and remainder of numbers that are at least 0 and a positive `count`."""
    if count == 1:
        return number, jnp.zeros_like(number)
    by = jnp.full_like(number, count)
    return jax.lax.div(number, by), jax.lax.rem(number, by)


def since(
    number: Int32[Array, "*batch"], vertical: Bool[Array, ""], gaps: int, side: int, words: int
) -> UInt32[Array, "*batch gaps side words"]:
    """Return, for each gap, the plane of the cells whose place has at least a number.

    A place is a cell and a gap. Its number is the cell's number (see `numbers`) times `gaps`, plus
    the gap.
    """
    cell, gap = parts(number[..., None, None, None], gaps)
    outer, inner = parts(cell, side)
    y = index(side)[:, None]
    is_next = (index(gaps)[:, None, None] < gap).astype(jnp.int32)  # a gap before `gap`: cell + 1
    by_column = outer + (y < inner + is_next).astype(jnp.int32)
    by_line = jnp.where(y == outer, inner + is_next, jnp.where(y < outer, np.int32(side), 0))
    return columns_behind(jnp.where(vertical, by_column, by_line) - 1, words)


def line(
    number: Int32[Array, "*batch"], vertical: Bool[Array, ""], side: int, words: int
) -> UInt32[Array, "*batch side words"]:
    """Return the plane of the cells of a line; if `vertical`, of a column."""
    number = number[..., None, None]
    lines = jnp.where(index(side)[:, None] == number, ALL, jnp.uint32(0))
    return jnp.where(vertical, column(number, words), lines)


def column_of(bit: Int32[Array, "*batch words"]) -> Int32[Array, "*batch words"]:
    """Return the number of the column of a bit of each word of a line."""
    return bit - np.int32(WORD) + _ends(bit.shape[-1])


def _ends(words: int) -> np.ndarray:
    """Return, for each word of a line, the number of columns in it and in the words before it.

    Multiples of `WORD` from 0 on would be a multiplied iota for XLA, which is a separate kernel on
    a GPU. From `WORD` on, they are a constant.
    """
    return (index(words) + np.int32(1)) * np.int32(WORD)


def column(x: Int32[Array, "*batch one"], words: int) -> UInt32[Array, "*batch words"]:
    """Return the words of a line in which only the bit of column `x` is set."""
    bit = jnp.uint32(1) << (x & WORD - 1).astype(jnp.uint32)
    return jnp.where(x >> WORD.bit_length() - 1 == index(words), bit, jnp.uint32(0))


def columns_behind(x: Int32[Array, "*batch one"], words: int) -> UInt32[Array, "*batch words"]:
    """Return the words of a line in which the bits of all columns after column `x` are set."""
    place = (x + np.int32(WORD + 1) - _ends(words)).clip(0, WORD)
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
