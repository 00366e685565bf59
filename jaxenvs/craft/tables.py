"""Enumerations of the Craft games, and row types of their rule tables.

`Rules` is one edition of the game: the tables that the stages of a step read, so that stages name
no block where editions differ. Classic uses a subset of the blocks, actions and achievements.
"""

import dataclasses
import functools
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .packing import Field, Packing


class Block(IntEnum):
    """Blocks of the map, numbered as upstream."""

    # Never in a map: INVALID; OUT_OF_BOUNDS, seen beyond the border; WOOD, an icon.
    INVALID, OUT_OF_BOUNDS, GRASS, WATER, STONE, TREE, WOOD, PATH, COAL, IRON = range(10)
    DIAMOND, CRAFTING_TABLE, FURNACE, SAND, LAVA, PLANT, RIPE_PLANT = range(10, 17)
    # In the full game only. No map has GRAVEL or NECROMANCER_VULNERABLE, which is a sprite.
    WALL, DARKNESS, WALL_MOSS, STALAGMITE, SAPPHIRE, RUBY, CHEST, FOUNTAIN = range(17, 25)
    FIRE_GRASS, ICE_GRASS, GRAVEL, FIRE_TREE, ICE_SHRUB = range(25, 30)
    ENCHANTMENT_TABLE_FIRE, ENCHANTMENT_TABLE_ICE, NECROMANCER = range(30, 33)
    GRAVE, GRAVE2, GRAVE3, NECROMANCER_VULNERABLE = range(33, 37)


class Item(IntEnum):
    """Items on cells of the full game's map, numbered as upstream."""

    NONE, TORCH, LADDER_DOWN, LADDER_UP = range(4)
    LADDER_DOWN_BLOCKED = 4  # a sprite, never in a map


class Action(IntEnum):
    """Actions of the player, numbered as upstream."""

    NOOP, LEFT, RIGHT, UP, DOWN, DO, SLEEP = range(7)
    PLACE_STONE, PLACE_TABLE, PLACE_FURNACE, PLACE_PLANT = range(7, 11)
    MAKE_WOOD_PICKAXE, MAKE_STONE_PICKAXE, MAKE_IRON_PICKAXE = range(11, 14)
    MAKE_WOOD_SWORD, MAKE_STONE_SWORD, MAKE_IRON_SWORD = range(14, 17)
    # In the full game only.
    REST, DESCEND, ASCEND, MAKE_DIAMOND_PICKAXE, MAKE_DIAMOND_SWORD = range(17, 22)
    MAKE_IRON_ARMOUR, MAKE_DIAMOND_ARMOUR, SHOOT_ARROW, MAKE_ARROW = range(22, 26)
    CAST_FIREBALL, CAST_ICEBALL, PLACE_TORCH = range(26, 29)
    DRINK_POTION_RED, DRINK_POTION_GREEN, DRINK_POTION_BLUE = range(29, 32)
    DRINK_POTION_PINK, DRINK_POTION_CYAN, DRINK_POTION_YELLOW = range(32, 35)
    READ_BOOK, ENCHANT_SWORD, ENCHANT_ARMOUR, MAKE_TORCH = range(35, 39)
    LEVEL_UP_DEXTERITY, LEVEL_UP_STRENGTH, LEVEL_UP_INTELLIGENCE, ENCHANT_BOW = range(39, 43)


