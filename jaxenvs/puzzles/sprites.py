"""Sprites of the puzzles, drawn by code. Each public function returns the atlas of one environment.

Numbers are drawn as strokes, so that they are sharp at every size.
"""

import colorsys
import functools
from collections.abc import Iterable

import numpy as np

from ..core.looks import BRICKS, FLOOR, GROOVE, GROUND, INK, ROCK, ROCK_TOP, WHITE, WHOLE
from ..core.paint import RGB, Layer, block, disc, line, minus, paint, polygon, union
from .digits import number

Layers = tuple[Layer, ...]

WOOD, WOOD_TOP, WOOD_DARK = (178, 126, 76), (206, 154, 98), (118, 78, 44)
GREEN, BLUE, RED, YELLOW = (64, 178, 92), (92, 150, 250), (224, 72, 66), (246, 204, 62)
CUBE = (  # colours of stickers: white, green, red, blue, orange, yellow
    (244, 244, 238),
    (44, 168, 92),
    (206, 46, 52),
    (52, 106, 226),
    (244, 138, 38),
    (248, 216, 62),
)
MERGED = (  # colours of the tiles 2, 4, 8, ... of 2048
    (236, 228, 214),
    (234, 216, 176),
    (240, 182, 120),
    (242, 152, 96),
    (240, 120, 92),
    (230, 86, 58),
    (238, 210, 118),
    (240, 204, 94),
    (242, 198, 70),
    (244, 192, 48),
    (246, 186, 26),
    (96, 188, 136),
    (62, 168, 168),
    (72, 138, 218),
    (108, 108, 228),
    (148, 90, 218),
    (190, 70, 178),
)
NUMBERS = (  # colours of Minesweeper's numbers, from 1
    BLUE,
    (92, 200, 116),
    (240, 96, 88),
    (190, 130, 246),
    (246, 160, 72),
    (84, 206, 206),
    WHITE,
    (170, 176, 188),
)

RAISED = block(1 / 16, 1 / 16, 15 / 16, 15 / 16, 1 / 8)
NOTHING = (Layer(WHOLE, INK),)
PERSON = (
    Layer(disc(1 / 2, 1 / 2, 3 / 8), INK),
    Layer(disc(1 / 2, 1 / 2, 5 / 16), WHITE),
    Layer(union(disc(13 / 32, 7 / 16, 1 / 20), disc(19 / 32, 7 / 16, 1 / 20)), INK),
)
AIM = (  # marker of a target, painted on the floor
    Layer(minus(disc(1 / 2, 1 / 2, 1 / 4), disc(1 / 2, 1 / 2, 11 / 64)), GREEN),
    Layer(disc(1 / 2, 1 / 2, 5 / 64), GREEN),
)


def _atlas(size: int, looks: Iterable[Layers]) -> np.ndarray:
    """Paint one sprite for each tuple of layers in `looks`, uint8 (looks, size, size, 3)."""
    nothing = np.zeros((size, size, 3))
    return np.stack([paint(nothing, look).round().astype(np.uint8) for look in looks])


def _mixed(colour: RGB, other: RGB, share: float) -> RGB:
    """Interpolate between two colours; `share` is the weight of `other`."""
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(colour, other, strict=True))
    return red, green, blue


def _plate(colour: RGB) -> Layers:
    """Return a raised tile with a light upper edge and a shadow below."""
    return (
        Layer(WHOLE, FLOOR),
        Layer(RAISED, _mixed(colour, INK, 0.35)),
        Layer(block(1 / 16, 1 / 16, 15 / 16, 7 / 8, 1 / 8), _mixed(colour, WHITE, 0.3)),
        Layer(block(1 / 16, 3 / 32, 15 / 16, 7 / 8, 1 / 8), colour),
    )


def _rainbow(count: int) -> tuple[RGB, ...]:
    """Return `count` muted colours from red to violet."""
    colours = []
    for i in range(count):
        hue = 0.02 + 0.76 * i / max(1, count - 1)
        red, green, blue = colorsys.hls_to_rgb(hue, 0.6, 0.58)
        colours.append((round(255 * red), round(255 * green), round(255 * blue)))
    return tuple(colours)


