"""Observations of the full game: `symbolic` as in Craftax, and the compact `ids`.

Each observation has the cells of the view, with zeros for dark cells. Values about the player
follow: 51 floats in `symbolic`, 49 bytes in `ids`.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, UInt8, UInt32

from ..core.platforms import by_platform
from ..core.settle import settled
from ..core.stacking import stacked
from . import sight, spots
from .boss import is_vulnerable
from .compiler.barriers import materialised
from .full_rows import ARMOUR, CHARMS, POTIONS, SPELLS, TRAITS
from .ground import BLOCK, BLOCK_BITS, ITEM, LIT, Ground
from .ladders import CLEARED, lies
from .state import World
from .tables import ROLES, Block, Item, Rules

TYPES = 8  # number of type flags for each class of mobs or projectiles
CLASSES = 5  # number of classes: three roles of mobs, mobs' projectiles, player's projectiles
# Items whose count is observed as a tenth of its square root, in Craftax's order.
_ROOTS = "wood stone coal iron diamond sapphire ruby sapling torches arrows"
ROOTS = tuple(_ROOTS.split())
# Items whose observed value is their count or level, divided by the given number.
SHARES = {"books": 2, "pickaxe": 4, "sword": 4}
VITALS = ("food", "drink", "energy", "mana")
PARTS = 256  # the observation `ids` stores the fractional part of the health in 256ths
# Number of flags that a cell has in the symbolic observation.
CHANNELS = len(Block) + len(Item) + CLASSES * TYPES + 1
NUMBERS = 51  # number of values in the symbolic observation that follow the flags of the cells
# In `by_cell`, a projectile has a mark (see `spots.spots`) with one bit per type. _FLYING is the
# index of the bit for type 0 of the mobs' projectiles; the bits of the other types follow.
_FLYING = 5
_LIGHT = -8  # index of the daylight in the observations `ids` and `symbolic`, counted from the end
_WORD = 32  # number of flags in a 32-bit word


class View(NamedTuple):
    """The player's view: arrays over its cells, int32 (rows, columns)."""

    block: Array  # `Block` of each cell; OUT_OF_BOUNDS beyond the map's border
    item: Array  # `Item` on each cell; a ladder down is LADDER_DOWN even if it is blocked
    lit: Array  # bool: whether the cell is lit; the player does not observe dark cells
    mob: Array  # 0 for no mob, else 1 + 8 * class + type; class 0 melee, 1 passive, 2 ranged
    projectiles: Array  # projectiles shot by mobs: bit i is set if one of type i is on the cell
    missiles: Array  # projectiles shot by the player: bit i is set if one of type i is on the cell


class Layout(NamedTuple):
    """Position of each part in the compact observation `ids`, a uint8 vector."""

    ground: slice  # 64 * item + block of each cell, row by row; 0 for dark cells
    mobs: slice  # mob on each cell, encoded as in `View.mob`
    projectiles: slice  # mobs' projectiles on each cell, encoded as in `View.projectiles`
    missiles: slice  # player's projectiles on each cell, encoded as in `View.missiles`
    items: slice  # count or level of each item, in the order of `Rules.items`
    charms: slice  # enchantment of each item in `CHARMS`: 0 none, 1 fire, 2 ice
    health: slice  # two bytes: whole points of health, and the fraction of a point in 256ths
    vitals: slice  # points of food, drink, energy, mana
    traits: slice  # experience points, dexterity, strength, intelligence
    facing: int  # direction that the player faces: 1 left, 2 right, 3 up, 4 down
    light: int  # daylight, 0 (darkest) to 255 (brightest)
    flags: slice  # sleeping, resting, fireball, iceball, floor, ladder is open, boss is vulnerable
    size: int


def layout(rules: Rules) -> Layout:
    """Return the position of each part in the compact observation `ids`."""
    cells = (rules.view[0] * rules.view[1],) * 4
    more = (len(rules.items), len(CHARMS), 2, len(VITALS), len(TRAITS), None, None, 7)
    return sight.laid_out(Layout, *cells, *more)


