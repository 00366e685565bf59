"""Pictures of environment states, for players, adapters, notebooks and web pages.

For an environment with tiles, the picture is the result of `Env.picture`. If `Env.picture` returns
None, the picture is composed of the sprites of the tiles. For any other environment, the picture
shows the observation, if the observation is a matrix or an image.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array

from . import observed
from .env import Env
from .pixels import compose
from .starts import param_axes
from .vector import over_rows
from .wrapper import Wrapper

UNDRAWN = "has no tiles to draw, and its observation is neither a matrix nor an image"


def unwrapped(env: Env) -> Env:
    """Return the environment without any wrapper."""
    return env.unwrapped if isinstance(env, Wrapper) else env


def is_drawn(env: Env) -> bool:
    """Return whether states can be drawn, from their tiles or from the observation."""
    return has_tiles(env) or observed.canvas(unwrapped(env).observation_space) is not None


def has_tiles(env: Env) -> bool:
    """Return whether the environment defines both `tiles` and `atlas`."""
    kind = type(unwrapped(env))
    return kind.tiles is not Env.tiles and kind.atlas is not Env.atlas


def has_picture(env: Env) -> bool:
    """Return whether pictures come from `Env.picture` or the observation, not from tiles.

    The result is only valid if `is_drawn` is true.
    """
    return not has_tiles(env) or type(unwrapped(env)).picture is not Env.picture


@functools.lru_cache(maxsize=64)
def painter(env: Env, tile_size: int, batched: bool = False) -> Callable[..., Array]:
    """Return a compiled function of (state, params) that draws uint8 pixels (height, width, 3).

    For an environment with tiles, the function returns its `picture`, or draws its tiles if
    `picture` returns None. For any other environment, the function draws the observation. If params
    are None, the default params are used. With `batched`, the states and the pixels have a leading
    batch axis; leaves of params may have one.
    """
    # The atlas is an argument of the compiled function. If it were a constant, XLA would copy it
    # into the compiled program.
    sheet = jax.device_put(env.atlas(tile_size)) if has_tiles(env) else None

    def draw(sheet: Array | None, state: Any, params: Any) -> Array:
        if sheet is None:
            return _observation(env, state, params, tile_size)
        picture = env.picture(state, tile_size, params)
        return compose(env.tiles(state), sheet) if picture is None else picture

    def draw_rows(sheet: Array | None, states: Any, params: Any) -> Array:
        axes = (None, 0, None if params is None else param_axes(env, params))
        return over_rows(draw, axes, len(states.time))(sheet, states, params)

    return functools.partial(jax.jit(draw_rows if batched else draw), sheet)


def _observation(env: Env, state: Any, params: Any, tile_size: int) -> Array:
    """Draw the observation of the unwrapped environment, for an environment without tiles."""
    while isinstance(env, Wrapper):
        env, state, params = env.env, env.inner(state), env.inner_params(params)
    return _canvas(env).paint(env.observe(state, params), tile_size)


def _canvas(env: Env) -> observed.Canvas:
    found = observed.canvas(unwrapped(env).observation_space)
    if found is None:
        raise NotImplementedError(f"{env.name} {UNDRAWN}")
    return found


@functools.lru_cache(maxsize=64)
def board_shape(env: Env) -> tuple[int, int]:
    """Return the number of rows and columns of the picture, in tiles."""
    if not has_tiles(env):
        return _canvas(env).shape
    shape = jax.eval_shape(env.tiles, env.state_shape).shape
    return int(shape[0]), int(shape[1])


def fitting_tile_size(shape: tuple[int, int], width: int, height: int, largest: int = 64) -> int:
    """Return the largest tile size at which a picture fits into `width` x `height` pixels.

    `shape` is the number of rows and columns of tiles in the picture. The tile size, in pixels, is
    a multiple of 4, so that edges are crisp. It lies between 4 and `largest`; at size 4 the picture
    may still be too large.
    """
    rows, columns = shape
    fits = min(width // columns, height // rows, largest)
    return max(4, fits // 4 * 4)
