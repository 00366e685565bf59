"""Pictures of states: each painter is one compiled function from a batch of states to pixels."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import UInt8

from ..core.env import Env
from ..core.pixels import compose

Frames = UInt8[np.ndarray, "boards height width 3"]
GAP = 4  # pixels between the boards of a wall
BACKGROUND = (16, 17, 24)


@functools.lru_cache(maxsize=16)
def board_painter(env: Env, tile_size: int) -> Callable[[Any], Frames]:
    """Return the function that draws each state of a batch: its `picture`, or all its tiles."""
    picture = getattr(env, "picture", None)
    if picture is None:
        return _painter(env.tiles, env.atlas(tile_size))
    paint = jax.jit(jax.vmap(lambda state: picture(state, tile_size)))
    return lambda states: np.asarray(paint(states))


@functools.lru_cache(maxsize=16)
def view_painter(env: Env, tile_size: int) -> Callable[[Any], Frames] | None:
    """Return the function that draws what the agent sees; None where it sees no tiles."""
    view_tiles = getattr(env, "view_tiles", None)
    return _painter(view_tiles, env.atlas(tile_size)) if view_tiles else None


def _painter(tiles: Callable[[Any], jax.Array], atlas: np.ndarray) -> Callable[[Any], Frames]:
    # The atlas is an argument: as a constant it would be compiled into every program.
    sheet = jnp.asarray(atlas)
    paint = jax.jit(lambda states, sheet: jax.vmap(lambda s: compose(tiles(s), sheet))(states))
    return lambda states: np.asarray(paint(states, sheet))


@functools.lru_cache(maxsize=16)
def board_shape(env: Env) -> tuple[int, int]:
    """Rows and columns of the world."""
    shape = jax.eval_shape(env.tiles, env.state_shape).shape
    return int(shape[0]), int(shape[1])


def fitting_tile_size(shape: tuple[int, int], width: int, height: int, largest: int = 64) -> int:
    """Return the largest multiple of 4 (crisp edges), at least 4, whose board fits the pixels."""
    rows, columns = shape
    fits = min(width // columns, height // rows, largest)
    return max(4, fits // 4 * 4)


def wall_columns(boards: int, aspect: float = 1.0) -> int:
    """Return the number of columns of a wall; `aspect` is width by height of the place for it."""
    best = max(1, min(boards, round((boards * aspect) ** 0.5)))
    return next((n for n in (best, best + 1, best - 1) if n > 0 and boards % n == 0), best)


def mosaic(pictures: Frames, columns: int) -> UInt8[np.ndarray, "rows columns 3"]:
    """Put pictures side by side, `columns` in a row, with gaps between them."""
    count, height, width, _ = pictures.shape
    rows = -(-count // columns)
    canvas = np.empty((rows * (height + GAP) - GAP, columns * (width + GAP) - GAP, 3), np.uint8)
    canvas[:] = BACKGROUND
    for i, picture in enumerate(pictures):
        top, left = i // columns * (height + GAP), i % columns * (width + GAP)
        canvas[top : top + height, left : left + width] = picture
    return canvas
