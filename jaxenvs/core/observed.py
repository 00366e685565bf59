"""Pictures of observations, for environments without tiles.

A matrix is drawn with one cell per entry, and an image is drawn unchanged. If a matrix has integers
with few possible values, each value has its own colour. Entries of other matrices are drawn in
shades of grey.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Num, PyTree, UInt8

from .looks import COLOURS, FLOOR
from .spaces import Box, Dict, Space

Pixels = UInt8[Array, "height width 3"]
# RGB colours of the categories 0, 1, 2 and so on. Category 0 has the colour of a floor. Black is
# left out, because it looks similar to this colour.
CATEGORIES = np.array([FLOOR, *(c for name, c in COLOURS.items() if name != "black")], np.uint8)
# Maximum number of tiles along the longer side of the picture: MOST_CELLS for a matrix observation,
# MOST_BLOCKS for an image observation.
MOST_CELLS, MOST_BLOCKS = 32, 16


class Canvas(NamedTuple):
    """Size of the picture of an observation, and the function that paints it."""

    shape: tuple[int, int]  # number of rows and columns of the picture, in tiles
    paint: Callable[[PyTree[Array], int], Pixels]  # (observation, tile size in pixels) -> picture


@functools.lru_cache(maxsize=64)
def canvas(space: Space) -> Canvas | None:
    """Return the `Canvas` for observations in `space`, or None if they cannot be drawn.

    Matrices, and images of 3 or 4 channels, can be drawn. For a Dict space, the picture shows the
    first entry that can be drawn.
    """
    if isinstance(space, Dict):
        found = ((name, canvas(part)) for name, part in space.spaces.items())
        return next((_part(name, inner) for name, inner in found if inner), None)
    if not isinstance(space, Box) or not space.low.size:
        return None
    is_image = len(space.shape) == 3 and space.shape[-1] in (3, 4)
    if not is_image and len(space.shape) != 2 and space.shape[2:] != (1,):
        return None
    height, width = space.shape[:2]
    side = -(-max(height, width) // (MOST_BLOCKS if is_image else MOST_CELLS))
    shape = -(-height // side), -(-width // side)
    colours = _rgb if is_image else _shades if _is_numeric(space) else _categories

    def paint(obs: PyTree[Array], tile_size: int) -> Pixels:
        return _stretched(colours(jnp.asarray(obs), space), *(n * tile_size for n in shape))

    return Canvas(shape, paint)


def _part(name: str, inner: Canvas) -> Canvas:
    return inner._replace(paint=lambda obs, tile_size: inner.paint(obs[name], tile_size))


def _is_numeric(space: Box) -> bool:
    """Return whether a matrix observation holds quantities, which are drawn in shades of grey.

    The result is True for floats, and for integers with more possible values than `CATEGORIES` has
    colours. Other integers are categories: each value has a different colour.
    """
    is_float = np.issubdtype(space.dtype, np.floating)
    return is_float or int(space.high.max()) - int(space.low.min()) >= len(CATEGORIES)


def _rgb(obs: Num[Array, "height width channels"], space: Box) -> Pixels:
    return _bytes(obs[..., :3], space)


def _shades(obs: Num[Array, "height width *one"], space: Box) -> Pixels:
    return jnp.repeat(_bytes(obs, space).reshape(*space.shape[:2], 1), 3, axis=2)


def _categories(obs: Num[Array, "height width *one"], space: Box) -> Pixels:
    number = obs.astype(jnp.int32).reshape(space.shape[:2]) - int(space.low.min())
    return jnp.asarray(CATEGORIES).at[number].get(mode="clip")


def _bytes(values: Num[Array, "..."], space: Box) -> UInt8[Array, "..."]:
    """Scale values linearly to 0..255, from the lowest to the highest bound of the space.

    The smallest or largest of `values` replaces an infinite bound.
    """
    values = values.astype(jnp.float32)
    low, high = np.float32(space.low.min()), np.float32(space.high.max())
    least: Any = low if np.isfinite(low) else values.min()
    span = (high if np.isfinite(high) else values.max()) - least
    share = (values - least) / jnp.where(span > 0, span, 1)
    return jnp.round(share.clip(0, 1) * np.float32(255)).astype(jnp.uint8)


def _stretched(picture: Pixels, height: int, width: int) -> Pixels:
    """Resize a picture to `height` and `width` by repeating or skipping pixels."""
    rows, columns = (
        np.arange(n) * old // n for n, old in zip((height, width), picture.shape, strict=False)
    )
    return picture[rows][:, columns]
