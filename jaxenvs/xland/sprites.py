"""Sprites of rule worlds: tile byte, agent on it, in sight or not."""

import functools

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Int32

from ..core.looks import (
    BALL,
    BRICKS,
    CLOSED,
    COLOURS,
    DARKNESS,
    KEY,
    LOCKED,
    NUM_AGENTS,
    OPEN,
    WHOLE,
    Look,
    sheet,
)
from ..core.paint import RGB, Layer, block, minus, polygon
from . import tiles
from .tiles import Colour, Kind

NUM_CODES = 192  # bytes of tiles: colours up to 11

SQUARE = (
    Layer(block(3 / 16, 3 / 16, 13 / 16, 13 / 16, 1 / 16), "dark"),
    Layer(block(1 / 4, 1 / 4, 3 / 4, 3 / 4, 1 / 32), "main"),
    Layer(block(5 / 16, 5 / 16, 7 / 16, 7 / 16), "pale"),
)
PYRAMID = (
    Layer(polygon((1 / 2, 1 / 8), (7 / 8, 13 / 16), (1 / 8, 13 / 16)), "main"),
    Layer(polygon((1 / 2, 1 / 8), (7 / 8, 13 / 16), (5 / 8, 13 / 16)), "dark"),
    Layer(polygon((1 / 2, 1 / 8), (3 / 8, 13 / 16), (1 / 4, 13 / 16)), "pale", 0.5),
)


def _ring(
    corners: int, outer: float, inner: float, start: float
) -> tuple[tuple[float, float], ...]:
    """Corners around the centre, in turn near and far from it."""
    angles = np.pi * (start + np.arange(corners) * 2 / corners)
    radii = np.where(np.arange(corners) % 2 == 0, outer, inner)
    places = zip(0.5 + radii * np.cos(angles), 0.5 + radii * np.sin(angles), strict=True)
    return tuple((float(x), float(y)) for x, y in places)


HEX = (
    Layer(polygon(*_ring(6, 3 / 8, 3 / 8, 0)), "dark"),
    Layer(polygon(*_ring(6, 5 / 16, 5 / 16, 0)), "main"),
    Layer(polygon(*_ring(6, 1 / 8, 1 / 8, 0)), "pale"),
)
STAR = (
    Layer(polygon(*_ring(10, 7 / 16, 3 / 16, -1 / 2)), "dark"),
    Layer(polygon(*_ring(10, 3 / 8, 5 / 32, -1 / 2)), "main"),
)
GOAL = (
    Layer(WHOLE, "dark"),
    Layer(
        minus(
            block(1 / 16, 1 / 16, 15 / 16, 15 / 16, 1 / 8), block(1 / 8, 1 / 8, 7 / 8, 7 / 8, 1 / 8)
        ),
        "main",
    ),
    Layer(polygon((1 / 2, 3 / 16), (13 / 16, 1 / 2), (1 / 2, 13 / 16), (3 / 16, 1 / 2)), "pale"),
)


def _all_colours(kind: Kind) -> dict[int, RGB]:
    return {kind | colour << 4: COLOURS[colour.name.lower()] for colour in tuple(Colour)[1:]}


# An agent stands on things as well: rules can turn the floor below it into them.
LOOKS = (
    Look(DARKNESS, {tiles.NOTHING: (0, 0, 0)}, ground=False, agent="on"),
    Look((), {tiles.FLOOR: (0, 0, 0)}, agent="on"),
    Look(BRICKS, {tiles.WALL: (0, 0, 0)}, ground=False, agent="on"),
    Look(BALL, _all_colours(Kind.BALL), agent="on"),
    Look(SQUARE, _all_colours(Kind.SQUARE), agent="on"),
    Look(PYRAMID, _all_colours(Kind.PYRAMID), agent="on"),
    Look(GOAL, _all_colours(Kind.GOAL), ground=False, agent="on"),
    Look(KEY, _all_colours(Kind.KEY), agent="on"),
    Look(LOCKED, _all_colours(Kind.LOCKED_DOOR), ground=False, agent="on"),
    Look(CLOSED, _all_colours(Kind.CLOSED_DOOR), ground=False, agent="on"),
    Look(OPEN, _all_colours(Kind.OPEN_DOOR), agent="on"),
    Look(HEX, _all_colours(Kind.HEX), agent="on"),
    Look(STAR, _all_colours(Kind.STAR), agent="on"),
)
NAMES = {tiles.name(code): code for look in LOOKS for code in look.codes}


def sprite(code: ArrayLike, agent: ArrayLike, lit: ArrayLike) -> Int32[Array, "..."]:
    """Number of the sprite for a tile byte, `agent` (0 none, 1 + direction), in sight or not."""
    # Sheets have the agent facing right first; here 1 is up.
    facing = jnp.asarray(agent).astype(jnp.int32)
    facing = jnp.where(facing == 0, 0, 1 + (facing + 2) % 4)
    base = jnp.minimum(jnp.asarray(code).astype(jnp.int32), NUM_CODES - 1) + NUM_CODES * facing
    return base + NUM_CODES * NUM_AGENTS * jnp.asarray(lit).astype(jnp.int32)


def icon(name: str, size: int) -> np.ndarray | None:
    """The sprite of a named thing, uint8 (size, size, 3); None where nothing has that name."""
    code = NAMES.get(name)
    return None if code is None else atlas(size)[code]


@functools.lru_cache(maxsize=8)
def atlas(size: int) -> np.ndarray:
    """All sprites, uint8 (2 * NUM_AGENTS * NUM_CODES, size, size, 3), as `sprite` numbers them."""
    return sheet(LOOKS, NUM_CODES, size)
