"""Sprites of the grid worlds, drawn by code: tile byte, agent on it, in sight or not.

A paint is RGB or the name of a shade of the tile's colour. Edges lie on eighths, so the
pictures are crisp from 8 pixels on. Doors differ by shape as well as by colour: an open one has a
hole, a closed one a knob, a locked one a padlock.
"""

import functools
import itertools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Int32

from ..core.paint import (
    RGB,
    Layer,
    Length,
    Paint,
    block,
    changed,
    coverage,
    disc,
    minus,
    paint,
    polygon,
    shrunk,
    turned,
    union,
    wave,
)
from .tiles import EMPTY, GOAL, LAVA, NUM_CODES, WALL, Colour, Kind

NUM_AGENTS = 5  # nobody, or the agent facing right, down, left, up
NUM_SPRITES = 2 * NUM_AGENTS * NUM_CODES


def sprite(code: ArrayLike, agent: ArrayLike, lit: ArrayLike) -> Int32[Array, "..."]:
    """Number of the sprite for a tile byte, `agent` (0 none, 1 + direction), in sight or not."""
    base = jnp.asarray(code).astype(jnp.int32) + NUM_CODES * jnp.asarray(agent).astype(jnp.int32)
    return base + NUM_CODES * NUM_AGENTS * jnp.asarray(lit).astype(jnp.int32)


class Look(NamedTuple):
    """How the tiles of one kind look."""

    layers: tuple[Layer, ...]
    codes: tuple[int, ...]  # tile bytes that look like this, each in its colour
    ground: bool = True  # whether the floor shows around the layers
    agent: str = ""  # how an agent is drawn with it: "on" it, or "hands" that carry it
    colour: Colour | None = None  # of all of them, where a byte's colour is that of its contents


# Colours (chosen to differ in lightness too) and the paints made of them.

COLOURS = {
    Colour.RED: (224, 72, 66),
    Colour.GREEN: (64, 178, 92),
    Colour.BLUE: (66, 126, 236),
    Colour.PURPLE: (164, 92, 214),
    Colour.YELLOW: (246, 204, 62),
    Colour.GREY: (158, 164, 174),
}
LIGHT = np.array((255.0, 246.0, 222.0))  # what a cell in sight is blended with
LIGHT_ON_GROUND, LIGHT_ON_THINGS = 0.17, 0.1  # how much of it
FLOOR, GROOVE, INK, WHITE = (40, 43, 53), (53, 57, 69), (16, 17, 24), (250, 247, 238)
ROCK, ROCK_TOP, ROCK_JOINT = (104, 110, 124), (130, 137, 152), (74, 79, 92)
GRASS, GRASS_RIM, GRASS_STAR = (38, 140, 76), (86, 196, 118), (206, 246, 178)
SHADES = {"main": (INK, 0.0), "dark": (INK, 0.58), "pale": (WHITE, 0.5)}  # towards, how far
MAGMA, MAGMA_DARK, MAGMA_HOT = (226, 88, 28), (168, 48, 20), (255, 198, 72)

