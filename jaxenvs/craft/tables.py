"""Enumerations of the Craft games, and row types of their rule tables.

`Rules` has the tables of one edition. The stages of a step read them, so code that both editions
share names no block that only one of them has. Classic uses a subset of the blocks, actions and
achievements.
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

    # Never in a map: INVALID; OUT_OF_BOUNDS, seen beyond the border; WOOD, an icon.
    INVALID, OUT_OF_BOUNDS, GRASS, WATER, STONE, TREE, WOOD, PATH, COAL, IRON = range(10)
    DIAMOND, CRAFTING_TABLE, FURNACE, SAND, LAVA, PLANT, RIPE_PLANT = range(10, 17)
    # In the full game only. No map has GRAVEL or NECROMANCER_VULNERABLE, which is a sprite.
    WALL, DARKNESS, WALL_MOSS, STALAGMITE, SAPPHIRE, RUBY, CHEST, FOUNTAIN = range(17, 25)
    FIRE_GRASS, ICE_GRASS, GRAVEL, FIRE_TREE, ICE_SHRUB = range(25, 30)
    ENCHANTMENT_TABLE_FIRE, ENCHANTMENT_TABLE_ICE, NECROMANCER = range(30, 33)
    GRAVE, GRAVE2, GRAVE3, NECROMANCER_VULNERABLE = range(33, 37)


class Item(IntEnum):
    """Items on cells of the full game's map, numbered as in Craftax."""

    NONE, TORCH, LADDER_DOWN, LADDER_UP = range(4)
    LADDER_DOWN_BLOCKED = 4  # a sprite, never in a map


class Action(IntEnum):
    """Actions of the player, numbered as in Craftax."""

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
    """Achievements, rewarded once an episode, numbered as in Craftax."""

    COLLECT_WOOD, PLACE_TABLE, EAT_COW, COLLECT_SAPLING, COLLECT_DRINK = range(5)
    MAKE_WOOD_PICKAXE, MAKE_WOOD_SWORD, PLACE_PLANT, DEFEAT_ZOMBIE, COLLECT_STONE = range(5, 10)
    PLACE_STONE, EAT_PLANT, DEFEAT_SKELETON, MAKE_STONE_PICKAXE = range(10, 14)
    MAKE_STONE_SWORD, WAKE_UP, PLACE_FURNACE, COLLECT_COAL, COLLECT_IRON = range(14, 19)
    COLLECT_DIAMOND, MAKE_IRON_PICKAXE, MAKE_IRON_SWORD = range(19, 22)
    # In the full game only. SOLIDER is Craftax's spelling.
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
    makes: str | tuple[str, ...]  # item made; of several, the first whose level is below `level`
    costs: dict[str, int]  # count of each item consumed
    at_furnace: bool  # whether a furnace must be near as well
    achievement: Achievement | None
    number: int = 1  # count added to the item, if `level` is None
    level: int | None = None  # level to which the item rises; None: its count grows
    below: int | None = None  # recipe works only while the item's count is below this


class Harvest(NamedTuple):
    """Effect of DO on a block."""

    block: Block
    tool: str | None  # item required; None: none
    item: str | None  # item whose count grows by 1; None: none
    leaves: Block
    achievement: Achievement | None
    chance: float = 1.0
    level: int = 1  # lowest level of the tool that works
    food: int = 0  # points of food added; resets hunger
    drink: int = 0  # points of drink added; resets thirst


class Placement(NamedTuple):
    """Placement of a block or a torch on the cell ahead."""

    action: Action
    block: Block | None  # block placed; None: a torch, which lies on the cell's block
    item: str  # item consumed
    cost: int
    on: frozenset[Block]  # blocks that the new block may replace, or the torch may lie on
    achievement: Achievement
    bare: bool = True  # whether the cell must be without an item


class Need(NamedTuple):
    """A need such as hunger: when its counter exceeds the limit, a vital loses a point."""

    vital: str  # vital that loses the point
    counter: str  # name of its counter, a key of `World.counters`
    limit: int  # counter value in steps beyond which a point is lost
    asleep: float  # number of steps awake that a step asleep equals; negative: it reduces the need
    # The vital gains a point whenever sleep brings the counter below -rest; None: never.
    rest: int | None = None


