"""Compiled functions that draw a batch of states, and the arrangement of several pictures."""

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
GAP = 4  # distance between the pictures of environments that are drawn side by side, in pixels
ANIMATION_SIZE = 512  # default length of the longer side of an animation, in pixels
BACKGROUND = (16, 17, 24)  # colour between the pictures of environments, RGB


@functools.lru_cache(maxsize=16)
def board_painter(env: Env, tile_size: int) -> Callable[..., Frames]:
    """Return a compiled function that draws a batch of states.

    Its arguments are the states and, optionally, the params (by default `env.default_params`). It
    returns uint8 (batch, height, width, 3).
    """
    paint = drawing.painter(env, tile_size, batched=True)
    return lambda states, params=None: np.asarray(paint(states, params))


@functools.lru_cache(maxsize=16)
def view_shape(env: Env) -> tuple[int, int] | None:
    """Return (rows, columns) of the agent's view; None if the view does not consist of tiles."""
    tiles = jax.eval_shape(env.view_tiles, env.state_shape)
    return None if tiles is None else tiles.shape


@functools.lru_cache(maxsize=16)
def view_painter(env: Env, tile_size: int) -> Callable[[Any], Frames] | None:
    """Return a function that draws the agent's view of each state in a batch.

    Returns None if the view does not consist of tiles.
    """
    if view_shape(env) is None:
        return None
    # The compiled function takes the atlas (an image of every kind of tile) as an argument. As a
    # constant, the atlas would be copied into every compiled program.
    sheet = jax.device_put(env.atlas(tile_size))

    @jax.jit
    def paint(states: Any, sheet: jax.Array) -> jax.Array:
        tiles: Any = jax.vmap(env.view_tiles)(states)  # not None, as checked by `view_shape`
        return jax.vmap(compose, (0, None))(tiles, sheet)

    return lambda states: np.asarray(paint(states, sheet))


def wall_tile_size(env: Env, boards: int) -> int:
    """Return the tile size for a picture of `boards` environments in a grid.

    The largest size up to 32 pixels is selected at which the picture is at most `ANIMATION_SIZE`
    pixels wide and high.
    """
    side = ANIMATION_SIZE // wall_columns(boards)
    return drawing.fitting_tile_size(drawing.board_shape(env), side, side, largest=32)


def wall_columns(boards: int, aspect: float = 1.0) -> int:
    """Return the number of columns of a grid of pictures of `boards` environments.

    `aspect` is the width of the available area divided by its height.
    """
    best = max(1, min(boards, round((boards * aspect) ** 0.5)))
    return next((n for n in (best, best + 1, best - 1) if n > 0 and boards % n == 0), best)


def mosaic(pictures: Frames, columns: int) -> UInt8[np.ndarray, "rows columns 3"]:
    """Return one picture that shows all `pictures` in a grid of `columns` columns."""
    count, height, width, _ = pictures.shape
    rows = -(-count // columns)
    canvas = np.empty((rows * (height + GAP) - GAP, columns * (width + GAP) - GAP, 3), np.uint8)
    canvas[:] = BACKGROUND
    for i, picture in enumerate(pictures):
        top, left = i // columns * (height + GAP), i % columns * (width + GAP)
        canvas[top : top + height, left : left + width] = picture
    return canvas