def categories(rules: Rules) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the number of values that each byte of `ids` can take.

    The first tuple is for the bytes of one cell of the view, the second for all other bytes.
    """
    # Number of bytes per cell: ground, mob, mobs' projectiles, player's projectiles.
    cells = 4
    size = layout(rules).size - cells * rules.view[0] * rules.view[1]
    return (sight.BYTE,) * cells, (sight.BYTE,) * size


def observation_layout(rules: Rules) -> tuple[tuple[str, str], ...]:
    """Return pairs (index or range, meaning) that describe the entries of `ids` and `symbolic`."""
    where, cells = layout(rules), rules.view[0] * rules.view[1] * CHANNELS
    meanings = {
        "ground": "cells of the view, row by row: 64 * item + block; 0 in the dark",
        "mobs": "0 none, else 1 + 8 * class + type: melee, passive, ranged",
        "projectiles": "of mobs, the sum of 1 << type",
        "missiles": "projectiles of the player, likewise",
        "items": ", ".join(rules.items).replace("_", " "),
        "charms": "sword, bow, helmet, chestplate, leggings, boots: 1 of fire, 2 of ice",
        "health": "whole points, and 256ths",
        "vitals": ", ".join(VITALS),
        "traits": ", ".join(TRAITS),
        "facing": "1 left, 2 right, 3 up, 4 down",
        "light": "daylight, 255 at noon",
        "flags": "asleep, resting, fireball, iceball, floor, ladder open, boss vulnerable",
    }
    rows = []
    for name, meaning in meanings.items():
        part = getattr(where, name)
        index = f"{part.start}:{part.stop}" if isinstance(part, slice) else f"{part}"
        rows.append((f"`ids[{index}]`", meaning))
    flags = "the block, the item, mobs and projectiles by class and type, whether it is lit"
    return (
        *rows,
        (f"`symbolic[0:{cells}]`", f"{CHANNELS} flags a cell: {flags}"),
        (f"`symbolic[{cells}:]`", f"{NUMBERS} numbers, as upstream has them"),
    )


def view(rules: Rules, cells: UInt8[Array, "floors size size"], world: World) -> View:
    """Return all cells of the player's view; `View.lit` is True for the cells that are not dark."""
    seen, inside = sight.around(rules, Ground(cells, world.floor), world)
    row, column = sight.places(rules, world)
    item = jnp.where(inside, lies(rules, world, seen, row, column), Item.NONE)
    mobs = sight.who(rules, world, [(world.mobs[role], TYPES) for role in ROLES])
    flying = sight.who(rules, world, [(world.projectiles, TYPES), (world.missiles, TYPES)])
    return View(
        block=jnp.where(inside, seen & BLOCK, Block.OUT_OF_BOUNDS),
        item=item,
        lit=inside & ((seen & LIT) != 0),
        mob=32 - jax.lax.clz(mobs),  # index of the mob bit, plus 1; a cell has at most one mob
        projectiles=flying & 255,
        missiles=flying >> TYPES,
    )


def by_cell(
    rules: Rules, cells: UInt8[Array, "floors size size"], world: World
) -> UInt32[Array, " cells"]:
    """Do the work of `view` on a GPU: return one 32-bit word per cell, 0 for a dark cell.

    The four bytes of a word are the cell's entries in the parts `ground`, `mobs`, `projectiles` and
    `missiles` of the observation `ids`, see `Layout`. Some words at the end may be padding, see
    `spots.padded`.
    """
    mobs = [(world.mobs[role], TYPES) for role in ROLES]
    flying = [(world.projectiles, TYPES), (world.missiles, TYPES)]
    given = (
        spots.corner(rules, world),
        _ladders(rules, world),
        spots.spots(rules, world, mobs, lambda type, first: type + first + 1),
        spots.spots(rules, world, flying, lambda type, first: 1 << (type + first + _FLYING)),
    )
    # Without the barrier, XLA would fuse the computation of `given` into the kernel over cells.
    # The thread of each cell would then compute the positions of all mobs, projectiles and ladders.
    corner, (up, down), mobs, flying = materialised(given)
    seen, inside, rows, columns = spots.cells_in_row(rules, cells, corner)
    cell = (rows << 8) | columns
    item = jnp.where(cell == down, Item.LADDER_DOWN, Item.TORCH)
    item = jnp.where(cell == up, Item.LADDER_UP, item)
    item = jnp.where((seen & ITEM) != 0, item, Item.NONE)
    mob = functools.reduce(jnp.maximum, spots.marks_at(rules, mobs))
    fly = functools.reduce(jnp.bitwise_or, spots.marks_at(rules, flying))
    ground = ((seen & BLOCK) | (item << BLOCK_BITS)).astype(jnp.uint32)
    word = ground | (mob << np.uint32(8)) | (fly << np.uint32(16 - _FLYING))
    return jnp.where(inside & ((seen & LIT) != 0), word, jnp.uint32(0))