WHOLE = block(0, 0, 1, 1)
FRAME = minus(WHOLE, block(1 / 8, 1 / 8, 7 / 8, 7 / 8))
GROUND = (
    Layer(WHOLE, FLOOR),
    Layer(union(block(0, 0, 1, 1 / 32), block(0, 0, 1 / 32, 1)), GROOVE),
)
BRICKS = (
    Layer(WHOLE, ROCK),
    Layer(union(block(0, 0, 1, 1 / 16), block(0, 1 / 2, 1, 9 / 16)), ROCK_TOP),
    Layer(union(block(0, 7 / 16, 1, 1 / 2), block(0, 15 / 16, 1, 1)), ROCK_JOINT),
    Layer(union(block(7 / 16, 0, 1 / 2, 1 / 2), block(15 / 16, 1 / 2, 1, 1)), ROCK_JOINT),
)
SLAB = (
    Layer(block(1 / 16, 1 / 16, 15 / 16, 15 / 16, 1 / 16), "dark"),
    Layer(block(1 / 8, 1 / 8, 7 / 8, 7 / 8, 1 / 16), "main", 0.55),
)
OPEN = (
    Layer(FRAME, "dark"),
    Layer(block(0, 0, 1 / 8, 1), "main"),
    Layer(block(1 / 8, 1 / 16, 5 / 16, 15 / 16), "main"),
    Layer(block(3 / 16, 7 / 16, 1 / 4, 9 / 16), INK),
)
CLOSED = (
    Layer(WHOLE, "dark"),
    Layer(block(1 / 8, 1 / 8, 7 / 8, 7 / 8), "main"),
    Layer(
        minus(block(1 / 4, 1 / 4, 3 / 4, 7 / 16), block(5 / 16, 5 / 16, 11 / 16, 6 / 16)), "dark"
    ),
    Layer(
        minus(block(1 / 4, 9 / 16, 3 / 4, 3 / 4), block(5 / 16, 10 / 16, 11 / 16, 11 / 16)), "dark"
    ),
    Layer(disc(13 / 16, 1 / 2, 1 / 12), INK),
)
LOCKED = (
    Layer(WHOLE, "main"),
    Layer(block(1 / 8, 1 / 8, 7 / 8, 7 / 8), "dark"),
    Layer(minus(disc(1 / 2, 7 / 16, 3 / 16), disc(1 / 2, 7 / 16, 3 / 32)), "pale"),
    Layer(block(1 / 4, 7 / 16, 3 / 4, 13 / 16, 1 / 32), "pale"),
    Layer(union(disc(1 / 2, 9 / 16, 1 / 16), block(15 / 32, 9 / 16, 17 / 32, 11 / 16)), INK),
)
KEY = (
    Layer(minus(disc(5 / 16, 1 / 2, 3 / 16), disc(5 / 16, 1 / 2, 5 / 64)), "main"),
    Layer(block(7 / 16, 7 / 16, 7 / 8, 9 / 16), "main"),
    Layer(
        union(block(5 / 8, 9 / 16, 11 / 16, 11 / 16), block(3 / 4, 9 / 16, 7 / 8, 3 / 4)), "main"
    ),
)
BALL = (
    Layer(disc(1 / 2, 1 / 2, 3 / 8), "dark"),
    Layer(disc(1 / 2, 1 / 2, 5 / 16), "main"),
    Layer(disc(3 / 8, 3 / 8, 3 / 32), "pale"),
)
BOX = (
    Layer(block(1 / 8, 1 / 8, 7 / 8, 7 / 8, 1 / 16), "main"),
    Layer(block(1 / 4, 3 / 8, 3 / 4, 3 / 4), "dark"),
    Layer(block(3 / 16, 1 / 4, 13 / 16, 5 / 16), "dark"),
    Layer(block(7 / 16, 3 / 8, 9 / 16, 1 / 2), "pale"),
)
TARGET = (
    Layer(WHOLE, GRASS),
    Layer(
        minus(
            block(1 / 16, 1 / 16, 15 / 16, 15 / 16, 1 / 8), block(1 / 8, 1 / 8, 7 / 8, 7 / 8, 1 / 8)
        ),
        GRASS_RIM,
    ),
    Layer(
        polygon((1 / 2, 3 / 16), (13 / 16, 1 / 2), (1 / 2, 13 / 16), (3 / 16, 1 / 2)), GRASS_STAR
    ),
)
WAVES = (
    Layer(WHOLE, MAGMA),
    *(Layer(wave(y + 1 / 16, 1 / 16, 1 / 8), MAGMA_DARK) for y in (1 / 8, 7 / 16, 3 / 4)),
    *(Layer(wave(y, 1 / 16, 1 / 12), MAGMA_HOT) for y in (1 / 8, 7 / 16, 3 / 4)),
)
DARKNESS = (
    Layer(WHOLE, (13, 14, 19)),
    Layer(disc(1 / 2, 1 / 2, 1 / 16), (27, 29, 38)),
)
UNKNOWN = (
    Layer(WHOLE, (255, 0, 255)),
    Layer(union(block(0, 0, 1 / 2, 1 / 2), block(1 / 2, 1 / 2, 1, 1)), (0, 0, 0)),
)
AGENT = (  # facing right
    Layer(polygon((0, 0), (1, 1 / 2), (0, 1), (3 / 16, 1 / 2)), INK),
    Layer(polygon((9 / 64, 11 / 64), (7 / 8, 1 / 2), (9 / 64, 53 / 64), (19 / 64, 1 / 2)), WHITE),
)


