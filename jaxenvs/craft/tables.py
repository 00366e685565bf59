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
    RIPE_PLANT = 16


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
    MAKE_IRON_SWORD = 16


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
    MAKE_IRON_SWORD = 21


class Recipe(NamedTuple):
    """One thing that can be made beside a crafting table."""

    action: Action
    makes: str  # item, one more of it
    costs: dict[str, int]  # items
    at_furnace: bool  # a furnace must be near as well
    achievement: Achievement


class Harvest(NamedTuple):
    """What DO makes of a block."""

    block: Block
    tool: str | None  # item that is needed
    item: str | None  # item won, one
    leaves: Block
    achievement: Achievement
    chance: float = 1.0
    food: int = 0  # added to it; hunger is stilled
    drink: int = 0  # added to it; thirst is stilled


class Placement(NamedTuple):
    """A block that can be put on the cell ahead."""

    action: Action
    block: Block
    item: str  # item that it costs
    cost: int
    on: frozenset[Block]  # blocks it may replace
    achievement: Achievement


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

    def types(self, role: str) -> tuple[MobRow, ...]:
        """Rows of a role; a row's place is the number of its type."""
        return tuple(row for row in self.mobs if row.role == role)

    @functools.cached_property
    def mob_fields(self) -> tuple[Field, ...]:
        """Fields of a mob's word, with its type where a role has several."""
        return (*self.packing.mob, *_type_field(max(len(self.types(role)) for role in ROLES)))

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
VITALS = ("health", "food", "drink", "energy")
RIPE_AGE = 600  # steps that a plant grows
NEVER_PLACED = frozenset({Block.INVALID, Block.OUT_OF_BOUNDS, Block.WOOD})  # in no map


def _type_field(types: int) -> tuple[Field, ...]:
    return (Field("type", (types - 1).bit_length()),) if types > 1 else ()


def of_type(values: Sequence[Any], type: Any) -> Any:
    """Value of a type: the number itself where all types have the same, else from a table."""
    if len(set(values)) == 1:
        return values[0]
    return jnp.asarray(np.array(values)).at[type].get(mode="promise_in_bounds")
