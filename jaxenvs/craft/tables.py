"""The words of the Craft games, and the types of the rows that their rules are made of.

`Rules` is one edition of the game, a table that the stages of a step read; they name no block
themselves where editions differ. An edition uses some of the blocks, actions and achievements.
"""

import dataclasses
from enum import IntEnum
from typing import NamedTuple


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


class Weapon(NamedTuple):
    """Damage of a blow for each one of an item that the player owns."""

    item: str
    damage: int


class MobRow(NamedTuple):
    """A kind of mob."""

    name: str
    on: frozenset[Block]  # blocks it appears on
    nearest: int  # steps from the player at which it appears at least, exclusive
    achievement: Achievement  # for killing it
    food: int = 0  # that killing it gives


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
    recipes: tuple[Recipe, ...]
    harvests: tuple[Harvest, ...]
    placements: tuple[Placement, ...]
    weapons: tuple[Weapon, ...]  # a bare hand does 1
    mobs: tuple[MobRow, ...]  # in the order of moving
    projectiles: tuple[str, ...]  # that mobs shoot


VITALS = ("health", "food", "drink", "energy")
RIPE_AGE = 600  # steps that a plant grows
NEVER_PLACED = frozenset({Block.INVALID, Block.OUT_OF_BOUNDS, Block.WOOD})  # in no map