def _all_colours(kind: Kind) -> tuple[int, ...]:
    return tuple(kind | colour << 4 for colour in Colour)


LOOKS = (
    Look(DARKNESS, (Kind.UNSEEN,), ground=False),
    Look((), (EMPTY,), agent="on"),
    Look(BRICKS, (WALL,), ground=False),
    Look(SLAB, _all_colours(Kind.FLOOR), agent="on"),
    Look(OPEN, _all_colours(Kind.DOOR), agent="on"),
    Look(CLOSED, _all_colours(Kind.CLOSED_DOOR), ground=False),
    Look(LOCKED, _all_colours(Kind.LOCKED_DOOR), ground=False),
    Look(KEY, _all_colours(Kind.KEY), agent="hands"),
    Look(BALL, _all_colours(Kind.BALL), agent="hands"),
    Look(BOX, _all_colours(Kind.BOX), agent="hands"),
    Look(BOX, _all_colours(Kind.KEY_BOX), agent="hands", colour=Colour.GREY),
    Look(TARGET, (GOAL,), ground=False, agent="on"),
    Look(WAVES, (LAVA,), ground=False, agent="on"),
)
VALID_CODES = tuple(sorted(code for look in LOOKS for code in look.codes))


# Painting.


@functools.lru_cache(maxsize=8)
def atlas(size: int) -> np.ndarray:
    """All sprites, uint8 (NUM_SPRITES, size, size, 3), indexed as `sprite` numbers them.

    Bytes that are no tile, and agents on tiles that they cannot enter, are magenta chequerboards.
    """
    nothing = np.zeros((size, size, 3))
    unknown = _paint(nothing, UNKNOWN)
    sheet = np.broadcast_to(unknown, (2, NUM_AGENTS, NUM_CODES, *unknown.shape)).astype(np.uint8)
    ground = _paint(nothing, GROUND)
    grounds = (ground, ground + LIGHT_ON_GROUND * (LIGHT - ground))
    for lit, look in itertools.product((0, 1), LOOKS):
        for code in look.codes:
            colour = COLOURS[Colour(code >> 4) if look.colour is None else look.colour]
            below = grounds[lit] if look.ground else nothing
            picture = _paint(below, look.layers, colour, lit)
            sheet[lit, 0, code] = picture.round()
            if look.agent == "on":
                sheet[lit, 1:, code] = _agents(picture, 7 / 8, 1 / 16, 1 / 16)
            elif look.agent == "hands":
                carriers = _agents(below, 9 / 16, 7 / 32, 7 / 16)
                held = _held(look.layers)
                sheet[lit, 1:, code] = [_paint(p, held, colour, lit).round() for p in carriers]
    sheet.flags.writeable = False
    coverage.cache_clear()
    return sheet.reshape(NUM_SPRITES, size, size, 3)


def _agents(picture: np.ndarray, scale: Length, left: Length, top: Length) -> list[np.ndarray]:
    """Draw the agent over a picture, facing right, down, left, up."""
    return [_paint(picture, _agent(turns, scale, left, top)).round() for turns in range(4)]


@functools.lru_cache(maxsize=16)
def _agent(turns: int, scale: Length, left: Length, top: Length) -> tuple[Layer, ...]:
    """The agent of that size at that place."""
    return changed(AGENT, lambda shape: shrunk(turned(shape, turns), scale, left, top))


@functools.lru_cache(maxsize=16)
def _held(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """A thing above an agent that carries it."""
    return changed(layers, lambda shape: shrunk(shape, 9 / 16, 7 / 32, 0))


def _paint(
    picture: np.ndarray, layers: tuple[Layer, ...], colour: RGB = (0, 0, 0), lit: int = 0
) -> np.ndarray:
    """Paint layers over a picture (size, size, 3) of floats; `colour` is the tile's."""

    def rgb(paint: Paint) -> np.ndarray:
        plain = _rgb(paint, colour)
        return plain + lit * LIGHT_ON_THINGS * (LIGHT - plain)

    return paint(picture, layers, rgb)


def _rgb(paint: Paint, colour: RGB) -> np.ndarray:
    """Resolve a shade of the tile's colour."""
    if not isinstance(paint, str):
        return np.array(paint, float)
    towards, amount = SHADES[paint]
    return np.array(colour, float) + amount * (np.array(towards, float) - np.array(colour, float))