class Achievement(IntEnum):
    """Achievements, rewarded once an episode, numbered as upstream."""

    COLLECT_WOOD, PLACE_TABLE, EAT_COW, COLLECT_SAPLING, COLLECT_DRINK = range(5)
    MAKE_WOOD_PICKAXE, MAKE_WOOD_SWORD, PLACE_PLANT, DEFEAT_ZOMBIE, COLLECT_STONE = range(5, 10)
    PLACE_STONE, EAT_PLANT, DEFEAT_SKELETON, MAKE_STONE_PICKAXE = range(10, 14)
    MAKE_STONE_SWORD, WAKE_UP, PLACE_FURNACE, COLLECT_COAL, COLLECT_IRON = range(14, 19)
    COLLECT_DIAMOND, MAKE_IRON_PICKAXE, MAKE_IRON_SWORD = range(19, 22)
    # In the full game only. SOLIDER is upstream's spelling.
    MAKE_ARROW, MAKE_TORCH, PLACE_TORCH, MAKE_DIAMOND_SWORD = range(22, 26)
    MAKE_IRON_ARMOUR, MAKE_DIAMOND_ARMOUR, ENTER_GNOMISH_MINES, ENTER_DUNGEON = range(26, 30)
    ENTER_SEWERS, ENTER_VAULT, ENTER_TROLL_MINES, ENTER_FIRE_REALM = range(30, 34)
    ENTER_ICE_REALM, ENTER_GRAVEYARD, DEFEAT_GNOME_WARRIOR, DEFEAT_GNOME_ARCHER = range(34, 38)
    DEFEAT_ORC_SOLIDER, DEFEAT_ORC_MAGE, DEFEAT_LIZARD, DEFEAT_KOBOLD = range(38, 42)
    DEFEAT_TROLL, DEFEAT_DEEP_THING, DEFEAT_PIGMAN, DEFEAT_FIRE_ELEMENTAL = range(42, 46)
    DEFEAT_FROST_TROLL, DEFEAT_ICE_ELEMENTAL, DAMAGE_NECROMANCER = range(46, 49)
    DEFEAT_NECROMANCER, EAT_BAT, EAT_SNAIL, FIND_BOW, FIRE_BOW = range(49, 54)
    COLLECT_SAPPHIRE, LEARN_FIREBALL, CAST_FIREBALL, LEARN_ICEBALL = range(54, 58)
    CAST_ICEBALL, COLLECT_RUBY, MAKE_DIAMOND_PICKAXE, OPEN_CHEST = range(58, 62)
    DRINK_POTION, ENCHANT_SWORD, ENCHANT_ARMOUR, DEFEAT_KNIGHT, DEFEAT_ARCHER = range(62, 67)


VITALS = ("health", "food", "drink", "energy")


class Recipe(NamedTuple):
    """A crafting recipe; a crafting table must be near."""

    action: Action
    makes: str | tuple[str, ...]  # item; of several items the first below `level`
    costs: dict[str, int]  # counts of items
    at_furnace: bool  # whether a furnace must be near as well
    achievement: Achievement | None
    number: int = 1  # count added to the item
    level: int | None = None  # set instead: the item rises to this level
    below: int | None = None  # possible only while the item's count is below this


class Harvest(NamedTuple):
    """Effect of DO on a block."""

    block: Block
    tool: str | None  # item required
    item: str | None  # item gained, one
    leaves: Block
    achievement: Achievement | None
    chance: float = 1.0
    level: int = 1  # lowest level of the tool
    food: int = 0  # points added; resets hunger
    drink: int = 0  # points added; resets thirst


class Placement(NamedTuple):
    """Placement of a block or a torch on the cell ahead."""

    action: Action
    block: Block | None  # None: a torch, which lies on the block
    item: str  # item consumed
    cost: int
    on: frozenset[Block]  # blocks that it may replace, or lie on
    achievement: Achievement
    bare: bool = True  # whether the cell must be without an item


class Need(NamedTuple):
    """A need, counted in steps; beyond its limit a vital loses a point."""

    vital: str  # that loses the point
    counter: str  # steps since the last loss
    limit: int  # steps beyond which a point is lost
    asleep: float  # a step asleep counts as this many steps; negative: sleep reduces the need
    rest: int | None = None  # sleep gives a point when the counter falls below minus this


class Weapon(NamedTuple):
    """Damage of a blow, for each one of an item that the player has."""

    item: str
    damage: int