@functools.lru_cache(maxsize=16)
def numbered_tiles(size: int, tile_size: int) -> np.ndarray:
    """Return sprites of the blank and of the tiles 1 to size * size - 1, from pale to dark."""
    looks: list[Layers] = [(Layer(WHOLE, FLOOR),)]
    for i in range(1, size * size):
        wood = _mixed((246, 222, 170), (206, 140, 84), i / (size * size))
        looks.append((*_plate(wood), Layer(number(i, 0.44, 0.48), WOOD_DARK)))
    return _atlas(tile_size, looks)


@functools.lru_cache(maxsize=8)
def stickers(tile_size: int) -> np.ndarray:
    """Return sprites for pictures of twisty puzzles: an empty tile, and stickers in six colours.

    The colours are white, green, red, blue, orange and yellow.
    """
    return _atlas(tile_size, [NOTHING, *map(_sticker, CUBE)])


def _sticker(colour: RGB) -> Layers:
    return (
        Layer(WHOLE, (6, 7, 10)),
        Layer(RAISED, _mixed(colour, INK, 0.22)),
        Layer(block(1 / 16, 1 / 16, 15 / 16, 29 / 32, 1 / 8), colour),
    )


@functools.lru_cache(maxsize=8)
def game2048(tile_size: int) -> np.ndarray:
    """Return sprites of an empty cell and of the tiles 2, 4, ... 131072."""
    looks: list[Layers] = [(Layer(WHOLE, FLOOR), Layer(RAISED, GROOVE))]
    for i, colour in enumerate(MERGED, 1):
        ink = (104, 92, 78) if i <= 2 else WHITE
        looks.append((*_plate(colour), Layer(number(2**i, 0.4, 0.48), ink)))
    return _atlas(tile_size, looks)


@functools.lru_cache(maxsize=8)
def minesweeper(tile_size: int) -> np.ndarray:
    """Return sprites of the visible values of a cell.

    These are open cells with 0 to 8 neighbouring mines, a covered cell, and an opened mine.
    """
    opened = [(*GROUND, Layer(number(i, 0.5), colour)) for i, colour in enumerate(NUMBERS, 1)]
    spikes = [(1 / 8, 1 / 2, 7 / 8, 1 / 2), (1 / 2, 1 / 8, 1 / 2, 7 / 8)]
    spikes += [(1 / 4, 1 / 4, 3 / 4, 3 / 4), (1 / 4, 3 / 4, 3 / 4, 1 / 4)]
    mine = (
        Layer(WHOLE, (190, 54, 48)),
        Layer(union(*(line(*ends, 1 / 12) for ends in spikes)), INK),
        Layer(disc(1 / 2, 1 / 2, 1 / 4), INK),
        Layer(disc(13 / 32, 13 / 32, 1 / 16), WHITE),
    )
    return _atlas(tile_size, [GROUND, *opened, _plate(ROCK), mine])


@functools.lru_cache(maxsize=8)
def sudoku(tile_size: int) -> np.ndarray:
    """Return sprites of an empty cell, of the placed digits 1 to 9 and of the given digits 1 to 9.

    The same 19 sprites with a lighter background follow, for every other 3x3 box.
    """
    looks: list[Layers] = []
    for ground in (FLOOR, (58, 62, 76)):
        rim = minus(WHOLE, block(1 / 32, 1 / 32, 31 / 32, 31 / 32))
        empty = (Layer(WHOLE, ground), Layer(rim, _mixed(ground, INK, 0.4)))
        looks.append(empty)
        looks += [(*empty, Layer(number(i, 0.5), BLUE)) for i in range(1, 10)]
        looks += [(*empty, Layer(number(i, 0.5), WHITE)) for i in range(1, 10)]
    return _atlas(tile_size, looks)


