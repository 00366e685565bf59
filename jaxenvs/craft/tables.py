"""The words of the Craft games, and the types of the rows that their rules are made of.

`Rules` is one edition of the game, a table that the stages of a step read; they name no block
themselves where editions differ. An edition uses some of the blocks, actions and achievements.
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
    """What a cell of the map is; numbers are upstream's."""

    # Never in a map: OUT_OF_BOUNDS is seen beyond the border, WOOD is an icon.
    INVALID, OUT_OF_BOUNDS, GRASS, WATER, STONE, TREE, WOOD, PATH, COAL, IRON = range(10)
    DIAMOND, CRAFTING_TABLE, FURNACE, SAND, LAVA, PLANT, RIPE_PLANT = range(10, 17)
    # In the full game only; GRAVEL and NECROMANCER_VULNERABLE, a picture, are in no map.
    WALL, DARKNESS, WALL_MOSS, STALAGMITE, SAPPHIRE, RUBY, CHEST, FOUNTAIN = range(17, 25)
    FIRE_GRASS, ICE_GRASS, GRAVEL, FIRE_TREE, ICE_SHRUB = range(25, 30)
    ENCHANTMENT_TABLE_FIRE, ENCHANTMENT_TABLE_ICE, NECROMANCER = range(30, 33)
    GRAVE, GRAVE2, GRAVE3, NECROMANCER_VULNERABLE = range(33, 37)


class Item(IntEnum):
    """What lies on a cell of the map in the full game; numbers are upstream's."""

    NONE, TORCH, LADDER_DOWN, LADDER_UP = range(4)
    LADDER_DOWN_BLOCKED = 4  # a picture, never in a map


class Action(IntEnum):
    """What the player can do; numbers are upstream's."""

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
    """What is rewarded once an episode; numbers are upstream's."""

    COLLECT_WOOD, PLACE_TABLE, EAT_COW, COLLECT_SAPLING, COLLECT_DRINK = range(5)
    MAKE_WOOD_PICKAXE, MAKE_WOOD_SWORD, PLACE_PLANT, DEFEAT_ZOMBIE, COLLECT_STONE = range(5, 10)
    PLACE_STONE, EAT_PLANT, DEFEAT_SKELETON, MAKE_STONE_PICKAXE = range(10, 14)
    MAKE_STONE_SWORD, WAKE_UP, PLACE_FURNACE, COLLECT_COAL, COLLECT_IRON = range(14, 19)
    COLLECT_DIAMOND, MAKE_IRON_PICKAXE, MAKE_IRON_SWORD = range(19, 22)
    # In the full game only; SOLIDER as upstream spells it.
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
    """One thing that can be made beside a crafting table."""

    action: Action
    makes: str | tuple[str, ...]  # item; of several the first that is below `level`
    costs: dict[str, int]  # items
    at_furnace: bool  # a furnace must be near as well
    achievement: Achievement | None
    number: int = 1  # how many are added
    level: int | None = None  # what the item becomes instead, from any lower level
    below: int | None = None  # made only with fewer than these


class Harvest(NamedTuple):
    """What DO makes of a block."""

    block: Block
    tool: str | None  # item that is needed
    item: str | None  # item won, one
    leaves: Block
    achievement: Achievement | None
    chance: float = 1.0
    level: int = 1  # of the tool, at least
    food: int = 0  # added to it; hunger is stilled
    drink: int = 0  # added to it; thirst is stilled


class Placement(NamedTuple):
    """A block, or a torch, that can be put on the cell ahead."""

    action: Action
    block: Block | None  # None: a torch, which lies on the block
    item: str  # item that it costs
    cost: int
    on: frozenset[Block]  # blocks it may replace, or lie on
    achievement: Achievement
    bare: bool = True  # whether nothing may lie there


class Need(NamedTuple):
    """A need that grows with every step; beyond its limit it takes a point."""

    vital: str  # which it takes the point from
    counter: str  # steps since the last one
    limit: int  # steps beyond which it takes one
    asleep: float  # steps that a step asleep counts as; negative: sleep reduces the need
    rest: int | None = None  # steps below zero beyond which sleep gives a point


class Weapon(NamedTuple):
    """Damage of a blow for each one of an item that the player owns."""

    item: str
    damage: int


class MobRow(NamedTuple):
    """A type of mob; which of the other fields count depends on its role, see `mobs`."""

    name: str
    role: str  # of ROLES
    health: int  # points of one that appears
    appears_on: frozenset[Block]
    nearest: int  # it appears only more than this many steps from the player
    achievement: Achievement  # for killing it
    shuns: frozenset[Block] = frozenset()  # blocks it does not enter, besides solid ones
    food: int = 0  # that killing it gives
    damage: int = 0  # points of its blow
    fire: int = 0  # points of fire, beside them
    ice: int = 0  # points of ice
    resists: tuple[float, float, float] = (0, 0, 0)  # shares of damage, fire and ice kept off
    cooldown: int = 0  # steps from one attack to the next
    chase: int = 0  # steps from the player: melee approaches below it, ranged from it on
    gate: float = 0.0  # of a uniform draw: melee approaches below it, ranged keeps its range above
    retreat: int = 0  # steps from the player up to which ranged withdraws
    nearest_shot: int = 0  # least steps from the player at which ranged shoots
    farthest_shot: int = 0  # most steps, likewise
    projectile: str | None = None  # name of what it shoots


