"""Craftax-Classic 1.6.1 as tables: blocks, items, actions, achievements, and what turns into what.

`Rules` is one edition of the game; the stages of a step read it and name no block themselves where
editions differ.
"""

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


class Rules(NamedTuple):
    """One edition of the game."""

    view: tuple[int, int]  # rows and columns seen; the player is in the middle
    actions: int
    achievements: int
    items: tuple[str, ...]  # of the inventory, in the order of the symbolic observation
    most: int  # of one item
    best: int  # health, food, drink and energy at most
    solid: frozenset[Block]  # nothing can enter these
    recipes: tuple[Recipe, ...]
    harvests: tuple[Harvest, ...]
    placements: tuple[Placement, ...]
    weapons: tuple[Weapon, ...]  # a bare hand does 1
    mobs: tuple[MobRow, ...]  # in the order of moving


VITALS = ("health", "food", "drink", "energy")
RIPE_AGE = 600  # steps that a plant grows

_SOLID = frozenset(
    {
        Block.WATER,
        Block.STONE,
        Block.TREE,
        Block.COAL,
        Block.IRON,
        Block.DIAMOND,
        Block.CRAFTING_TABLE,
        Block.FURNACE,
        Block.PLANT,
        Block.RIPE_PLANT,
    }
)
_OPEN = frozenset({Block.INVALID, Block.OUT_OF_BOUNDS, Block.WOOD}) | {
    Block.GRASS,
    Block.SAND,
    Block.PATH,
    Block.LAVA,
}
_IRON = {"wood": 1, "stone": 1, "iron": 1, "coal": 1}
_STONE = {"wood": 1, "stone": 1}
_A = Achievement

CLASSIC = Rules(
    view=(7, 9),
    actions=len(Action),
    achievements=len(Achievement),
    items=(
        "wood",
        "stone",
        "coal",
        "iron",
        "diamond",
        "sapling",
        "wood_pickaxe",
        "stone_pickaxe",
        "iron_pickaxe",
        "wood_sword",
        "stone_sword",
        "iron_sword",
    ),
    most=9,
    best=9,
    solid=_SOLID,
    recipes=(
        Recipe(Action.MAKE_WOOD_PICKAXE, "wood_pickaxe", {"wood": 1}, False, _A.MAKE_WOOD_PICKAXE),
        Recipe(Action.MAKE_STONE_PICKAXE, "stone_pickaxe", _STONE, False, _A.MAKE_STONE_PICKAXE),
        Recipe(Action.MAKE_IRON_PICKAXE, "iron_pickaxe", _IRON, True, _A.MAKE_IRON_PICKAXE),
        Recipe(Action.MAKE_WOOD_SWORD, "wood_sword", {"wood": 1}, False, _A.MAKE_WOOD_SWORD),
        Recipe(Action.MAKE_STONE_SWORD, "stone_sword", _STONE, False, _A.MAKE_STONE_SWORD),
        Recipe(Action.MAKE_IRON_SWORD, "iron_sword", _IRON, True, _A.MAKE_IRON_SWORD),
    ),
    harvests=(
        Harvest(Block.TREE, None, "wood", Block.GRASS, _A.COLLECT_WOOD),
        Harvest(Block.STONE, "wood_pickaxe", "stone", Block.PATH, _A.COLLECT_STONE),
        Harvest(Block.COAL, "wood_pickaxe", "coal", Block.PATH, _A.COLLECT_COAL),
        Harvest(Block.IRON, "stone_pickaxe", "iron", Block.PATH, _A.COLLECT_IRON),
        Harvest(Block.DIAMOND, "iron_pickaxe", "diamond", Block.PATH, _A.COLLECT_DIAMOND),
        Harvest(Block.GRASS, None, "sapling", Block.GRASS, _A.COLLECT_SAPLING, chance=0.1),
        Harvest(Block.WATER, None, None, Block.WATER, _A.COLLECT_DRINK, drink=1),
        Harvest(Block.RIPE_PLANT, None, None, Block.PLANT, _A.EAT_PLANT, food=4),
    ),
    placements=(
        Placement(
            Action.PLACE_STONE, Block.STONE, "stone", 1, _OPEN | {Block.WATER}, _A.PLACE_STONE
        ),
        Placement(Action.PLACE_TABLE, Block.CRAFTING_TABLE, "wood", 2, _OPEN, _A.PLACE_TABLE),
        Placement(Action.PLACE_FURNACE, Block.FURNACE, "stone", 1, _OPEN, _A.PLACE_FURNACE),
        Placement(
            Action.PLACE_PLANT, Block.PLANT, "sapling", 1, frozenset({Block.GRASS}), _A.PLACE_PLANT
        ),
    ),
    weapons=(Weapon("wood_sword", 2), Weapon("stone_sword", 3), Weapon("iron_sword", 5)),
    mobs=(
        MobRow("zombie", frozenset({Block.GRASS, Block.PATH}), 9, _A.DEFEAT_ZOMBIE),
        MobRow("cow", frozenset({Block.GRASS}), 3, _A.EAT_COW, food=6),
        MobRow("skeleton", frozenset({Block.PATH}), 9, _A.DEFEAT_SKELETON),
    ),
)
