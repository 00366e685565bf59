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

    INVALID = 0
    OUT_OF_BOUNDS = 1  # seen beyond the border, never in a map
    GRASS = 2
    WATER = 3
    STONE = 4
    TREE = 5
    WOOD = 6  # an icon, never in a map
    PATH = 7
    COAL = 8
    IRON = 9
    DIAMOND = 10
    CRAFTING_TABLE = 11
    FURNACE = 12
    SAND = 13
    LAVA = 14
    PLANT = 15  # young
    RIPE_PLANT = 16  # the last one of Classic
    WALL = 17
    DARKNESS = 18
    WALL_MOSS = 19
    STALAGMITE = 20
    SAPPHIRE = 21
    RUBY = 22
    CHEST = 23
    FOUNTAIN = 24
    FIRE_GRASS = 25
    ICE_GRASS = 26
    GRAVEL = 27  # never in a map
    FIRE_TREE = 28
    ICE_SHRUB = 29
    ENCHANTMENT_TABLE_FIRE = 30
    ENCHANTMENT_TABLE_ICE = 31
    NECROMANCER = 32
    GRAVE = 33
    GRAVE2 = 34
    GRAVE3 = 35
    NECROMANCER_VULNERABLE = 36  # a picture, never in a map


class Item(IntEnum):
    """What lies on a cell of the map in the full game; numbers are upstream's."""

    NONE = 0
    TORCH = 1
    LADDER_DOWN = 2
    LADDER_UP = 3
    LADDER_DOWN_BLOCKED = 4  # a picture, never in a map


class Action(IntEnum):
    """What the player can do; numbers are upstream's."""

    NOOP = 0
    LEFT = 1
    RIGHT = 2
    UP = 3
    DOWN = 4
    DO = 5
    SLEEP = 6
    PLACE_STONE = 7
    PLACE_TABLE = 8
    PLACE_FURNACE = 9
    PLACE_PLANT = 10
    MAKE_WOOD_PICKAXE = 11
    MAKE_STONE_PICKAXE = 12
    MAKE_IRON_PICKAXE = 13
    MAKE_WOOD_SWORD = 14
    MAKE_STONE_SWORD = 15
    MAKE_IRON_SWORD = 16  # the last one of Classic
    REST = 17
    DESCEND = 18
    ASCEND = 19
    MAKE_DIAMOND_PICKAXE = 20
    MAKE_DIAMOND_SWORD = 21
    MAKE_IRON_ARMOUR = 22
    MAKE_DIAMOND_ARMOUR = 23
    SHOOT_ARROW = 24
    MAKE_ARROW = 25
    CAST_FIREBALL = 26
    CAST_ICEBALL = 27
    PLACE_TORCH = 28
    DRINK_POTION_RED = 29
    DRINK_POTION_GREEN = 30
    DRINK_POTION_BLUE = 31
    DRINK_POTION_PINK = 32
    DRINK_POTION_CYAN = 33
    DRINK_POTION_YELLOW = 34
    READ_BOOK = 35
    ENCHANT_SWORD = 36
    ENCHANT_ARMOUR = 37
    MAKE_TORCH = 38
    LEVEL_UP_DEXTERITY = 39
    LEVEL_UP_STRENGTH = 40
    LEVEL_UP_INTELLIGENCE = 41
    ENCHANT_BOW = 42


class Achievement(IntEnum):
    """What is rewarded once an episode; numbers are upstream's."""

    COLLECT_WOOD = 0
    PLACE_TABLE = 1
    EAT_COW = 2
    COLLECT_SAPLING = 3
    COLLECT_DRINK = 4
    MAKE_WOOD_PICKAXE = 5
    MAKE_WOOD_SWORD = 6
    PLACE_PLANT = 7
    DEFEAT_ZOMBIE = 8
    COLLECT_STONE = 9
    PLACE_STONE = 10
    EAT_PLANT = 11
    DEFEAT_SKELETON = 12
    MAKE_STONE_PICKAXE = 13
    MAKE_STONE_SWORD = 14
    WAKE_UP = 15
    PLACE_FURNACE = 16
    COLLECT_COAL = 17
    COLLECT_IRON = 18
    COLLECT_DIAMOND = 19
    MAKE_IRON_PICKAXE = 20
    MAKE_IRON_SWORD = 21  # the last one of Classic
    MAKE_ARROW = 22
    MAKE_TORCH = 23
    PLACE_TORCH = 24
    MAKE_DIAMOND_SWORD = 25
    MAKE_IRON_ARMOUR = 26
    MAKE_DIAMOND_ARMOUR = 27
    ENTER_GNOMISH_MINES = 28
    ENTER_DUNGEON = 29
    ENTER_SEWERS = 30
    ENTER_VAULT = 31
    ENTER_TROLL_MINES = 32
    ENTER_FIRE_REALM = 33
    ENTER_ICE_REALM = 34
    ENTER_GRAVEYARD = 35
    DEFEAT_GNOME_WARRIOR = 36
    DEFEAT_GNOME_ARCHER = 37
    DEFEAT_ORC_SOLIDER = 38  # as upstream spells it
    DEFEAT_ORC_MAGE = 39
    DEFEAT_LIZARD = 40
    DEFEAT_KOBOLD = 41
    DEFEAT_TROLL = 42
    DEFEAT_DEEP_THING = 43
    DEFEAT_PIGMAN = 44
    DEFEAT_FIRE_ELEMENTAL = 45
    DEFEAT_FROST_TROLL = 46
    DEFEAT_ICE_ELEMENTAL = 47
    DAMAGE_NECROMANCER = 48
    DEFEAT_NECROMANCER = 49
    EAT_BAT = 50
    EAT_SNAIL = 51
    FIND_BOW = 52
    FIRE_BOW = 53
    COLLECT_SAPPHIRE = 54
    LEARN_FIREBALL = 55
    CAST_FIREBALL = 56
    LEARN_ICEBALL = 57
    CAST_ICEBALL = 58
    COLLECT_RUBY = 59
    MAKE_DIAMOND_PICKAXE = 60
    OPEN_CHEST = 61
    DRINK_POTION = 62
    ENCHANT_SWORD = 63
    ENCHANT_ARMOUR = 64
    DEFEAT_KNIGHT = 65
    DEFEAT_ARCHER = 66


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


ROLES = ("melee", "passive", "ranged")  # classes of mobs, in the order of moving
APPEARING = ("passive", "melee", "ranged")  # the same, in the order of appearing
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
