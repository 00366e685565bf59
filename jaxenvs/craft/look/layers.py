"""Sprites of the full game: grounds, and overlays that are drawn over them.

Classic has a sprite for each pair of a block and a creature; the full game would need thousands. So
a cell of the full game has two sprites: a ground (a block with its item, or an icon of the
inventory) below an overlay (a creature with a projectile above it, or a number). As in Craftax, the
inventory has four rows below the view.
"""

import functools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ...core.paint import (
    RGB,
    Layer,
    Shape,
    block,
    changed,
    coverage,
    paint,
    shrunk,
    union,
)
from ..tables import Item, Rules
from . import creatures, gear, missiles, realms
from .blocks import WHITE
from .icons import digit
from .sprites import ASLEEP, LARGE, RIM

STATUS_ROWS = 4
MOST = 99  # highest number that is drawn on an icon; higher counts show this number
ICON = 0.8  # side of an icon, as a fraction of its tile's side
DIGIT = 0.56  # scale of the digits of `icons.digit` in tiles of at least LARGE pixels
SMALL_DIGITS = (  # digits 0 to 9 for small tiles, each 3 columns x 4 rows, listed row by row
    "111101101111",
    "010110010111",
    "110001010111",
    "111011001111",
    "101101111001",
    "111110001110",
    "100111101111",
    "111001010010",
    "111111101111",
    "111101111001",
)
ARMOUR = tuple(gear.ARMOUR)
KEY = 0  # value of the bytes of an overlay's transparent pixels, which show the ground


class Place(NamedTuple):
    """A cell of the inventory, and the item, vital or attribute that it shows."""

    row: int
    column: int
    name: str  # name of an item, vital, attribute or spell, or `floor`
    icons: tuple[str, ...]  # icons for counts of 1, 2, ...; higher counts have the last icon
    numbered: bool = True  # whether the count is drawn over the icon
    # Key under which `World.charms` stores the enchantment of the item.
    # None: the item cannot be enchanted.
    charm: str | None = None
    bare: bool = False  # whether the enchantment is drawn even if the player lacks the item


_MADE_OF = tuple(gear.MATERIALS)
PLACES = (
    *(
        Place(0, i, name, (name,))
        for i, name in enumerate(("health", "food", "drink", "energy", "mana"))
    ),
    Place(0, 6, "floor", ()),
    Place(0, 9, "xp", ("xp",)),
    *(
        Place(1, i, name, (name,))
        for i, name in enumerate(("coal", "iron", "diamond", "sapphire", "ruby", "sapling"))
    ),
    Place(1, 6, "bow", ("bow",), numbered=False),
    Place(1, 8, "sword", tuple(f"{m}_sword" for m in _MADE_OF), False, "sword", bare=True),
    *(Place(2, i, name, (name,)) for i, name in enumerate(("wood", "stone", "torches", "books"))),
    Place(2, 4, "fireball", ("fireball",), numbered=False),
    Place(2, 5, "iceball", ("iceball",), numbered=False),
    Place(2, 6, "arrows", ("arrows",), charm="bow"),
    Place(2, 8, "pickaxe", tuple(f"{m}_pickaxe" for m in _MADE_OF), numbered=False),
    *(
        Place(3, i, f"{colour}_potion", (f"{colour}_potion",))
        for i, colour in enumerate(gear.POTIONS)
    ),
    *(
        Place(i, 7, piece, (f"iron_{piece}", f"diamond_{piece}"), False, piece, bare=True)
        for i, piece in enumerate(ARMOUR)
    ),
    *(
        Place(i + 1, 9, name, (name,))
        for i, name in enumerate(("dexterity", "strength", "intelligence"))
    ),
)


class Numbers(NamedTuple):
    """Indices of the full game's sprites in the arrays that `grounds` and `overlays` return.

    A ground is a block with its item, or an icon of the inventory. An overlay is drawn above a
    ground: a creature (the player or a mob) with a projectile, or a number. Creatures and
    projectiles are numbered from 1, and 0 stands for none. The overlay of a creature with a
    projectile has the index `creature * flights + projectile` in `overlays`.
    """

    blank: int  # index, in `grounds`, of the sprite of an empty inventory cell
    # For each entry of PLACES, index in `grounds` of the icon for the count 0. The icons for the
    # counts 1, 2 and so on have the next indices.
    icons: tuple[int, ...]
    # Mob name -> number of the mob, from which the index of an overlay is computed. The player's
    # numbers, such as PLAYER, are in the module `sprites`.
    standing: dict[str, int]
    # Projectile name -> number of the projectile flying left, from which the index of an overlay is
    # computed. Add 1 to the number if the projectile flies right, 2 if up, 3 if down.
    flying: dict[str, int]
    flights: int  # number of projectile drawings: four directions of each type, and 1 for none
    digits: int  # index, in `overlays`, of the sprite of the number 0; the numbers 1 to MOST follow


@functools.cache
def numbers(rules: Rules) -> Numbers:
    """Return the indices of the full game's sprites, see `Numbers`."""
    blank = len(rules.blocks) * len(Item)
    ends = np.cumsum([blank + 1, *(len(_shown(place)) for place in PLACES)]).tolist()
    first, flights = ASLEEP + 1, 1 + 4 * len(rules.projectiles)
    return Numbers(
        blank=blank,
        icons=tuple(ends[:-1]),
        standing={mob.name: first + i for i, mob in enumerate(rules.mobs)},
        flying={row.name: 1 + 4 * i for i, row in enumerate(rules.projectiles)},
        flights=flights,
        digits=(first + len(rules.mobs)) * flights,
    )


