"""Enumerations of the Craft games, and row types of their rule tables.

`Rules` has the tables of one edition: of Classic or of the full game. Stages of a step that both
editions share read these tables, and never name a block that only one edition has. Classic uses a
subset of the full game's blocks, actions and achievements.
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
    """Blocks of the map, numbered as in Craftax."""

    # INVALID, OUT_OF_BOUNDS and WOOD occur in no map.
    # The view shows OUT_OF_BOUNDS beyond the border; WOOD is only an icon.
    INVALID, OUT_OF_BOUNDS, GRASS, WATER, STONE, TREE, WOOD, PATH, COAL, IRON = range(10)
    DIAMOND, CRAFTING_TABLE, FURNACE, SAND, LAVA, PLANT, RIPE_PLANT = range(10, 17)
    # The following blocks exist in the full game only.
    # GRAVEL and NECROMANCER_VULNERABLE (only a sprite) occur in no map.
    WALL, DARKNESS, WALL_MOSS, STALAGMITE, SAPPHIRE, RUBY, CHEST, FOUNTAIN = range(17, 25)
    FIRE_GRASS, ICE_GRASS, GRAVEL, FIRE_TREE, ICE_SHRUB = range(25, 30)
    ENCHANTMENT_TABLE_FIRE, ENCHANTMENT_TABLE_ICE, NECROMANCER = range(30, 33)
    GRAVE, GRAVE2, GRAVE3, NECROMANCER_VULNERABLE = range(33, 37)


class Item(IntEnum):
    """Items on cells of the full game's map, numbered as in Craftax."""

    NONE, TORCH, LADDER_DOWN, LADDER_UP = range(4)
    LADDER_DOWN_BLOCKED = 4  # only a sprite, never in a map


class Action(IntEnum):
    """Actions of the player, numbered as in Craftax."""

    NOOP, LEFT, RIGHT, UP, DOWN, DO, SLEEP = range(7)
    PLACE_STONE, PLACE_TABLE, PLACE_FURNACE, PLACE_PLANT = range(7, 11)
    MAKE_WOOD_PICKAXE, MAKE_STONE_PICKAXE, MAKE_IRON_PICKAXE = range(11, 14)
    MAKE_WOOD_SWORD, MAKE_STONE_SWORD, MAKE_IRON_SWORD = range(14, 17)
    # The following actions exist in the full game only.
    REST, DESCEND, ASCEND, MAKE_DIAMOND_PICKAXE, MAKE_DIAMOND_SWORD = range(17, 22)
    MAKE_IRON_ARMOUR, MAKE_DIAMOND_ARMOUR, SHOOT_ARROW, MAKE_ARROW = range(22, 26)
    CAST_FIREBALL, CAST_ICEBALL, PLACE_TORCH = range(26, 29)
    DRINK_POTION_RED, DRINK_POTION_GREEN, DRINK_POTION_BLUE = range(29, 32)
    DRINK_POTION_PINK, DRINK_POTION_CYAN, DRINK_POTION_YELLOW = range(32, 35)
    READ_BOOK, ENCHANT_SWORD, ENCHANT_ARMOUR, MAKE_TORCH = range(35, 39)
    LEVEL_UP_DEXTERITY, LEVEL_UP_STRENGTH, LEVEL_UP_INTELLIGENCE, ENCHANT_BOW = range(39, 43)


