"""Sprites of the grid worlds, drawn by code: tile byte, agent on it, in sight or not."""

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
from ..core.paint import RGB, Layer, block, minus, polygon, wave
from .tiles import EMPTY, GOAL, LAVA, NUM_CODES, WALL, Colour, Kind

NUM_SPRITES = 2 * NUM_AGENTS * NUM_CODES

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


def _all_colours(kind: Kind) -> dict[int, RGB]:
    return {kind | colour << 4: COLOURS[colour.name.lower()] for colour in Colour}


def _plain(code: int) -> dict[int, RGB]:
    """A tile whose paints do not depend on its colour."""
    return {code: (0, 0, 0)}


LOOKS = (
    Look(DARKNESS, _plain(Kind.UNSEEN), ground=False),
    Look((), _plain(EMPTY), agent="on"),
    Look(BRICKS, _plain(WALL), ground=False),
    Look(SLAB, _all_colours(Kind.FLOOR), agent="on"),
    Look(OPEN, _all_colours(Kind.DOOR), agent="on"),
    Look(CLOSED, _all_colours(Kind.CLOSED_DOOR), ground=False),
    Look(LOCKED, _all_colours(Kind.LOCKED_DOOR), ground=False),
    Look(KEY, _all_colours(Kind.KEY), agent="hands"),
    Look(BALL, _all_colours(Kind.BALL), agent="hands"),
    Look(BOX, _all_colours(Kind.BOX), agent="hands"),
    # The colour of the byte is that of the key inside.
    Look(BOX, dict.fromkeys(_all_colours(Kind.KEY_BOX), COLOURS["grey"]), agent="hands"),
    Look(TARGET, _plain(GOAL), ground=False, agent="on"),
    Look(WAVES, _plain(LAVA), ground=False, agent="on"),
)
VALID_CODES = tuple(sorted(code for look in LOOKS for code in look.codes))


def sprite(code: ArrayLike, agent: ArrayLike, lit: ArrayLike) -> Int32[Array, "..."]:
    """Number of the sprite for a tile byte, `agent` (0 none, 1 + direction), in sight or not."""
    base = jnp.asarray(code).astype(jnp.int32) + NUM_CODES * jnp.asarray(agent).astype(jnp.int32)
    return base + NUM_CODES * NUM_AGENTS * jnp.asarray(lit).astype(jnp.int32)


@functools.lru_cache(maxsize=8)
def atlas(size: int) -> np.ndarray:
    """All sprites, uint8 (NUM_SPRITES, size, size, 3), indexed as `sprite` numbers them; see
    `core.looks.sheet`."""
    return sheet(LOOKS, NUM_CODES, size)