def _ladders(rules: Rules, world: World) -> tuple[Array, Array]:
    """Return the cells of the ladders up and down as row << 8 | column; -1 for no ladder."""
    stairs, last = world.stairs, rules.last_floor
    up, down = ((stairs[f"{way}_row"] << 8) | stairs[f"{way}_column"] for way in ("up", "down"))
    has_up, has_down = (world.floor > 0) & (world.floor < last), world.floor < last
    return jnp.where(has_up, up, -1), jnp.where(has_down, down, -1)


def ids(
    rules: Rules, cells: UInt8[Array, "floors size size"], world: World, light: Array
) -> UInt8[Array, " ids"]:
    """Return the compact observation `ids`; `layout` returns the position of its parts."""

    def from_view(cells: Array, world: World, light: Array) -> Array:
        planes = [plane.astype(jnp.uint8).reshape(-1) for plane in _planes(rules, cells, world)]
        return jnp.concatenate([*planes, jnp.stack(_bytes(rules, world, light))])

    def from_words(cells: Array, world: World, light: Array) -> Array:
        # `word` has four bytes per cell, see `by_cell`. Without the barrier, the GPU thread that
        # writes one of these bytes would compute all four again.
        word = materialised(by_cell(rules, cells, world))
        planes = jax.lax.bitcast_convert_type(word, jnp.uint8)[: rules.view[0] * rules.view[1]]
        return jnp.concatenate(
            [planes.T.reshape(-1), sight.side_by_side(_bytes(rules, world, light), _LIGHT)]
        )

    return by_platform(cells, world, light, cpu=from_view, default=from_words)


def _bytes(rules: Rules, world: World, light: Array) -> list[UInt8[Array, ""]]:
    """Return the bytes of the observation `ids` that do not belong to cells of the view.

    They are the parts of `Layout` from `items` to `flags`, in this order, each value as a uint8
    scalar.
    """
    health = world.vitals["health"]
    whole = jnp.floor(health)
    part = jnp.minimum(jnp.round((health - whole) * PARTS), PARTS - 1)
    numbers = [
        *(world.items[name] for name in rules.items),
        *(world.charms[name] for name in CHARMS),
        *(whole, part),
        *(world.vitals[name] for name in VITALS),
        *(world.traits[name] for name in TRAITS),
        world.facing,
        jnp.round(light * 255),
        *_flags(world),
    ]
    return [n.astype(jnp.uint8) for n in numbers]


def symbolic(
    rules: Rules, cells: UInt8[Array, "floors size size"], world: World, light: Array
) -> Float32[Array, " floats"]:
    """Return Craftax's symbolic observation: flags of each cell, then values about the player."""

    def from_view(cells: Array, world: World, light: Array) -> Array:
        planes = [plane.reshape(-1) for plane in _planes(rules, cells, world)]
        return jnp.concatenate([_by_flag(*planes), jnp.stack(_of_world(world, light))])

    def from_words(cells: Array, world: World, light: Array) -> Array:
        word = materialised(by_cell(rules, cells, world))
        planes = jax.lax.bitcast_convert_type(word, jnp.uint8).T.astype(jnp.int32)
        flags = _by_word(*planes)[: rules.view[0] * rules.view[1] * CHANNELS]
        return jnp.concatenate([flags, sight.side_by_side(_of_world(world, light), _LIGHT)])

    return by_platform(cells, world, light, cpu=from_view, default=from_words)