def _shown(place: Place) -> list[tuple[Layer, ...]]:
    """Return the icons that an inventory cell shows for the counts 0, 1, 2, ...

    If the cell's item can be enchanted, these icons are followed by the same icons with sparks of
    fire, and then with sparks of ice.
    """
    icons: list[tuple[Layer, ...]] = [(), *(gear.ICONS[name] for name in place.icons)]
    if place.charm is None:
        return icons
    enchanted = [
        gear.enchanted(icon, element) if icon or place.bare else ()
        for element in gear.ELEMENTS
        for icon in icons
    ]
    return icons + enchanted


@functools.lru_cache(maxsize=8)
def grounds(rules: Rules, size: int) -> np.ndarray:
    """Return the images of all grounds, uint8 (grounds, size, size, 3).

    First come all pairs of a block and an item, ordered by block and then by item (`Item.NONE`
    first). The blank tile and the icons of PLACES follow.
    """
    nothing = np.zeros((size, size, 3))
    sheet = []
    for cell in rules.blocks:
        ground = paint(nothing, realms.BLOCKS[cell])
        sheet += [paint(ground, realms.ITEMS.get(item, ())) for item in Item]
    sheet.append(nothing)
    margin = (1 - ICON) / 2
    for place in PLACES:
        for icon in _shown(place):
            moved = changed(icon, lambda shape: shrunk(shape, ICON, margin, margin))
            sheet.append(paint(nothing, moved))
    return _kept(np.stack(sheet).round().astype(np.uint8))


@functools.lru_cache(maxsize=8)
def overlays(rules: Rules, size: int) -> np.ndarray:
    """Return the images of all overlays, uint8 (overlays, size, size, 3).

    All bytes of transparent pixels are KEY. The first overlays show pairs of a creature (the player
    or a mob) and a projectile painted over the creature, ordered by creature. The first creature
    and the first projectile of this order are "none". After the pairs come the numbers 0 to MOST.
    """
    standing = [(), *creatures.PLAYER, *(creatures.MOBS[mob.name] for mob in rules.mobs)]
    flying: list[Iterable[Layer]] = [()]
    for row in rules.projectiles:
        flying += missiles.directions(row.name)
    below, above = _cut_out(standing, size)[:, None], _cut_out(flying, size)[None]
    both = np.where(above == KEY, below, above).reshape(-1, size, size, 3)
    return _kept(
        np.concatenate([both, _cut_out([_number(n, size) for n in range(MOST + 1)], size)])
    )


def _number(number: int, size: int) -> tuple[Layer, ...]:
    """Return the drawing of a number of one or two digits, white with black around it.

    The number is in the lower right corner of the tile.
    """
    digits = [int(mark) for mark in reversed(str(number))]
    if size < LARGE:
        white = union(*(_small_digit(one, place) for place, one in enumerate(digits)))
        black = block(1 - 0.4 * len(digits), 0.6, 1, 1)
        return (Layer(black, (0, 0, 0)), Layer(white, WHITE))
    both = ((2 * RIM, (0, 0, 0)), (0.0, WHITE))
    return tuple(_digit(one, n, *look) for look in both for n, one in enumerate(digits))


# Cached, because all two-digit numbers share the same ten digit shapes.
@functools.lru_cache(maxsize=64)
def _digit(number: int, place: int, grow: float, colour: RGB) -> Layer:
    """Return the drawing of one digit of a number; `place` 0 is the last digit, 1 the first."""
    left = 1 - DIGIT * (1 + 4 / 7 * place)
    return Layer(shrunk(digit(number, grow), DIGIT, left, 1 - DIGIT), colour)


@functools.lru_cache(maxsize=32)
def _small_digit(number: int, place: int) -> Shape:
    """Return the shape of a digit for small tiles, 3 tenths of a tile wide and 4 tenths high.

    `place` 0 is the tile's lower right corner, `place` 1 is left of it.
    """
    cells = [divmod(i, 3) for i, mark in enumerate(SMALL_DIGITS[number]) if mark == "1"]
    left = 0.7 - 0.4 * place
    return union(
        *(block(left + c / 10, 0.6 + r / 10, left + (c + 1) / 10, 0.7 + r / 10) for r, c in cells)
    )


def _cut_out(drawings: Iterable[Iterable[Layer]], size: int) -> np.ndarray:
    """Paint drawings as sprites whose pixels are either opaque or transparent.

    All bytes of a transparent pixel are KEY.
    """
    nothing, sheet = np.zeros((size, size, 3)), []
    for layers in map(tuple, drawings):
        on_black = paint(nothing, layers)
        cover = 1 - (paint(nothing + 255, layers) - on_black).mean(axis=-1, keepdims=True) / 255
        colour = (on_black / np.maximum(cover, 0.5)).round().clip(KEY + 1, 255)
        sheet.append(np.where(cover >= 0.5, colour, KEY).astype(np.uint8))
    return np.stack(sheet)


def _kept(sheet: np.ndarray) -> np.ndarray:
    sheet.flags.writeable = False
    coverage.cache_clear()
    return sheet
