"""Pictures of states: each painter is one compiled function from a batch of states to pixels."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import UInt8

from jaxenvs.core import drawing
from jaxenvs.core.env import Env
from jaxenvs.core.pixels import compose

Frames = UInt8[np.ndarray, "boards height width 3"]
GAP = 4  # pixels between the boards of a wall
FILM_SIZE = 512  # pixels that the boards of a film may take on a side, unless told otherwise
BACKGROUND = (16, 17, 24)


@functools.lru_cache(maxsize=16)
def board_painter(env: Env, tile_size: int) -> Callable[..., Frames]:
    """Return the function (states, params) that draws each state of a batch.

    Without params it draws by the defaults.
    """
    paint = drawing.painter(env, tile_size, batched=True)
    return lambda states, params=None: np.asarray(paint(states, params))


@functools.lru_cache(maxsize=16)
def view_shape(env: Env) -> tuple[int, int] | None:
    """Rows and columns of what the agent sees; None where it sees no tiles."""
    tiles = jax.eval_shape(env.view_tiles, env.state_shape)
    return None if tiles is None else tiles.shape


@functools.lru_cache(maxsize=16)
def view_painter(env: Env, tile_size: int) -> Callable[[Any], Frames] | None:
    """Return the function that draws what the agent sees; None where it sees no tiles."""
    if view_shape(env) is None:
        return None
    # The atlas is an argument: as a constant it would be compiled into every program.
    sheet = jax.device_put(env.atlas(tile_size))

    @jax.jit
    def paint(states: Any, sheet: jax.Array) -> jax.Array:
        tiles: Any = jax.vmap(env.view_tiles)(states)  # not None: it has a shape
        return jax.vmap(compose, (0, None))(tiles, sheet)

    return lambda states: np.asarray(paint(states, sheet))


def wall_tile_size(env: Env, boards: int) -> int:
    """Return the tile size with which a wall of boards fits into a film."""
    side = FILM_SIZE // wall_columns(boards)
    return drawing.fitting_tile_size(drawing.board_shape(env), side, side, largest=32)


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
