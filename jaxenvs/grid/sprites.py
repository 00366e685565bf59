"""Sprites of the tiles of grid worlds, drawn by code."""

from ..core import looks
from ..core.gridworld import Sprites
from ..core.looks import Look
from ..core.paint import RGB, Layer, block, minus, polygon, wave
from .tiles import EMPTY, GOAL, LAVA, NUM_CODES, WALL, Colour, Kind, name

GRASS, GRASS_RIM, GRASS_STAR = (38, 140, 76), (86, 196, 118), (206, 246, 178)
MAGMA, MAGMA_DARK, MAGMA_HOT = (226, 88, 28), (168, 48, 20), (255, 198, 72)
SLAB = (
    Layer(block(1 / 16, 1 / 16, 15 / 16, 15 / 16, 1 / 16), "dark"),
    Layer(block(1 / 8, 1 / 8, 7 / 8, 7 / 8, 1 / 16), "main", 0.55),
)
BOX = (
    Layer(block(1 / 8, 1 / 8, 7 / 8, 7 / 8, 1 / 16), "main"),
    Layer(block(1 / 4, 3 / 8, 3 / 4, 3 / 4), "dark"),
    Layer(block(3 / 16, 1 / 4, 13 / 16, 5 / 16), "dark"),
    Layer(block(7 / 16, 3 / 8, 9 / 16, 1 / 2), "pale"),
)
TARGET = (
    Layer(looks.WHOLE, GRASS),
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
    Layer(looks.WHOLE, MAGMA),
    *(Layer(wave(y + 1 / 16, 1 / 16, 1 / 8), MAGMA_DARK) for y in (1 / 8, 7 / 16, 3 / 4)),
    *(Layer(wave(y, 1 / 16, 1 / 12), MAGMA_HOT) for y in (1 / 8, 7 / 16, 3 / 4)),
)


def _all_colours(kind: Kind) -> dict[int, RGB]:
    return {kind | colour << 4: looks.COLOURS[colour.name.lower()] for colour in Colour}


def _plain(code: int) -> dict[int, RGB]:
    """Return the dict `Look.codes` for a tile that always looks the same, such as a wall.

    The value (0, 0, 0) is not used, because all layers of such a tile have fixed colours.
    """
    return {code: (0, 0, 0)}


LOOKS = (
    Look(looks.DARKNESS, _plain(Kind.UNSEEN), ground=False),
    Look((), _plain(EMPTY), agent="on"),
    Look(looks.BRICKS, _plain(WALL), ground=False),
    Look(SLAB, _all_colours(Kind.FLOOR), agent="on"),
    Look(looks.OPEN, _all_colours(Kind.DOOR), agent="on"),
    Look(looks.CLOSED, _all_colours(Kind.CLOSED_DOOR), ground=False),
    Look(looks.LOCKED, _all_colours(Kind.LOCKED_DOOR), ground=False),
    Look(looks.KEY, _all_colours(Kind.KEY), agent="hands"),
    Look(looks.BALL, _all_colours(Kind.BALL), agent="hands"),
    Look(BOX, _all_colours(Kind.BOX), agent="hands"),
    # The tile byte has the colour of the key inside; the box itself is drawn grey.
    Look(BOX, dict.fromkeys(_all_colours(Kind.KEY_BOX), looks.COLOURS["grey"]), agent="hands"),
    Look(TARGET, _plain(GOAL), ground=False, agent="on"),
    Look(WAVES, _plain(LAVA), ground=False, agent="on"),
)
SPRITES = Sprites(LOOKS, NUM_CODES, name)