class MobRow(NamedTuple):
    """A type of mob; its role decides which fields count, see `mobs`."""

    name: str
    role: str  # one of ROLES
    health: int  # initial points
    appears_on: frozenset[Block]
    nearest: int  # appears only at more than this many steps from the player
    achievement: Achievement  # for killing it
    shuns: frozenset[Block] = frozenset()  # blocks it does not enter, besides solid ones
    food: int = 0  # points gained by killing it
    damage: int = 0  # physical damage of its blow, points
    fire: int = 0  # fire damage, points
    ice: int = 0  # ice damage, points
    resists: tuple[float, float, float] = (0, 0, 0)  # blocked shares of physical, fire, ice damage
    cooldown: int = 0  # steps from one attack to the next
    chase: int = 0  # steps from the player: melee approaches below it, ranged from it on
    gate: float = 0.0  # of a uniform draw: melee approaches below it, ranged keeps its range above
    retreat: int = 0  # ranged retreats up to this many steps from the player
    nearest_shot: int = 0  # ranged shoots from this many steps on
    farthest_shot: int = 0  # ranged shoots up to this many steps
    projectile: str | None = None  # name of its projectile


class ProjectileRow(NamedTuple):
    """A type of projectile."""

    name: str
    damage: int  # physical damage, points
    fire: int = 0  # fire damage, points
    ice: int = 0  # ice damage, points


class FloorRow(NamedTuple):
    """A floor of the full game."""

    name: str
    mobs: dict[str, str]  # name of the type that appears, by role
    chances: dict[str, float]  # probability that a mob appears in a step, by role
    night: float  # added to the melee probability in full darkness
    achievement: Achievement | None  # for entering it


class Possession(NamedTuple):
    """An achievement for having an item at the end of a step."""

    item: str
    least: int  # lowest count, or lowest level
    achievement: Achievement


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)  # compared by identity
class Rules:
    """One edition of the game."""

    view: tuple[int, int]  # rows and columns of the view; the player is in the middle
    blocks: tuple[Block, ...]  # in the order of their numbers, from 0
    actions: tuple[Action, ...]  # likewise
    achievements: tuple[Achievement, ...]  # likewise
    items: tuple[str, ...]  # of the inventory, in the order of the symbolic observation
    most: int  # highest count of an item
    best: int  # highest health, food, drink and energy
    solid: frozenset[Block]  # nothing can enter these
    overflown: frozenset[Block]  # solid blocks that projectiles cross
    broken: frozenset[Block]  # a projectile turns these into a path
    recipes: tuple[Recipe, ...]
    harvests: tuple[Harvest, ...]
    placements: tuple[Placement, ...]
    needs: tuple[Need, ...]
    pace: int  # a counter grows by this much a step
    weapons: tuple[Weapon, ...]  # a bare hand does 1 point of damage
    mobs: tuple[MobRow, ...]  # the types of each role in order
    projectiles: tuple[ProjectileRow, ...]  # in the order of their types
    packing: Packing

    # In the full game only.
    floors: tuple[FloorRow, ...] = ()  # the boss floor is the last
    weights: tuple[int, ...] = ()  # reward of each achievement; empty: 1 each
    barred: frozenset[Block] = frozenset()  # not solid, but the player cannot enter these
    graves: frozenset[Block] = frozenset()  # mobs appear here on the boss floor
    possessions: tuple[Possession, ...] = ()
    vitals: tuple[str, ...] = VITALS

    @property
    def is_full(self) -> bool:
        """Whether this edition is the full game, else Classic."""
        return bool(self.floors)

    @property
    def last_floor(self) -> int:
        """Number of the boss floor."""
        return len(self.floors) - 1

    def types(self, role: str) -> tuple[MobRow, ...]:
        """Return the rows of a role; the index of a row is the number of its type."""
        return tuple(row for row in self.mobs if row.role == role)

    @functools.cached_property
    def mob_fields(self) -> tuple[Field, ...]:
        """Fields of a mob's words; with the type if a role has several."""
        return (*_type_field(max(len(self.types(role)) for role in ROLES)), *self.packing.mob)

    @functools.cached_property
    def projectile_fields(self) -> tuple[Field, ...]:
        """Fields of a projectile's word; with the type if there are several."""
        return (*self.packing.projectile, *_type_field(len(self.projectiles)))

    @property
    def counters(self) -> tuple[str, ...]:
        """Names of the intrinsics' counters."""
        return ("recover", *(need.counter for need in self.needs))

    @functools.cached_property
    def shots(self) -> dict[str, int]:
        """Type of each projectile by name."""
        return {row.name: type for type, row in enumerate(self.projectiles)}