class ProjectileRow(NamedTuple):
    """A type of what flies."""

    name: str
    damage: int  # points
    fire: int = 0
    ice: int = 0


class FloorRow(NamedTuple):
    """A floor of the full game."""

    name: str
    mobs: dict[str, str]  # name of the type that appears, by role
    chances: dict[str, float]  # that one appears in a step, by role
    night: float  # added to the chance of melee in full darkness
    achievement: Achievement | None  # for entering it


class Possession(NamedTuple):
    """An achievement of those who have an item at the end of a step."""

    item: str
    least: int  # this many, or this level
    achievement: Achievement


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)  # equal to itself alone
class Rules:
    """One edition of the game."""

    view: tuple[int, int]  # rows and columns seen; the player is in the middle
    blocks: tuple[Block, ...]  # in the order of their numbers, from 0
    actions: tuple[Action, ...]  # likewise
    achievements: tuple[Achievement, ...]  # likewise
    items: tuple[str, ...]  # of the inventory, in the order of the symbolic observation
    most: int  # of one item
    best: int  # health, food, drink and energy at most
    solid: frozenset[Block]  # nothing can enter these
    overflown: frozenset[Block]  # solid ones over which projectiles fly
    broken: frozenset[Block]  # blocks that a projectile makes a path
    recipes: tuple[Recipe, ...]
    harvests: tuple[Harvest, ...]
    placements: tuple[Placement, ...]
    needs: tuple[Need, ...]
    pace: int  # what a counter counts in a step
    weapons: tuple[Weapon, ...]  # a bare hand does 1
    mobs: tuple[MobRow, ...]  # those of a role in the order of their types
    projectiles: tuple[ProjectileRow, ...]  # in the order of their types
    packing: Packing

    # What Classic has nothing of.
    floors: tuple[FloorRow, ...] = ()  # the last one is the boss's
    weights: tuple[int, ...] = ()  # reward of each achievement; none: 1
    barred: frozenset[Block] = frozenset()  # not solid, yet the player does not enter these
    graves: frozenset[Block] = frozenset()  # where mobs appear on the last floor
    possessions: tuple[Possession, ...] = ()
    vitals: tuple[str, ...] = VITALS

    def types(self, role: str) -> tuple[MobRow, ...]:
        """Rows of a role; a row's place is the number of its type."""
        return tuple(row for row in self.mobs if row.role == role)

    @functools.cached_property
    def mob_fields(self) -> tuple[Field, ...]:
        """Fields of a mob's words, with its type where a role has several."""
        return (*_type_field(max(len(self.types(role)) for role in ROLES)), *self.packing.mob)

    @functools.cached_property
    def projectile_fields(self) -> tuple[Field, ...]:
        """Fields of a projectile's word, likewise."""
        return (*self.packing.projectile, *_type_field(len(self.projectiles)))

    @property
    def counters(self) -> tuple[str, ...]:
        """Names of the counters of the body."""
        return ("recover", *(need.counter for need in self.needs))

    @functools.cached_property
    def shots(self) -> dict[str, int]:
        """Type of each projectile by name."""
        return {row.name: type for type, row in enumerate(self.projectiles)}


# What the mobs of a role have in common.
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
ROLES = ("melee", "passive", "ranged")  # classes of mobs, in the order of moving
APPEARING: tuple[str, ...] = ("passive", "melee", "ranged")  # the same, in the order of appearing
ASLEEP_FACTOR = 3.5  # damage of a mob to a sleeping player, relative to one awake
RIPE_AGE = 600  # steps that a plant grows
NEVER_PLACED = frozenset({Block.INVALID, Block.OUT_OF_BOUNDS, Block.WOOD})  # in no map


def blocks(names: str) -> frozenset[Block]:
    """A set of blocks by their names."""
    return frozenset(Block[name] for name in names.split())


def _type_field(types: int) -> tuple[Field, ...]:
    return (Field("type", (types - 1).bit_length()),) if types > 1 else ()


def of_type(values: Sequence[Any], type: Any) -> Any:
    """Value of a type, at most 31: the number itself where all types have the same.

    The table is bits of constants: on a GPU a lookup in an array makes XLA count all that its
    index depends on once more, and split the kernel.
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
    """Look up the value of a type; an int32 word holds as many values as fit."""
    bits = max(values).bit_length()
    each = 1 << ((32 // bits).bit_length() - 1)  # values in a word, a power of two
    word = jnp.int32(0)
    for start in range(0, len(values), each):
        some = sum(v << (bits * i) for i, v in enumerate(values[start : start + each]))
        some = np.uint32(some).astype(np.int32)
        word = jnp.where(type >= start, some, word) if start else jnp.int32(some)
    return (word >> (bits * (type & (each - 1)))) & ((1 << bits) - 1)