class Weapon(NamedTuple):
    """Damage of a blow with an item; Classic multiplies it by the number of such items."""

    item: str
    damage: int


class MobRow(NamedTuple):
    """A type of mob; its role decides which of the fields are used, see module `mobs`."""

    name: str
    role: str  # role, one of ROLES
    health: int  # initial health in points
    appears_on: frozenset[Block]
    nearest: int  # mob appears only at more than this many steps from the player
    achievement: Achievement  # achievement for killing the mob
    shuns: frozenset[Block] = frozenset()  # blocks that the mob avoids, besides solid ones
    food: int = 0  # points of food for killing the mob
    damage: int = 0  # physical damage of the mob's blow, in points
    fire: int = 0  # fire damage, points
    ice: int = 0  # ice damage, points
    # Fractions of physical, fire and ice damage to the mob that are blocked.
    resists: tuple[float, float, float] = (0, 0, 0)
    cooldown: int = 0  # steps from one attack to the next
    # Distance from the player in steps: melee mobs approach if nearer than this, ranged mobs if at
    # least this far away.
    chase: int = 0
    # Threshold of a uniform draw. Melee mobs approach if the draw is below it, ranged mobs keep
    # their distance if it is above; otherwise the step is random.
    gate: float = 0.0
    retreat: int = 0  # ranged mobs retreat up to this many steps from the player
    nearest_shot: int = 0  # fewest steps from the player at which ranged mobs shoot
    farthest_shot: int = 0  # most steps from the player at which ranged mobs shoot
    projectile: str | None = None  # name of the projectile that the mob shoots


class ProjectileRow(NamedTuple):
    """A type of projectile."""

    name: str
    damage: int  # physical damage, points
    fire: int = 0  # fire damage, points
    ice: int = 0  # ice damage, points


class FloorRow(NamedTuple):
    """A floor of the full game."""

    name: str
    mobs: dict[str, str]  # name of the mob type that appears, by role
    chances: dict[str, float]  # probability that a mob appears in a step, by role
    night: float  # probability added to the melee role in full darkness
    achievement: Achievement | None  # achievement for entering the floor


class Possession(NamedTuple):
    """An achievement for having an item, checked at the end of each step."""

    item: str
    least: int  # lowest count or level of the item that earns the achievement
    achievement: Achievement


# `eq=False`: rules are compared and hashed by identity.
@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Rules:
    """Rule tables of one edition of the game."""

    view: tuple[int, int]  # rows and columns of the view, which has the player in the middle
    blocks: tuple[Block, ...]  # blocks in the order of their numbers, from 0
    actions: tuple[Action, ...]  # actions in the order of their numbers, from 0
    achievements: tuple[Achievement, ...]  # achievements in the order of their numbers, from 0
    items: tuple[str, ...]  # inventory items in the order of the symbolic observation
    most: int  # highest count of an item
    best: int  # highest health, food, drink and energy
    solid: frozenset[Block]  # blocks that nothing can enter
    overflown: frozenset[Block]  # solid blocks over which projectiles fly
    broken: frozenset[Block]  # blocks that a projectile turns into a path
    recipes: tuple[Recipe, ...]
    harvests: tuple[Harvest, ...]
    placements: tuple[Placement, ...]
    needs: tuple[Need, ...]
    pace: int  # amount by which a counter grows in a step
    # Damage by weapon, in the full game by level of the sword; a bare hand does 1 point.
    weapons: tuple[Weapon, ...]
    mobs: tuple[MobRow, ...]  # mob types; within a role, in the order of their type numbers
    projectiles: tuple[ProjectileRow, ...]  # projectiles in the order of their type numbers
    packing: Packing

    # In the full game only.
    floors: tuple[FloorRow, ...] = ()  # floors from the top; the last is the boss floor
    weights: tuple[int, ...] = ()  # reward of each achievement; empty: 1 each
    # Blocks that are not solid, but that the player cannot enter.
    barred: frozenset[Block] = frozenset()
    graves: frozenset[Block] = frozenset()  # blocks on which mobs appear on the boss floor
    possessions: tuple[Possession, ...] = ()
    vitals: tuple[str, ...] = VITALS

    @property
    def is_full(self) -> bool:
        """Whether this edition is the full game; otherwise it is Classic."""
        return bool(self.floors)

    @property
    def last_floor(self) -> int:
        """Number of the boss floor."""
        return len(self.floors) - 1

    def types(self, role: str) -> tuple[MobRow, ...]:
        """Return the mob types of a role; `Mob.type` is an index into them."""
        return tuple(row for row in self.mobs if row.role == role)

    @functools.cached_property
    def mob_fields(self) -> tuple[Field, ...]:
        """Fields packed for a mob; they include `type` if a role has several types."""
        return (*_type_field(max(len(self.types(role)) for role in ROLES)), *self.packing.mob)

    @functools.cached_property
    def projectile_fields(self) -> tuple[Field, ...]:
        """Fields packed for a projectile; they include `type` if there are several types."""
        return (*self.packing.projectile, *_type_field(len(self.projectiles)))

    @property
    def counters(self) -> tuple[str, ...]:
        """Names of the counters of the needs and of recovery."""
        return ("recover", *(need.counter for need in self.needs))

    @functools.cached_property
    def shots(self) -> dict[str, int]:
        """Type number of each projectile, by name."""
        return {row.name: type for type, row in enumerate(self.projectiles)}