class Achievement(IntEnum):
    """Achievements, numbered as in Craftax. Each is rewarded once per episode."""

    COLLECT_WOOD, PLACE_TABLE, EAT_COW, COLLECT_SAPLING, COLLECT_DRINK = range(5)
    MAKE_WOOD_PICKAXE, MAKE_WOOD_SWORD, PLACE_PLANT, DEFEAT_ZOMBIE, COLLECT_STONE = range(5, 10)
    PLACE_STONE, EAT_PLANT, DEFEAT_SKELETON, MAKE_STONE_PICKAXE = range(10, 14)
    MAKE_STONE_SWORD, WAKE_UP, PLACE_FURNACE, COLLECT_COAL, COLLECT_IRON = range(14, 19)
    COLLECT_DIAMOND, MAKE_IRON_PICKAXE, MAKE_IRON_SWORD = range(19, 22)
    # The following achievements exist in the full game only. SOLIDER is Craftax's spelling.
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
    """A crafting recipe. It works only near a crafting table."""

    action: Action
    # Item that the recipe makes. If this is a tuple of items, each use of the recipe raises the
    # first item whose level is below `level`.
    makes: str | tuple[str, ...]
    costs: dict[str, int]  # number of each item that one use consumes
    at_furnace: bool  # whether the recipe also needs a furnace near the player
    achievement: Achievement | None
    # Number of items that one use of the recipe makes. Ignored if `level` is given.
    number: int = 1
    level: int | None = None  # level to which the item rises; None: the item's count grows instead
    below: int | None = None  # count of the item at which the recipe stops working


class Harvest(NamedTuple):
    """Effect of the action DO on a block."""

    block: Block
    tool: str | None  # item that the player must have; None: no item is needed
    item: str | None  # item whose count grows by 1; None: no item
    leaves: Block
    achievement: Achievement | None
    chance: float = 1.0
    level: int = 1  # lowest level of `tool` that works
    food: int = 0  # points of food that the player gains; a gain resets the hunger counter
    drink: int = 0  # points of drink that the player gains; a gain resets the thirst counter


class Placement(NamedTuple):
    """Placement of a block or a torch on the cell ahead."""

    action: Action
    block: Block | None  # block that is placed; None: a torch on top of the cell's block
    item: str  # item that the placement consumes
    cost: int
    on: frozenset[Block]  # blocks that the new block may replace, or on which the torch may be put
    achievement: Achievement
    bare: bool = True  # whether the placement is refused if an item lies on the cell


class Need(NamedTuple):
    """A need such as hunger. When its counter exceeds the limit, a vital loses a point."""

    vital: str  # vital that loses a point
    counter: str  # name of the need's counter, a key of `World.counters`
    # Value of the counter above which the vital loses a point.
    # The unit is the growth of the counter in one step awake.
    limit: int
    # Growth of the counter in a step of sleep, as a multiple of its growth in a step awake.
    # If it is negative, the counter falls during sleep.
    asleep: float
    # If the counter is below -rest during sleep, the vital gains a point. The unit of `rest` is the
    # unit of `limit`. None: sleep never gives points.
    rest: int | None = None


class Weapon(NamedTuple):
    """Damage of a blow with an item; in Classic, the damage is multiplied by the item's count."""

    item: str
    damage: int


class MobRow(NamedTuple):
    """A type of mob. Its role decides which of the fields are used, see module `mobs`."""

    name: str
    role: str  # behaviour of the mob, one of ROLES
    health: int  # health with which the mob appears, in points
    appears_on: frozenset[Block]
    nearest: int  # the mob appears only at more than this many steps from the player
    achievement: Achievement  # achievement earned by killing the mob
    shuns: frozenset[Block] = frozenset()  # blocks that the mob avoids, besides solid blocks
    food: int = 0  # points of food that the player gains by killing the mob
    damage: int = 0  # physical damage of the mob's blow to the player, in points
    fire: int = 0  # fire damage of the mob's blow, in points
    ice: int = 0  # ice damage of the mob's blow, in points
    # Fractions of physical, fire and ice damage that the mob blocks when the player hits it.
    resists: tuple[float, float, float] = (0, 0, 0)
    cooldown: int = 0  # number of steps between two attacks of the mob
    # Melee mobs approach a player who is fewer than this many steps away. Ranged mobs approach a
    # player who is at least this many steps away.
    chase: int = 0
    # Threshold for a uniform draw per step. If the draw is below the threshold, a melee mob that is
    # near enough approaches the player. If the draw is above the threshold, a ranged mob approaches
    # or retreats to keep its distance. Otherwise the mob takes a random step.
    gate: float = 0.0
    retreat: int = 0  # ranged mobs retreat if they are at most this many steps from the player
    nearest_shot: int = 0  # lowest distance from the player, in steps, at which ranged mobs shoot
    farthest_shot: int = 0  # highest distance from the player, in steps, at which ranged mobs shoot
    projectile: str | None = None  # name of the projectile that the mob shoots


