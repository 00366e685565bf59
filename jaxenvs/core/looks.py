"""Sprites of grid environments: floors, walls, doors, objects and the agent, drawn with `paint.py`.

A paint is an RGB colour, or the name of a shade of the tile's colour (see `SHADES`). Most edges lie
on multiples of an eighth of a tile, so pictures are crisp at 8 or more pixels per tile. Doors
differ in shape as well as in colour: an open door has a gap, a closed door a knob, and a locked
door a padlock.
"""

import functools
import itertools
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from .paint import (
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
)

# Variants of a tile's sprite: without an agent, and with an agent facing right, down, left or up.
NUM_AGENTS = 5


class Look(NamedTuple):
    """Appearance of the tiles of one kind, such as doors of all colours."""

    layers: tuple[Layer, ...]
    codes: Mapping[int, RGB]  # tile byte -> RGB colour of the tile, for all tile bytes of this kind
    ground: bool = True  # whether a floor is painted first, below the tile's own layers
    # How the agent appears on sprites of this tile. "on": standing on the tile; "hands": carrying
    # the tile's object; "": never, because the agent cannot enter the tile.
    agent: str = ""


# Colours of tiles by name. The colours differ in lightness as well as in hue.

COLOURS = {
    "red": (224, 72, 66),
    "green": (64, 178, 92),
    "blue": (66, 126, 236),
    "purple": (164, 92, 214),
    "yellow": (246, 204, 62),
    "grey": (158, 164, 174),
    "black": (18, 18, 26),
    "orange": (238, 136, 40),
    "white": (240, 240, 236),
    "brown": (142, 94, 58),
    "pink": (250, 156, 200),
}
LIGHT = np.array((255.0, 246.0, 222.0))  # RGB colour that is blended into cells that the agent sees
# Opacity of LIGHT over the floor, and opacity of LIGHT over objects.
LIGHT_ON_GROUND, LIGHT_ON_THINGS = 0.17, 0.1
FLOOR, GROOVE, INK, WHITE = (40, 43, 53), (53, 57, 69), (16, 17, 24), (250, 247, 238)
ROCK, ROCK_TOP, ROCK_JOINT = (104, 110, 124), (130, 137, 152), (74, 79, 92)
# Name of a shade -> (second colour, opacity). A shade is the tile's colour with the second colour
# painted over it at this opacity.
SHADES = {"main": (INK, 0.0), "dark": (INK, 0.58), "pale": (WHITE, 0.5)}

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
DARKNESS = (
    Layer(WHOLE, (13, 14, 19)),
    Layer(disc(1 / 2, 1 / 2, 1 / 16), (27, 29, 38)),
)
UNKNOWN = (
    Layer(WHOLE, (255, 0, 255)),
    Layer(union(block(0, 0, 1 / 2, 1 / 2), block(1 / 2, 1 / 2, 1, 1)), (0, 0, 0)),
)
AGENT = (  # the agent facing right: a dark arrow with a white arrow inside
    Layer(polygon((0, 0), (1, 1 / 2), (0, 1), (3 / 16, 1 / 2)), INK),
    Layer(polygon((9 / 64, 11 / 64), (7 / 8, 1 / 2), (9 / 64, 53 / 64), (19 / 64, 1 / 2)), WHITE),
)


def sheet(looks: Iterable[Look], num_codes: int, size: int) -> np.ndarray:
    """Paint all sprites of a family, uint8 (2 * NUM_AGENTS * num_codes, size, size, 3).

    The first axis flattens three axes: sight (0 unseen, 1 seen by the agent), agent (0 without an
    agent, else 1 + the agent's direction) and tile byte. A combination that cannot occur has a
    magenta chequerboard as its sprite: a tile byte without a look, or an agent on a tile that it
    cannot enter.
    """
    nothing = np.zeros((size, size, 3))
    unknown = _paint(nothing, UNKNOWN)
    sheet = np.broadcast_to(unknown, (2, NUM_AGENTS, num_codes, *unknown.shape)).astype(np.uint8)
    ground = _paint(nothing, GROUND)
    grounds = (ground, ground + LIGHT_ON_GROUND * (LIGHT - ground))
    for lit, look in itertools.product((0, 1), looks):
        for code, colour in look.codes.items():
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
    return sheet.reshape(-1, size, size, 3)


def _agents(picture: np.ndarray, scale: Length, left: Length, top: Length) -> list[np.ndarray]:
    """Return four copies of a picture with the agent on top, facing right, down, left and up.

    The agent is scaled by `scale`; `left` and `top` are the position of its upper left corner.
    """
    return [_paint(picture, _agent(turns, scale, left, top)).round() for turns in range(4)]


@functools.lru_cache(maxsize=16)
def _agent(turns: int, scale: Length, left: Length, top: Length) -> tuple[Layer, ...]:
    """Return the agent's layers after `turns` quarter turns clockwise, scaled and moved."""
    return changed(AGENT, lambda shape: shrunk(turned(shape, turns), scale, left, top))


@functools.lru_cache(maxsize=16)
def _held(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Return the layers of a carried object: small, at the top of the tile, above the agent."""
    return changed(layers, lambda shape: shrunk(shape, 9 / 16, 7 / 32, 0))


def _paint(
    picture: np.ndarray, layers: tuple[Layer, ...], colour: RGB = (0, 0, 0), lit: int = 0
) -> np.ndarray:
    """Paint layers over a picture, an array (size, size, 3) of floats; return the new picture.

    `colour` is the tile's colour, which named shades refer to. `lit` is 1 if the agent sees the
    tile.
    """

    def rgb(paint: Paint) -> np.ndarray:
        plain = _rgb(paint, colour)
        return plain + lit * LIGHT_ON_THINGS * (LIGHT - plain)

    return paint(picture, layers, rgb)


def _rgb(paint: Paint, colour: RGB) -> np.ndarray:
    """Return RGB floats for a paint, which may be the name of a shade of `colour`."""
    if not isinstance(paint, str):
        return np.array(paint, float)
    towards, amount = SHADES[paint]
    return np.array(colour, float) + amount * (np.array(towards, float) - np.array(colour, float))