# Fields that all mob types of a role share.
MELEE: dict[str, Any] = {"role": "melee", "nearest": 9, "cooldown": 5, "chase": 10, "gate": 0.75}
PASSIVE: dict[str, Any] = {"role": "passive", "nearest": 3, "food": 6}
_SHOTS: dict[str, Any] = {"retreat": 3, "nearest_shot": 4, "farthest_shot": 5}
RANGED: dict[str, Any] = {"role": "ranged", "nearest": 9, "cooldown": 4, "gate": 0.85, **_SHOTS}
NEEDS = (
    Need("food", "hunger", limit=25, asleep=0.5),
    Need("drink", "thirst", limit=20, asleep=0.5),
    Need("energy", "fatigue", limit=30, asleep=-1, rest=10),
)
BROKEN = frozenset({Block.CRAFTING_TABLE, Block.FURNACE})  # blocks that projectiles break
ROLES = ("melee", "passive", "ranged")  # roles of mobs, in the order in which they move
# Roles of mobs, in the order in which they appear.
APPEARING: tuple[str, ...] = ("passive", "melee", "ranged")
ASLEEP_FACTOR = 3.5  # factor on a mob's damage to a sleeping player
RIPE_AGE = 600  # number of steps until a plant is ripe
# Blocks of both editions that are in no map.
NEVER_PLACED = frozenset({Block.INVALID, Block.OUT_OF_BOUNDS, Block.WOOD})


def blocks(names: str) -> frozenset[Block]:
    """Return a set of blocks by their names, separated by spaces."""
    return frozenset(Block[name] for name in names.split())


def _type_field(types: int) -> tuple[Field, ...]:
    return (Field("type", (types - 1).bit_length()),) if types > 1 else ()


def of_type(values: Sequence[Any], type: Any) -> Any:
    """Return `values[type]`, for at most 31 values; a Python number if all values are equal.

    The values are packed in a few constant words. An array lookup would split the GPU kernel: XLA
    counts the computation of its index twice and then does not fuse it.
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
    """Return `values[type]` by shifts from constant int32 words that pack several values each."""
    bits = max(values).bit_length()
    each = 1 << ((32 // bits).bit_length() - 1)  # number of values in a word, a power of two
    word = jnp.int32(0)
    for start in range(0, len(values), each):
        some = sum(v << (bits * i) for i, v in enumerate(values[start : start + each]))
        some = np.uint32(some).astype(np.int32)
        word = jnp.where(type >= start, some, word) if start else jnp.int32(some)
    return (word >> (bits * (type & (each - 1)))) & ((1 << bits) - 1)