@functools.lru_cache(maxsize=8)
def lights(tile_size: int) -> np.ndarray:
    """Return sprites of a dark lamp and of a lit lamp."""
    glow = [Layer(disc(1 / 2, 1 / 2, r / 32), YELLOW, 0.12) for r in (22, 20, 18, 16, 14)]
    lit = (
        Layer(WHOLE, FLOOR),
        *glow,
        Layer(block(1 / 8, 1 / 8, 7 / 8, 7 / 8, 3 / 16), YELLOW),
        Layer(disc(1 / 2, 1 / 2, 7 / 32), (255, 240, 176)),
    )
    dark = (
        Layer(WHOLE, FLOOR),
        Layer(block(1 / 8, 1 / 8, 7 / 8, 7 / 8, 3 / 16), (58, 63, 78)),
        Layer(disc(1 / 2, 1 / 2, 7 / 32), (70, 75, 92)),
    )
    return _atlas(tile_size, [dark, lit])


@functools.lru_cache(maxsize=8)
def hanoi(tile_size: int, disks: int) -> np.ndarray:
    """Return sprites of an empty tile, a pole and the base, then four sprites for each disk.

    The disks are ordered from the smallest. The four sprites are left end, middle, right end, and a
    disk that is one tile wide. The ends of a disk with an even width, in tiles, fill half a tile.
    """
    pole = block(3 / 8, -1, 5 / 8, 2)
    looks: list[Layers] = [
        NOTHING,
        (*NOTHING, Layer(pole, WOOD)),
        (*NOTHING, Layer(block(-1, 0, 2, 5 / 8), WOOD_DARK), Layer(block(-1, 0, 2, 1 / 8), WOOD)),
    ]
    for i, colour in enumerate(_rainbow(disks)):
        side = i % 2 / 2
        looks += [_slice(colour, *ends) for ends in ((side, 2), (-1, 2), (-1, 1 - side), (0, 1))]
    return _atlas(tile_size, looks)


def _slice(colour: RGB, left: float, right: float) -> Layers:
    """Return the part of a disk or pancake that is visible in one tile.

    `left` and `right` are the ends of the disk, in tile widths from the tile's left side. An end
    outside the tile is not visible.
    """
    sides = (left + 1 / 16, right - 1 / 16)
    return (
        *NOTHING,
        Layer(block(sides[0], 1 / 16, sides[1], 15 / 16, 5 / 16), _mixed(colour, INK, 0.3)),
        Layer(block(sides[0], 1 / 16, sides[1], 13 / 16, 5 / 16), colour),
    )


@functools.lru_cache(maxsize=8)
def pancakes(tile_size: int, size: int) -> np.ndarray:
    """Return sprites of an empty tile and of the plate, then three sprites for each pancake.

    The pancakes are ordered from the smallest. The three sprites are left end, middle and right
    end.
    """
    plate = (
        *NOTHING,
        Layer(block(-1, 1 / 16, 2, 1 / 2), (176, 190, 214)),
        Layer(block(-1, 3 / 8, 2, 1 / 2), (116, 130, 156)),
    )
    looks: list[Layers] = [NOTHING, plate]
    for i in range(size):
        batter = _mixed((252, 222, 152), (190, 108, 48), i / size)
        looks += [_slice(batter, *ends) for ends in ((0, 2), (-1, 2), (-1, 1))]
    return _atlas(tile_size, looks)


@functools.lru_cache(maxsize=8)
def tokens(tile_size: int, size: int) -> np.ndarray:
    """Return sprites of an empty tile and of TopSpin's round tokens, numbered from 0.

    The same tokens follow with another background, which marks tokens in the turnstile. The
    turnstile is the part of the ring that an action reverses.
    """
    looks: list[Layers] = [NOTHING]
    grounds = ((Layer(WHOLE, FLOOR),), (Layer(WHOLE, (64, 84, 124)),))
    for ground in grounds:
        for i, colour in enumerate(_rainbow(size)):
            pale = _mixed(colour, WHITE, 0.3)
            looks.append(
                (
                    *ground,
                    Layer(disc(1 / 2, 1 / 2, 7 / 16), INK),
                    Layer(disc(1 / 2, 1 / 2, 13 / 32), pale),
                    Layer(number(i, 0.36), INK),
                )
            )
    return _atlas(tile_size, looks)