def _of_world(world: World, light: Array) -> list[Float32[Array, ""]]:
    """Return the 51 values about the player at the end of the symbolic observation."""
    vitals = [world.vitals[name].astype(jnp.float32) for name in ("health", *VITALS)]
    traits = [world.traits[name] for name in TRAITS]
    charms = [world.charms[name] for name in CHARMS]
    return _numbers(world.items, charms, vitals, traits, world.facing, light, _flags(world))


def expand(rules: Rules, ids: UInt8[Array, " ids"]) -> Float32[Array, " floats"]:
    """Compute the symbolic observation from the compact observation `ids` of the same state.

    Daylight and health are less exact than in the observation `symbolic`, because `ids` has only 8
    bits for the daylight and 8 bits for the fraction of a point of health. All other values are
    equal.
    """
    where, numbers = layout(rules), ids.astype(jnp.int32)
    planes = (where.ground, where.mobs, where.projectiles, where.missiles)
    read = {
        name: [numbers[i] for i in range(part.start, part.stop)]
        for name, part in where._asdict().items()
        if isinstance(part, slice) and part not in planes
    }
    items = dict(zip(rules.items, read["items"], strict=True))
    whole, part = (number.astype(jnp.float32) for number in read["health"])
    vitals = [whole + part / PARTS, *(points.astype(jnp.float32) for points in read["vitals"])]
    light = ids[where.light].astype(jnp.float32) / 255
    facing = numbers[where.facing]
    rest = _numbers(items, read["charms"], vitals, read["traits"], facing, light, read["flags"])
    cells = by_platform(*(numbers[plane] for plane in planes), cpu=_by_flag, default=_by_word)
    return jnp.concatenate([cells, by_platform(rest, cpu=jnp.stack, default=stacked)])


def counts(rules: Rules, ids: UInt8[Array, " ids"]) -> UInt8[Array, " counts"]:
    """Return the quantities that an observation `ids` contains.

    The quantities are items, enchantments, vitals (health in whole points), attributes and floor.
    """
    where = layout(rules)
    health, floor = where.health.start, where.flags.start + 4
    parts = slice(where.items.start, health + 1), slice(where.health.stop, where.facing)
    return jnp.concatenate([ids[part] for part in (*parts, slice(floor, floor + 1))])


def flags(rules: Rules) -> int:
    """Return the number of flags that a cell has in the symbolic observation."""
    return CHANNELS


def floats(rules: Rules) -> int:
    """Return the length of the symbolic observation."""
    return rules.view[0] * rules.view[1] * CHANNELS + NUMBERS


def _planes(rules: Rules, cells: Array, world: World) -> list[Int32[Array, "rows columns"]]:
    """Return four arrays with one integer per cell of the view; dark cells have 0.

    The integers encode the ground (block and item), the mob, the mobs' projectiles and the player's
    projectiles, as the parts `ground`, `mobs`, `projectiles` and `missiles` of the observation
    `ids` do, see `Layout`.
    """
    seen = view(rules, cells, world)
    ground = seen.block | (seen.item << BLOCK_BITS)
    planes = [ground, seen.mob, seen.projectiles, seen.missiles]
    return [jnp.where(seen.lit, plane, 0) for plane in planes]


def _flags(world: World) -> list[Any]:
    """Return the values of the observation `ids` that `Layout.flags` lists, in the same order."""
    spells = (world.spells[spell] for spell in SPELLS)
    is_open = world.kills >= CLEARED
    return [world.sleeping, world.resting, *spells, world.floor, is_open, is_vulnerable(world)]


