"""Sprites of the grid worlds, drawn by code: tile byte, agent on it, in sight or not.

A sprite is a row of layers, each a shape in the unit square (x to the right, y down) and a paint.
Edges lie on eighths, so the pictures are crisp from 8 pixels on. Doors differ by shape as well as
by colour: an open one has a hole, a closed one a knob, a locked one a padlock.
"""

import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Int32

from .tiles import EMPTY, GOAL, LAVA, NUM_CODES, WALL, Colour, Kind

NUM_AGENTS = 5  # nobody, or the agent facing right, down, left, up
NUM_SPRITES = 2 * NUM_AGENTS * NUM_CODES

Shape = Callable[[np.ndarray, np.ndarray], np.ndarray]  # x, y -> whether the points are inside
RGB = tuple[int, int, int]
Length = int | float  # the tile's side is 1
Paint = str | RGB  # a shade of the tile's own colour, or RGB


def sprite(code: ArrayLike, agent: ArrayLike, lit: ArrayLike) -> Int32[Array, "..."]:
    """Number of the sprite for a tile byte, `agent` (0 none, 1 + direction), in sight or not."""
    base = jnp.asarray(code).astype(jnp.int32) + NUM_CODES * jnp.asarray(agent).astype(jnp.int32)
    return base + NUM_CODES * NUM_AGENTS * jnp.asarray(lit).astype(jnp.int32)


# Shapes.


def block(left: Length, top: Length, right: Length, bottom: Length, radius: Length = 0.0) -> Shape:
    """Return a rectangle with round corners."""

    def inside(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        over_x = np.abs(x - (left + right) / 2) - (right - left) / 2 + radius
        over_y = np.abs(y - (top + bottom) / 2) - (bottom - top) / 2 + radius
        outside = np.hypot(over_x.clip(0), over_y.clip(0))
        return outside + np.minimum(np.maximum(over_x, over_y), 0) <= radius

    return inside


def disc(centre_x: Length, centre_y: Length, radius: Length) -> Shape:
    """Return a disc."""
    return lambda x, y: np.hypot(x - centre_x, y - centre_y) <= radius


def polygon(*points: tuple[Length, Length]) -> Shape:
    """Return a polygon, by the even-odd rule."""

    def inside(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        crossings = np.zeros(np.broadcast(x, y).shape, bool)
        for (x0, y0), (x1, y1) in zip(points, points[1:] + points[:1], strict=True):
            if y0 != y1:
                at = x0 + (y - y0) * (x1 - x0) / (y1 - y0)
                crossings ^= ((y0 > y) != (y1 > y)) & (x < at)
        return crossings

    return inside


def wave(height: Length, swing: Length, width: Length) -> Shape:
    """Return a wavy line of one period, which meets itself in the next tile."""
    return lambda x, y: np.abs(y - height - swing * np.sin(2 * np.pi * x)) <= width / 2


def union(*shapes: Shape) -> Shape:
    """Return the points in any of the shapes."""
    return lambda x, y: np.any([np.broadcast_arrays(s(x, y), x, y)[0] for s in shapes], axis=0)


def minus(shape: Shape, *holes: Shape) -> Shape:
    """Return the points of a shape outside the holes."""
    return lambda x, y: shape(x, y) & ~union(*holes)(x, y)


def shrunk(shape: Shape, scale: Length, left: Length, top: Length) -> Shape:
    """Return a shape whose unit square is scaled and moved to (left, top)."""
    return lambda x, y: shape((x - left) / scale, (y - top) / scale)


class Layer(NamedTuple):
    """One painted shape."""

    shape: Shape
    paint: Paint
    cover: Length = 1.0  # opacity


class Look(NamedTuple):
    """How the tiles of one kind look."""

    layers: tuple[Layer, ...]
    codes: tuple[int, ...]  # bytes that look so, each in its own colour
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

    What is no tile, and an agent where none can stand, shows a magenta chequerboard.
    """
    nothing = np.zeros((size, size, 3))
    unknown = _paint(nothing, UNKNOWN)
    sheet = np.broadcast_to(unknown, (2, NUM_AGENTS, NUM_CODES, *unknown.shape)).astype(np.uint8)
    ground = _paint(nothing, GROUND)
    grounds = (ground, ground + LIGHT_ON_GROUND * (LIGHT - ground))
    for lit, look in itertools.product((0, 1), LOOKS):
        for code in look.codes:
            own = COLOURS[Colour(code >> 4) if look.colour is None else look.colour]
            below = grounds[lit] if look.ground else nothing
            picture = _paint(below, look.layers, own, lit)
            sheet[lit, 0, code] = picture.round()
            if look.agent == "on":
                sheet[lit, 1:, code] = _agents(picture, 7 / 8, 1 / 16, 1 / 16)
            elif look.agent == "hands":
                held = tuple(_shrunk_layer(layer, 9 / 16, 7 / 32, 0) for layer in look.layers)
                carriers = _agents(below, 9 / 16, 7 / 32, 7 / 16)
                sheet[lit, 1:, code] = [_paint(p, held, own, lit).round() for p in carriers]
    sheet.flags.writeable = False
    return sheet.reshape(NUM_SPRITES, size, size, 3)


def _agents(picture: np.ndarray, scale: Length, left: Length, top: Length) -> list[np.ndarray]:
    """Draw the agent over a picture, facing right, down, left, up."""
    pictures = []
    for turns in range(4):
        body = (layer._replace(shape=_turned(layer.shape, turns)) for layer in AGENT)
        layers = tuple(_shrunk_layer(layer, scale, left, top) for layer in body)
        pictures.append(_paint(picture, layers).round())
    return pictures


def _shrunk_layer(layer: Layer, scale: Length, left: Length, top: Length) -> Layer:
    return layer._replace(shape=shrunk(layer.shape, scale, left, top))


def _turned(shape: Shape, quarters: int) -> Shape:
    """Return a shape turned clockwise about the centre of the unit square."""
    if quarters == 0:
        return shape
    return _turned(lambda x, y: shape(y, 1 - x), quarters - 1)


def _paint(
    picture: np.ndarray, layers: tuple[Layer, ...], own: RGB = (0, 0, 0), lit: int = 0
) -> np.ndarray:
    """Paint layers over a picture (size, size, 3) of floats; `own` is the colour of the tile."""
    for layer in layers:
        share = layer.cover * _coverage(layer.shape, picture.shape[0])[..., None]
        rgb = _rgb(layer.paint, own)
        rgb = rgb + lit * LIGHT_ON_THINGS * (LIGHT - rgb)
        picture = picture + share * (rgb - picture)
    return picture


def _rgb(paint: Paint, own: RGB) -> np.ndarray:
    """Resolve a shade of the tile's own colour."""
    if not isinstance(paint, str):
        return np.array(paint, float)
    towards, amount = SHADES[paint]
    return np.array(own, float) + amount * (np.array(towards, float) - np.array(own, float))


def _coverage(shape: Shape, size: int) -> np.ndarray:
    """Share of each pixel inside the shape, (size, size), from several samples a side."""
    fine = max(2, min(8, 64 // size))
    at = (np.arange(size * fine) + 0.5) / (size * fine)
    inside = np.broadcast_to(shape(at[None, :], at[:, None]), (size * fine, size * fine))
    return inside.reshape(size, fine, size, fine).mean(axis=(1, 3))
