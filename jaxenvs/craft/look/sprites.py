"""Sprites of Classic, drawn by code, and their indices.

The order of the sprites is: blocks without anything on them, by number; the `pairs` of a block and
an overlay (the player, a mob or a projectile on the block); a blank tile; and the icons of the
inventory, each with every count. Sprites are legible at sides of 7 pixels or more.
"""

import functools
from typing import NamedTuple

import numpy as np

from ...core.paint import RGB, Layer, changed, coverage, paint, shrunk
from ..tables import NEVER_PLACED, VITALS, Block, Rules
from . import creatures
from .blocks import WHITE
from .gear import ICONS
from .icons import digit
from .missiles import directions
from .realms import BLOCKS

NOBODY = 0
# Number of the overlay (a drawing above a block) that shows the player facing left.
# The next numbers show the player facing right, up and down.
PLAYER = 1
ASLEEP = 5

ICON = 5 / 7  # side of an icon, as a fraction of its tile's side
RIM = 1 / 28  # width of the black rim around a digit, as a fraction of its tile's side
LARGE = 14  # smallest side of a large tile, in pixels; digits take a smaller part of large tiles


class Numbers(NamedTuple):
    """Indices of the sprites of Classic, and numbers of its overlays.

    An overlay is a drawing above a block: the player, a mob or a projectile.
    """

    # Number of the overlay of each mob, and of each projectile flying left, by name.
    # The next three numbers are the overlays of the projectile flying right, up and down.
    overlays: dict[str, int]
    # Drawings of the overlays with the numbers 1, 2 and so on.
    # Number 0 means that nothing is above the block.
    drawings: tuple[tuple[Layer, ...], ...]
    # Pairs of a block and the number of an overlay above it; each pair has a sprite.
    pairs: tuple[tuple[Block, int], ...]
    # Index of the sprite that shows a block with an overlay above it, int32 (blocks, overlays).
    placed: np.ndarray
    # Name of an item or vital -> index of its sprite with the count 0. The sprites with the counts
    # 1, 2 and so on have the next indices.
    icons: dict[str, int]
    most: int  # highest count that is drawn
    blank: int  # sprite index of the blank tile
    total: int


@functools.cache
def numbers(rules: Rules) -> Numbers:
    """Return the indices of the sprites of Classic, and the numbers of its overlays."""
    drawings, overlays = _overlays(rules)
    pairs = tuple(_pairs(rules, overlays))
    blank = len(rules.blocks) + len(pairs)
    most = max(rules.most, rules.best)
    shown = [name for name in ICONS if name in (*VITALS, *rules.items)]
    icons = {name: blank + 1 + i * (most + 1) for i, name in enumerate(shown)}
    total = blank + 1 + len(shown) * (most + 1)
    placed = _placed(rules, pairs, len(drawings) + 1)
    return Numbers(overlays, drawings, pairs, placed, icons, most, blank, total)


def _overlays(rules: Rules) -> tuple[tuple[tuple[Layer, ...], ...], dict[str, int]]:
    """Return the drawings of all overlays, and a dict of overlay numbers by name.

    The dict has the number of each mob, and of each projectile flying left. The next three numbers
    stand for the projectile flying right, up and down.
    """
    drawings = [*creatures.PLAYER]
    overlays = {}
    for mob in rules.mobs:
        overlays[mob.name] = len(drawings) + 1
        drawings.append(creatures.MOBS[mob.name])
    for row in rules.projectiles:
        overlays[row.name] = len(drawings) + 1
        drawings += directions(row.name)
    return tuple(drawings), overlays


def _pairs(rules: Rules, overlays: dict[str, int]) -> list[tuple[Block, int]]:
    """Return the pairs (block, number of an overlay) that have a sprite.

    An overlay is the player, a mob or a projectile above the block. Only pairs that can occur have
    a sprite. The player can also be on OUT_OF_BOUNDS, because in Classic the player can walk off
    the map and die there, a quirk of Craftax, see `player.move`.
    """
    players = range(PLAYER, ASLEEP + 1)
    flying = [overlays[row.name] + way for row in rules.projectiles for way in range(4)]
    pairs: list[tuple[Block, int]] = []
    for block in rules.blocks:
        enters = block not in rules.solid | NEVER_PLACED
        if enters or block == Block.OUT_OF_BOUNDS:
            pairs += [(block, one) for one in players]
        if enters:
            pairs += [(block, overlays[mob.name]) for mob in rules.mobs if block not in mob.shuns]
        if enters or block in rules.overflown:
            pairs += [(block, one) for one in flying]
    return pairs


def _placed(rules: Rules, pairs: tuple[tuple[Block, int], ...], overlays: int) -> np.ndarray:
    # A pair that the rules never produce has no sprite, but a hand-made state may contain the pair.
    # Show a pair without a sprite by the sprite of the same overlay above a path.
    first = {pair: len(rules.blocks) + i for i, pair in enumerate(pairs)}
    placed = np.arange(len(rules.blocks), dtype=np.int32)[:, None].repeat(overlays, axis=1)
    for cell, overlay in np.ndindex(placed.shape):
        if overlay != NOBODY:
            pair = (rules.blocks[cell], overlay)
            placed[cell, overlay] = first.get(pair, first[Block.PATH, overlay])
    placed.flags.writeable = False
    return placed


@functools.lru_cache(maxsize=8)
def atlas(rules: Rules, size: int) -> np.ndarray:
    """Return the images of all sprites in daylight, uint8 (numbers(rules).total, size, size, 3)."""
    given = numbers(rules)
    nothing = np.zeros((size, size, 3))
    blocks = {cell: paint(nothing, BLOCKS[cell]) for cell in rules.blocks}
    sheet = list(blocks.values())
    sheet += [paint(blocks[cell], given.drawings[overlay - 1]) for cell, overlay in given.pairs]
    sheet.append(nothing)
    for name in given.icons:
        layers = changed(ICONS[name], lambda shape: shrunk(shape, ICON, 0, 0))
        icon = paint(nothing, layers)
        sheet += [nothing, *(paint(icon, _count(n, size)) for n in range(1, given.most + 1))]
    made = np.stack(sheet).round().astype(np.uint8)
    made.flags.writeable = False
    coverage.cache_clear()
    return made


@functools.lru_cache(maxsize=32)
def _count(number: int, size: int) -> tuple[Layer, ...]:
    """Return the drawing of a count: white digits with a black rim.

    In large tiles, the digits take a smaller part of the tile.
    """
    share = 1.0 if size < LARGE else 0.6
    corner = 1 - share
    layers = (Layer(digit(number, RIM), (0, 0, 0)), Layer(digit(number), WHITE))
    return changed(layers, lambda shape: shrunk(shape, share, corner, corner))


def icon(name: str, size: int, ground: RGB) -> np.ndarray:
    """Return the image of an icon without a count, uint8 (size, size, 3).

    `ground` is the colour of the background.
    """
    below = np.broadcast_to(np.array(ground, float), (size, size, 3))
    return paint(below, ICONS[name]).round().astype(np.uint8)