def _numbers(
    items: dict[str, Any],
    charms: list[Any],
    vitals: list[Any],
    traits: list[Any],
    facing: Any,
    light: Any,
    flags: list[Any],
) -> list[Float32[Array, ""]]:
    """Return the 51 values about the player, scaled and ordered as in Craftax's observation.

    The arguments are the unscaled counts and levels of items, the enchantments of sword, bow and
    armour, the vitals, the attributes, the player's direction, the daylight, and the values of
    `_flags`.
    """
    sword, bow, *worn = charms
    tenth = np.float32(10)
    roots = [jnp.sqrt(_real(items[name])) / tenth for name in (*ROOTS, *POTIONS)]
    shares = [_real(items[name]) / np.float32(most) for name, most in SHARES.items()]
    points = [_real(number) / tenth for number in (*vitals, *traits)]
    turned = [_real(facing == way) for way in range(1, 5)]
    armour = [_real(items[name]) / np.float32(2) for name in ARMOUR]
    *states, floor, is_open, vulnerable = (_real(flag) for flag in flags)
    before = [*roots[: len(ROOTS)], *shares, *map(_real, (sword, bow, items["bow"]))]
    after = [light, *states, floor / tenth, is_open, vulnerable]
    return [*before, *roots[len(ROOTS) :], *points, *turned, *armour, *map(_real, worn), *after]


def _real(number: Any) -> Float32[Array, ""]:
    return number.astype(jnp.float32)


def _by_flag(
    ground: Array, mob: Array, projectiles: Array, missiles: Array
) -> Float32[Array, " n"]:
    """Return the flags of each cell in the symbolic observation.

    The flags are block, item, mobs and projectiles by class and type, and whether the cell is lit.
    """
    number = np.arange(CHANNELS, dtype=np.int32)
    items, mobs = len(Block), len(Block) + len(Item)
    flying = mobs + 3 * TYPES
    low = settled(ground | (mob << 8))[:, None]
    high = settled(projectiles | (missiles << TYPES))[:, None]
    shown = (low & 255) != 0
    is_block = (low & BLOCK) == number
    is_item = ((low >> BLOCK_BITS) & 3) == number - items
    is_mob = (low >> 8) == number - mobs + 1
    flies = ((high >> np.clip(number - flying, 0, 31)) & 1) != 0
    flags = jnp.where(number < mobs, is_item & shown, jnp.where(number < flying, is_mob, flies))
    flags = jnp.where(number < items, is_block & shown, flags)
    return jnp.where(number == CHANNELS - 1, shown, flags).astype(jnp.float32).reshape(-1)


def _by_word(
    ground: Array, mob: Array, projectiles: Array, missiles: Array
) -> Float32[Array, " n"]:
    """Do the work of `_by_flag` on a GPU: return each cell's flags in the symbolic observation.

    The flags of a cell are first set as bits of a few 32-bit words. Then each flag is read from its
    bit.
    """
    items, mobs = len(Block), len(Block) + len(Item)
    flying, shown = mobs + 3 * TYPES, ground != 0
    block, item = ground & BLOCK, ground >> BLOCK_BITS
    # For each cell, four flag indices: block, item, mob, and whether the cell is lit. If the cell
    # lacks one of these flags, for example because it has no mob, the index is CHANNELS, which is
    # not the index of any flag.
    numbers = (
        jnp.where(shown & (block < items), block, CHANNELS),
        jnp.where(shown, items + item, CHANNELS),
        jnp.where((mob > 0) & (mob <= 3 * TYPES), mobs - 1 + mob, CHANNELS),
        jnp.where(shown, CHANNELS - 1, CHANNELS),
    )
    both = (projectiles | (missiles << TYPES)).astype(jnp.uint32)
    words = []
    # A shift by 32 or more yields 0, so flags that belong to other words set no bit in this word.
    for start in range(0, CHANNELS, _WORD):
        bits = [jnp.uint32(1) << (number - start).astype(jnp.uint32) for number in numbers]
        word, shift = functools.reduce(jnp.bitwise_or, bits), flying - start
        words.append(word | (both << shift if shift >= 0 else both >> -shift))
    # Without the barrier, the GPU thread that writes one flag would compute the whole word again.
    words = materialised(words)
    place = np.arange(_WORD, dtype=np.uint32)
    flags = jnp.concatenate([(word[:, None] >> place) & 1 for word in words], axis=1)
    return flags[:, :CHANNELS].astype(jnp.float32).reshape(-1)
