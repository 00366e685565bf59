"""Sprites of the Craft worlds, drawn by code, and how they are numbered.

First the blocks with nobody on them (a block's own number), then the `PAIRS` of a block and
somebody on it, nothing, and the things of the inventory with their counts. Shapes are legible from
7 pixels on.
"""

import functools
from typing import NamedTuple

import numpy as np

from ..core.paint import RGB, Layer, changed, mirrored, paint, shrunk, turned
from . import looks
from .icons import ICONS, digit
from .looks import WHITE
from .tables import CLASSIC, Block

NOBODY = 0
PLAYER = 1  # facing left, right, up, down: 1 to 4; asleep: 5
ASLEEP = 5
MOBS = {"zombie": 6, "cow": 7, "skeleton": 8}
ARROW = 9  # flying left, right, up, down: 9 to 12
NUM_OVERLAYS = 13
NUM_BLOCKS = len(Block)

ICON = 5 / 7  # side of an icon in its tile
RIM = 1 / 28  # around a digit
LARGE = 14  # pixels of a tile
MOST = max(CLASSIC.most, CLASSIC.best)  # of one thing


def _turned(layers: tuple[Layer, ...], quarters: int) -> tuple[Layer, ...]:
    return changed(layers, lambda shape: turned(shape, quarters))


OVERLAYS: dict[int, tuple[Layer, ...]] = {
    PLAYER: looks.LEFT,
    PLAYER + 1: changed(looks.LEFT, mirrored),
    PLAYER + 2: looks.UP,
    PLAYER + 3: looks.DOWN,
    ASLEEP: looks.SLEEPER,
    MOBS["zombie"]: looks.ZOMBIE,
    MOBS["cow"]: looks.COW,
    MOBS["skeleton"]: looks.SKELETON,
    ARROW: _turned(looks.SHOT, 2),
    ARROW + 1: looks.SHOT,
    ARROW + 2: _turned(looks.SHOT, 3),
    ARROW + 3: _turned(looks.SHOT, 1),
}
_PLAYERS = (PLAYER, PLAYER + 1, PLAYER + 2, PLAYER + 3, ASLEEP)
_ARROWS = (ARROW, ARROW + 1, ARROW + 2, ARROW + 3)
_EVERYBODY = (*_PLAYERS, *MOBS.values(), *_ARROWS)
PAIRS: tuple[tuple[Block, int], ...] = (  # what can be on which block
    *((b, o) for b in (Block.GRASS, Block.PATH, Block.SAND) for o in _EVERYBODY),
    *((Block.LAVA, o) for o in (*_PLAYERS, *_ARROWS)),
    *((Block.OUT_OF_BOUNDS, o) for o in _PLAYERS),
    *((Block.WATER, o) for o in _ARROWS),
)


class Numbers(NamedTuple):
    """How the sprites are numbered."""

    placed: np.ndarray  # int32 (blocks, overlays): a block with somebody on it
    icons: dict[str, int]  # that of a count of 0; those of 1, 2, ... follow
    blank: int  # nothing
    total: int


def _numbers() -> Numbers:
    # Somebody where nobody can be (a world set up by hand) is shown on a path.
    first = {pair: NUM_BLOCKS + i for i, pair in enumerate(PAIRS)}
    placed = np.arange(NUM_BLOCKS, dtype=np.int32)[:, None].repeat(NUM_OVERLAYS, axis=1)
    for cell, overlay in np.ndindex(NUM_BLOCKS, NUM_OVERLAYS):
        if overlay != NOBODY:
            pair = (Block(cell), overlay)
            placed[cell, overlay] = first.get(pair, first[Block.PATH, overlay])
    placed.flags.writeable = False
    blank = NUM_BLOCKS + len(PAIRS)
    icons = {name: blank + 1 + i * (MOST + 1) for i, name in enumerate(ICONS)}
    return Numbers(placed, icons, blank, blank + 1 + len(ICONS) * (MOST + 1))


NUMBERS = _numbers()


@functools.lru_cache(maxsize=8)
def atlas(size: int) -> np.ndarray:
    """All sprites by daylight, uint8 (NUMBERS.total, size, size, 3)."""
    nothing = np.zeros((size, size, 3))
    blocks = {cell: paint(nothing, layers) for cell, layers in looks.BLOCKS.items()}
    sheet = [blocks[cell] for cell in Block]
    sheet += [paint(blocks[cell], OVERLAYS[overlay]) for cell, overlay in PAIRS]
    sheet.append(nothing)
    for layers in ICONS.values():
        icon = paint(nothing, changed(layers, lambda shape: shrunk(shape, ICON, 0, 0)))
        sheet += [nothing, *(paint(icon, _count(n, size)) for n in range(1, MOST + 1))]
    made = np.stack(sheet).round().astype(np.uint8)
    made.flags.writeable = False
    return made


def _count(number: int, size: int) -> tuple[Layer, ...]:
    """Return a white digit with a black rim; in large tiles it can be smaller than on sevenths."""
    share = 1.0 if size < LARGE else 0.6
    corner = 1 - share
    layers = (Layer(digit(number, RIM), (0, 0, 0)), Layer(digit(number), WHITE))
    return changed(layers, lambda shape: shrunk(shape, share, corner, corner))


def icon(name: str, size: int, ground: RGB) -> np.ndarray:
    """Return the icon of a thing without a count, uint8 (size, size, 3), on a ground."""
    below = np.broadcast_to(np.array(ground, float), (size, size, 3))
    return paint(below, ICONS[name]).round().astype(np.uint8)