class ProjectileRow(NamedTuple):
    """A type of projectile."""

    name: str
    damage: int  # physical damage in points
    fire: int = 0  # fire damage in points
    ice: int = 0  # ice damage in points


class FloorRow(NamedTuple):
    """Settings of one floor of the full game."""

    name: str
    mobs: dict[str, str]  # name of the mob type that appears on the floor, for each role
    chances: dict[str, float]  # probability per step that a mob appears, for each role
    night: float  # increase of the probability `chances["melee"]` in full darkness
    achievement: Achievement | None  # achievement earned by entering the floor


class Possession(NamedTuple):
    """An achievement for owning an item. It is checked at the end of each step."""

    item: str
    least: int  # lowest count or level of the item that earns the achievement
    achievement: Achievement


# `eq=False` makes Python compare and hash rules by identity. A hash of the fields would fail,
# because some of them contain dicts.
@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Rules:
    """Rule tables of one edition of the game: of Classic or of the full game."""

    view: tuple[int, int]  # number of rows and columns of the view; the player is in the middle
    blocks: tuple[Block, ...]  # blocks that the edition uses; `blocks[i]` is `Block(i)`
    actions: tuple[Action, ...]  # actions that the edition has; `actions[i]` is `Action(i)`
    # Achievements that the edition has; `achievements[i]` is `Achievement(i)`.
    achievements: tuple[Achievement, ...]
    items: tuple[str, ...]  # inventory items, in the order of the symbolic observation
    most: int  # highest count of an item in the inventory
    # Maximum of health, food, drink and energy. In the full game, attributes raise the maximum.
    best: int
    solid: frozenset[Block]  # blocks that player and mobs cannot enter and that stop projectiles
    overflown: frozenset[Block]  # solid blocks that do not stop the projectiles of mobs
    broken: frozenset[Block]  # blocks that a projectile destroys: they become a path
    recipes: tuple[Recipe, ...]
    harvests: tuple[Harvest, ...]
    placements: tuple[Placement, ...]
    needs: tuple[Need, ...]
    # Amount by which the counter of hunger, thirst or fatigue grows in a step awake. It is chosen
    # so that every change of a counter is an integer.
    pace: int
    # Damage of a blow, for each weapon in Classic and each level of the sword in the full game.
    # The damage of the bare hand is 1.
    weapons: tuple[Weapon, ...]
    mobs: tuple[MobRow, ...]  # mob types of all roles; see `types` for one role
    projectiles: tuple[ProjectileRow, ...]  # projectile types, in the order of `Projectile.type`
    packing: Packing

    # The following fields are used in the full game only.
    floors: tuple[FloorRow, ...] = ()  # floors from top to bottom; the last one is the boss floor
    weights: tuple[int, ...] = ()  # reward of each achievement; empty: 1 for every achievement
    barred: frozenset[Block] = frozenset()  # blocks not in `solid` that the player cannot enter
    graves: frozenset[Block] = frozenset()  # blocks on which mobs appear on the boss floor
    possessions: tuple[Possession, ...] = ()
    vitals: tuple[str, ...] = VITALS

    @property
    def is_full(self) -> bool:
        """True if this edition is the full game, False if it is Classic."""
        return bool(self.floors)

    @property
    def last_floor(self) -> int:
        """Index of the boss floor."""
        return len(self.floors) - 1

    def types(self, role: str) -> tuple[MobRow, ...]:
        """Return the mob types of a role; `Mob.type` is an index into them."""
        return tuple(row for row in self.mobs if row.role == role)

    @functools.cached_property
    def mob_fields(self) -> tuple[Field, ...]:
        """Fields that are packed for a mob; `type` is included if some role has several types."""
        return (*_type_field(max(len(self.types(role)) for role in ROLES)), *self.packing.mob)

    @functools.cached_property
    def projectile_fields(self) -> tuple[Field, ...]:
        """Fields packed for a projectile; they include `type` if there are several types."""
        return (*self.packing.projectile, *_type_field(len(self.projectiles)))

    @property
    def counters(self) -> tuple[str, ...]:
        """Names of the counters: one for recovery, and one for each need."""
        return ("recover", *(need.counter for need in self.needs))

    @functools.cached_property
    def shots(self) -> dict[str, int]:
        """Type index of each projectile, by the projectile's name."""
        return {row.name: type for type, row in enumerate(self.projectiles)}