# Shared columns of a role's rows.
MELEE: dict[str, Any] = {"role": "melee", "nearest": 9, "cooldown": 5, "chase": 10, "gate": 0.75}
PASSIVE: dict[str, Any] = {"role": "passive", "nearest": 3, "food": 6}
_SHOTS: dict[str, Any] = {"retreat": 3, "nearest_shot": 4, "farthest_shot": 5}
RANGED: dict[str, Any] = {"role": "ranged", "nearest": 9, "cooldown": 4, "gate": 0.85, **_SHOTS}
NEEDS = (
    Need("food", "hunger", limit=25, asleep=0.5),
    Need("drink", "thirst", limit=20, asleep=0.5),
    Need("energy", "fatigue", limit=30, asleep=-1, rest=10),
)
BROKEN = frozenset({Block.CRAFTING_TABLE, Block.FURNACE})  # by projectiles
ROLES = ("melee", "passive", "ranged")  # roles of mobs, in the order of moving
APPEARING: tuple[str, ...] = ("passive", "melee", "ranged")  # the same, in the order of appearing
ASLEEP_FACTOR = 3.5  # multiplies a mob's damage to a sleeping player
RIPE_AGE = 600  # steps until a plant is ripe
NEVER_PLACED = frozenset({Block.INVALID, Block.OUT_OF_BOUNDS, Block.WOOD})  # in no map


def blocks(names: str) -> frozenset[Block]:
    """Return a set of blocks by their names, separated by spaces."""
    return frozenset(Block[name] for name in names.split())


def _type_field(types: int) -> tuple[Field, ...]:
    return (Field("type", (types - 1).bit_length()),) if types > 1 else ()


def of_type(values: Sequence[Any], type: Any) -> Any:
    """Look up the value of a type (at most 31); a Python number if all types have the same value.

    The table is a few constant words. For a lookup in an array XLA would count the computation of
    the index twice, and split the kernel on a GPU.
    """
    if len(set(values)) == 1:
        return values[0]
    table = np.array(values)
    whole = table.astype(np.int64)
    if (whole == table).all() and whole.min() >= 0 and whole.max() < 1 << 16:
        value = _of_words(whole.tolist(), type)
        return value.astype(jnp.float32) if table.dtype.kind == "f" else value
    first, *others = dict.fromkeys(values)
    value = jnp.asarray(first)
    for other in others:
        bits = sum(1 << i for i, v in enumerate(values) if v == other)
        value = jnp.where(((jnp.int32(bits) >> type) & 1) != 0, other, value)
    return value


def _of_words(values: list[int], type: Any) -> Any:
    """Look up the value of a type in constant int32 words, each filled with values."""
    bits = max(values).bit_length()
    each = 1 << ((32 // bits).bit_length() - 1)  # values in a word: a power of two
    word = jnp.int32(0)
    for start in range(0, len(values), each):
        some = sum(v << (bits * i) for i, v in enumerate(values[start : start + each]))
        some = np.uint32(some).astype(np.int32)
        word = jnp.where(type >= start, some, word) if start else jnp.int32(some)
    return (word >> (bits * (type & (each - 1)))) & ((1 << bits) - 1)
