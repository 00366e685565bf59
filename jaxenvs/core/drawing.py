"""Pictures of states, as players, adapters, notebooks and pages draw them."""

import functools
from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array

from .env import Env
from .pixels import compose
from .starts import param_axes
from .vector import over_rows
from .wrapper import Wrapper


def unwrapped(env: Env) -> Env:
    """Return the environment inside all wrappers."""
    return env.unwrapped if isinstance(env, Wrapper) else env


def is_drawn(env: Env) -> bool:
    """Tell whether the environment draws itself."""
    return type(unwrapped(env)).tiles is not Env.tiles


def has_picture(env: Env) -> bool:
    """Tell whether the environment draws more than its tiles."""
    return type(unwrapped(env)).picture is not Env.picture


@functools.lru_cache(maxsize=64)
def painter(env: Env, tile_size: int, batched: bool = False) -> Callable[..., Array]:
    """Return the compiled function from (state, params) to uint8 pixels: the environment's
    `picture` if it has one, else its tiles from the atlas.

    `batched` draws states with a leading axis, whose params may have one too; None stands for the
    default params.
    """
    sheet = jax.device_put(env.atlas(tile_size))

    def draw(sheet: Array, state: Any, params: Any) -> Array:
        picture = env.picture(state, tile_size, params)
        return compose(env.tiles(state), sheet) if picture is None else picture

    def draw_rows(sheet: Array, states: Any, params: Any) -> Array:
        axes = (None, 0, None if params is None else param_axes(env, params))
        return over_rows(draw, axes, len(states.time))(sheet, states, params)

    # The atlas is an argument: as a constant it would be compiled into the program.
    return functools.partial(jax.jit(draw_rows if batched else draw), sheet)


@functools.lru_cache(maxsize=64)
def board_shape(env: Env) -> tuple[int, int]:
    """Rows and columns of the world."""
    shape = jax.eval_shape(env.tiles, env.state_shape).shape
    return int(shape[0]), int(shape[1])


def fitting_tile_size(shape: tuple[int, int], width: int, height: int, largest: int = 64) -> int:
    """Return the largest multiple of 4 (crisp edges), at least 4, whose board fits the pixels."""
    rows, columns = shape
    fits = min(width // columns, height // rows, largest)
    return max(4, fits // 4 * 4)