# Values of the fields of `MobRow` that are equal for all mob types of a role.
MELEE: dict[str, Any] = {"role": "melee", "nearest": 9, "cooldown": 5, "chase": 10, "gate": 0.75}
PASSIVE: dict[str, Any] = {"role": "passive", "nearest": 3, "food": 6}
_SHOTS: dict[str, Any] = {"retreat": 3, "nearest_shot": 4, "farthest_shot": 5}
RANGED: dict[str, Any] = {"role": "ranged", "nearest": 9, "cooldown": 4, "gate": 0.85, **_SHOTS}
NEEDS = (
    Need("food", "hunger", limit=25, asleep=0.5),
    Need("drink", "thirst", limit=20, asleep=0.5),
    Need("energy", "fatigue", limit=30, asleep=-1, rest=10),
)
BROKEN = frozenset({Block.CRAFTING_TABLE, Block.FURNACE})  # blocks that projectiles destroy
ROLES = ("melee", "passive", "ranged")  # roles of mobs, in the order in which they move
# Roles of mobs, in the order in which they appear within a step.
APPEARING: tuple[str, ...] = ("passive", "melee", "ranged")
ASLEEP_FACTOR = 3.5  # factor of a mob's damage if the player sleeps
RIPE_AGE = 600  # age of a plant, in steps, at which it becomes ripe
# Blocks that both editions define but that occur in no map.
NEVER_PLACED = frozenset({Block.INVALID, Block.OUT_OF_BOUNDS, Block.WOOD})


def blocks(names: str) -> frozenset[Block]:
    """Parse block names, separated by spaces, to a set of blocks."""
    return frozenset(Block[name] for name in names.split())


def _type_field(types: int) -> tuple[Field, ...]:
    return (Field("type", (types - 1).bit_length()),) if types > 1 else ()


def of_type(values: Sequence[Any], type: Any) -> Any:
    """Return `values[type]` for a traced index `type`, without an array lookup.

    At most 31 values are possible. If all values are equal, the result is a Python number.
    Otherwise the values are packed into a few constant words. On a GPU, an array lookup would split
    the kernel: XLA counts the computation of the index twice and then does not fuse the lookup.
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
    """Return `values[type]` without an array lookup.

    Several values are packed into each of a few constant int32 words. A shift and a mask extract
    the value from its word.
    """
    bits = max(values).bit_length()
    # Number of values that are packed into one word, a power of two.
    each = 1 << ((32 // bits).bit_length() - 1)
    word = jnp.int32(0)
    for start in range(0, len(values), each):
        some = sum(v << (bits * i) for i, v in enumerate(values[start : start + each]))
        some = np.uint32(some).astype(np.int32)
        word = jnp.where(type >= start, some, word) if start else jnp.int32(some)
    return (word >> (bits * (type & (each - 1)))) & ((1 << bits) - 1)
