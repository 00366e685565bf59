"""Sprites of the XLand environments, drawn as geometric shapes."""

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Int32

from ..core import looks
from ..core.gridworld import Sprites
from ..core.looks import Look
from ..core.paint import RGB, Layer, block, minus, polygon
from . import tiles
from .tiles import Colour, Kind

NUM_CODES = 192  # number of tile bytes: 16 kinds in each of the colours 0 to 11

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
    """Return the corners of a star: points around the centre at alternating radii.

    If both radii are equal, the star is a regular polygon.

    start: angle of the first corner, in units of pi.
    """
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
    Layer(looks.WHOLE, "dark"),
    Layer(
        minus(
            block(1 / 16, 1 / 16, 15 / 16, 15 / 16, 1 / 8), block(1 / 8, 1 / 8, 7 / 8, 7 / 8, 1 / 8)
        ),
        "main",
    ),
    Layer(polygon((1 / 2, 3 / 16), (13 / 16, 1 / 2), (1 / 2, 13 / 16), (3 / 16, 1 / 2)), "pale"),
)


def _all_colours(kind: Kind) -> dict[int, RGB]:
    return {kind | colour << 4: looks.COLOURS[colour.name.lower()] for colour in tuple(Colour)[1:]}


# Each tile also has a sprite with the agent on it, even a tile that the agent cannot enter, because
# a rule can turn the floor below the agent into any object.
LOOKS = (
    Look(looks.DARKNESS, {tiles.NOTHING: (0, 0, 0)}, ground=False, agent="on"),
    Look((), {tiles.FLOOR: (0, 0, 0)}, agent="on"),
    Look(looks.BRICKS, {tiles.WALL: (0, 0, 0)}, ground=False, agent="on"),
    Look(looks.BALL, _all_colours(Kind.BALL), agent="on"),
    Look(SQUARE, _all_colours(Kind.SQUARE), agent="on"),
    Look(PYRAMID, _all_colours(Kind.PYRAMID), agent="on"),
    Look(GOAL, _all_colours(Kind.GOAL), ground=False, agent="on"),
    Look(looks.KEY, _all_colours(Kind.KEY), agent="on"),
    Look(looks.LOCKED, _all_colours(Kind.LOCKED_DOOR), ground=False, agent="on"),
    Look(looks.CLOSED, _all_colours(Kind.CLOSED_DOOR), ground=False, agent="on"),
    Look(looks.OPEN, _all_colours(Kind.OPEN_DOOR), agent="on"),
    Look(HEX, _all_colours(Kind.HEX), agent="on"),
    Look(STAR, _all_colours(Kind.STAR), agent="on"),
)


class _XLandSprites(Sprites):
    def sprite(self, code: ArrayLike, agent: ArrayLike, lit: ArrayLike) -> Int32[Array, "..."]:
        """Return the index of the sprite of tile byte `code`, as `Sprites.sprite` does.

        Tile bytes that are too large get the sprite of the largest one.
        """
        return super().sprite(jnp.minimum(jnp.asarray(code), NUM_CODES - 1), agent, lit)


SPRITES = _XLandSprites(LOOKS, NUM_CODES, tiles.name)
