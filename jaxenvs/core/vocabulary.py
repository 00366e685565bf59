"""Observations of small integers as categories, which a model can predict by classification.

A `Vocabulary` gives the number of categories of each part of an observation, and converts
observations to categories and back.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt8

from .spaces import Box, Space

# Highest value of a pixel. If the space of an observation includes this value, the observation
# counts as a picture and not as a map of categories.
PICTURE = 255


class Vocabulary(NamedTuple):
    """Conversion of an observation of small integers to categories: a map and a vector.

    Each cell of the map has one category per channel, such as the kind and the colour of an object.
    The vector has the categories that belong to no cell, such as the agent's direction.
    """

    map: tuple[int, int]  # number of rows and columns of the map
    cells: tuple[int, ...]  # number of categories in each channel of a cell
    rest: tuple[int, ...]  # number of categories of each entry of the vector
    # Traceable function that converts one observation to categories, counted from 0: the map, int32
    # (rows, columns, channels), and the vector, int32 (entries,).
    read: Callable[[Any], tuple[Array, Array]]
    write: Callable[[Array, Array], Any]  # inverse of `read`: (map, vector) -> observation


def of_map(space: Space) -> Vocabulary | None:
    """Return the vocabulary of observations that are maps of small non-negative integers.

    None if `space` is not two- or three-dimensional, or contains floats, negative integers or the
    integer `PICTURE`.
    """
    if not isinstance(space, Box) or len(space.shape) not in (2, 3):
        return None
    if not np.issubdtype(space.dtype, np.integer) or space.low.min() < 0:
        return None
    rows, columns, *channels = space.shape
    tops = space.high.reshape(rows * columns, -1).max(axis=0)
    if tops.max() >= PICTURE:
        return None

    def read(obs: Array) -> tuple[Array, Array]:
        cells = obs.reshape(rows, columns, -1).astype(jnp.int32)
        return cells, jnp.zeros(0, jnp.int32)

    def write(cells: Array, rest: Array) -> Array:
        return cells.reshape(rows, columns, *channels).astype(space.dtype)

    return Vocabulary((rows, columns), tuple((tops.astype(int) + 1).tolist()), (), read, write)


def of_bytes(map: tuple[int, int], cells: tuple[int, ...], rest: tuple[int, ...]) -> Vocabulary:
    """Return the vocabulary of observations that are byte vectors.

    The vector begins with one map per channel, stored row by row; `rest` describes the bytes after
    the maps. `map` and `cells` are fields of `Vocabulary`.
    """
    return Vocabulary(map, cells, rest, functools.partial(_read, map, cells, rest), _write)


def _read(
    map: tuple[int, int], cells: tuple[int, ...], rest: tuple[int, ...], obs: UInt8[Array, " bytes"]
) -> tuple[Int32[Array, "rows columns channels"], Int32[Array, " numbers"]]:
    """Convert an observation that is a byte vector to categories: the map and the vector.

    The arguments `map`, `cells` and `rest` are fields of `Vocabulary`. Each entry has categories
    from 0 to a maximum; a byte above this maximum becomes the maximum.
    """
    numbers, size = obs.astype(jnp.int32), map[0] * map[1] * len(cells)
    planes = jnp.moveaxis(numbers[:size].reshape(len(cells), *map), 0, -1)
    last_cells, last_rest = (np.array(sizes, np.int32) - 1 for sizes in (cells, rest))
    return jnp.minimum(planes, last_cells), jnp.minimum(numbers[size:], last_rest)


def _write(
    cells: Int32[Array, "rows columns channels"], rest: Int32[Array, " numbers"]
) -> UInt8[Array, " bytes"]:
    planes = jnp.moveaxis(cells, -1, 0).reshape(-1)
    return jnp.concatenate([planes, rest]).astype(jnp.uint8)