@functools.lru_cache(maxsize=8)
def pegs(tile_size: int) -> np.ndarray:
    """Return sprites of a tile outside the board, of an empty hole, and of a peg in a hole."""
    board = (Layer(WHOLE, WOOD), Layer(minus(WHOLE, block(1 / 32, 1 / 32, 1, 1)), WOOD_TOP))
    hole = (*board, Layer(disc(1 / 2, 1 / 2, 1 / 5), WOOD_DARK))
    peg = (
        *board,
        Layer(disc(1 / 2, 17 / 32, 23 / 64), WOOD_DARK),
        Layer(disc(1 / 2, 1 / 2, 11 / 32), (54, 96, 190)),
        Layer(disc(1 / 2, 15 / 32, 9 / 32), BLUE),
        Layer(disc(3 / 8, 3 / 8, 1 / 12), WHITE),
    )
    return _atlas(tile_size, [NOTHING, hole, peg])


def _crate(colour: RGB) -> Layers:
    dark = _mixed(colour, INK, 0.45)
    return (
        Layer(block(1 / 16, 1 / 16, 15 / 16, 15 / 16, 1 / 16), dark),
        Layer(block(1 / 8, 1 / 8, 7 / 8, 7 / 8), colour),
        Layer(line(1 / 8, 7 / 8, 7 / 8, 1 / 8, 1 / 8), dark),
        Layer(minus(block(1 / 8, 1 / 8, 7 / 8, 7 / 8), block(1 / 4, 1 / 4, 3 / 4, 3 / 4)), colour),
        Layer(
            minus(block(7 / 32, 7 / 32, 25 / 32, 25 / 32), block(1 / 4, 1 / 4, 3 / 4, 3 / 4)), dark
        ),
    )


@functools.lru_cache(maxsize=8)
def sokoban(tile_size: int) -> np.ndarray:
    """Return sprites in the order of the observation's values.

    These are floor, wall, target, box, box on a target, player, and player on a target.
    """
    floor, target = GROUND, (*GROUND, *AIM)
    looks = [floor, BRICKS, target, (*floor, *_crate(WOOD_TOP)), (*floor, *_crate(GREEN))]
    over = (*floor, Layer(disc(1 / 2, 1 / 2, 15 / 32), GREEN), *PERSON)
    return _atlas(tile_size, [*looks, (*floor, *PERSON), over])


@functools.lru_cache(maxsize=8)
def maze(tile_size: int) -> np.ndarray:
    """Return sprites of floor, wall, target, player, and player on the target."""
    star = polygon((1 / 2, 3 / 16), (13 / 16, 1 / 2), (1 / 2, 13 / 16), (3 / 16, 1 / 2))
    target = (Layer(WHOLE, (38, 140, 76)), Layer(star, (206, 246, 178)))
    wall = (Layer(WHOLE, ROCK), Layer(block(0, 0, 1, 1 / 8), ROCK_TOP))
    floor = (Layer(WHOLE, FLOOR),)
    looks = [floor, wall, target, (*floor, *PERSON), (*target, *PERSON)]
    return _atlas(tile_size, looks)


@functools.lru_cache(maxsize=8)
def tsp(tile_size: int) -> np.ndarray:
    """Return sprites in the order of the values that `TSP.tiles` returns.

    These are an empty tile, a city, a visited city, the traveller in a city, home, and the
    traveller at home.
    """
    city = (Layer(WHOLE, FLOOR), Layer(disc(1 / 2, 1 / 2, 5 / 16), YELLOW))
    visited = (Layer(WHOLE, FLOOR), Layer(disc(1 / 2, 1 / 2, 5 / 16), (92, 98, 114)))
    roof = polygon((1 / 2, 1 / 16), (15 / 16, 1 / 2), (1 / 16, 1 / 2))
    home = (
        Layer(WHOLE, FLOOR),
        Layer(block(3 / 16, 7 / 16, 13 / 16, 15 / 16), GREEN),
        Layer(roof, _mixed(GREEN, WHITE, 0.4)),
    )
    there = (Layer(WHOLE, FLOOR), *PERSON)
    return _atlas(tile_size, [(Layer(WHOLE, FLOOR),), city, visited, there, home, (*home, *PERSON)])
