"""Craftax-Classic (Matthews et al. 2024, package `craftax` 1.6.1): the environment and its rules.

Differences from Craftax: the time limit truncates and never terminates; all random numbers of a
step are drawn once; the state omits the mob map and the light, which are computed from other
fields.

These functions reproduce bugs of Craftax on purpose: `attack.revive` (mobs come back to life),
`attack.damage` (two swords hit harder), `player.move` (lava at the opposite border), `sight.who`
(hidden mobs), `spawn._filled` (if all slots of a role are alive, the first is marked again, see
`Mob.marked`).
"""

import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from ..core import checks
from ..core.env import Ending, Params
from ..core.random import Key
from ..core.registry import register
from ..core.rounding import rounded
from ..core.struct import struct
from . import attack, body, deeds, diagnostics, mobs, plants, player, projectiles, spawn, terrain
from .compiler.edges import CLASSIC as EDGES
from .env import STEPS, CraftEnv, numbers
from .packing import Field, Packing, fields_of
from .spawn import Odds
from .state import CraftState, Level, new_world
from .step import Moment, Rule
from .tables import (
    APPEARING,
    BROKEN,
    MELEE,
    NEEDS,
    NEVER_PLACED,
    PASSIVE,
    RANGED,
    ROLES,
    VITALS,
    Achievement,
    Action,
    Block,
    Harvest,
    MobRow,
    Placement,
    ProjectileRow,
    Recipe,
    Rules,
    Weapon,
    blocks,
)

_SOLID = blocks("WATER STONE TREE COAL IRON DIAMOND CRAFTING_TABLE FURNACE PLANT RIPE_PLANT")
_OPEN = NEVER_PLACED | blocks("GRASS SAND PATH LAVA")
# Blocks on which the player can place a stone, and blocks on which the player can plant a sapling.
_FILLED, _SOIL = _OPEN | blocks("WATER"), blocks("GRASS")
# Each row: the material of a tool, the items that it costs, and whether a furnace is required.
_MATERIALS = (
    ("WOOD", {"wood": 1}, False),
    ("STONE", {"wood": 1, "stone": 1}, False),
    ("IRON", {"wood": 1, "stone": 1, "iron": 1, "coal": 1}, True),
)
_A = Achievement

_TOOLS = tuple(f"{of}_{tool}" for tool in ("pickaxe", "sword") for of in ("wood", "stone", "iron"))
_ITEMS = ("wood", "stone", "coal", "iron", "diamond", "sapling", *_TOOLS)
MOST_HEALTH = 31  # highest health that a mob may have, in points; the state stores it in 5 bits
BESIDE = 16  # positions of projectiles are stored up to this many cells beyond the map's border
# Largest side of the map, in cells. Positions of projectiles, which may be up to BESIDE cells
# beyond the map, then fit in 8 bits.
MAX_SIZE = 224
_PLACE = fields_of(("row", "column"), 8)
_FLIES = (*fields_of(("d_row", "d_column"), 2, low=-1), Field("alive", 1, flag=True))
_COUNTERS = ("recover", "hunger", "thirst", "fatigue")
PACKING = Packing(
    player=(
        (
            *fields_of(("row", "column"), 8, low=-1),
            Field("facing", 3),
            Field("sleeping", 1, flag=True),
        ),
        (
            *fields_of((f"vitals.{name}" for name in VITALS), 8),
            *fields_of((f"counters.{name}" for name in _COUNTERS), 8, low=-64),
            *fields_of((f"items.{name}" for name in _ITEMS), 8),
        ),
    ),
    mob=(
        *_PLACE,
        Field("health", 5),
        Field("cooldown", 3),
        *fields_of(("alive", "marked"), 1, flag=True),
    ),
    projectile=(
        *(Field(name, 8, low=-BESIDE, saturates=True) for name in ("row", "column")),
        *_FLIES,
    ),
    plant=(*_PLACE, Field("age", 14, saturates=True), Field("planted", 1, flag=True)),
)


def _mob(name: str, health: int, on: str, achievement: Achievement, **more: Any) -> MobRow:
    where = {"appears_on": blocks(on), "shuns": frozenset({Block.LAVA})}
    return MobRow(name=name, health=health, achievement=achievement, **where, **more)


CLASSIC = Rules(
    packing=PACKING,
    view=(7, 9),
    blocks=tuple(b for b in Block if b <= Block.RIPE_PLANT),
    actions=tuple(a for a in Action if a <= Action.MAKE_IRON_SWORD),
    achievements=tuple(a for a in Achievement if a <= Achievement.MAKE_IRON_SWORD),
    items=_ITEMS,
    most=9,
    best=9,
    solid=_SOLID,
    overflown=frozenset({Block.WATER}),
    broken=BROKEN,
    recipes=tuple(
        Recipe(
            Action[f"MAKE_{of}_{tool}"],
            f"{of}_{tool}".lower(),
            costs,
            furnace,
            _A[f"MAKE_{of}_{tool}"],
        )
        for tool in ("PICKAXE", "SWORD")
        for of, costs, furnace in _MATERIALS
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
        Placement(Action.PLACE_STONE, Block.STONE, "stone", 1, _FILLED, _A.PLACE_STONE),
        Placement(Action.PLACE_TABLE, Block.CRAFTING_TABLE, "wood", 2, _OPEN, _A.PLACE_TABLE),
        Placement(Action.PLACE_FURNACE, Block.FURNACE, "stone", 1, _OPEN, _A.PLACE_FURNACE),
        Placement(Action.PLACE_PLANT, Block.PLANT, "sapling", 1, _SOIL, _A.PLACE_PLANT),
    ),
    needs=NEEDS,
    # `pace` must be even: in a step of sleep, hunger and thirst add half of `pace` to their
    # counters, and the counters are integers.
    pace=2,
    weapons=(Weapon("wood_sword", 2), Weapon("stone_sword", 3), Weapon("iron_sword", 5)),
    mobs=(
        _mob("zombie", 5, "GRASS PATH", _A.DEFEAT_ZOMBIE, damage=2, **MELEE),
        _mob("cow", 3, "GRASS", _A.EAT_COW, **PASSIVE),
        _mob("skeleton", 3, "PATH", _A.DEFEAT_SKELETON, projectile="arrow", chase=10, **RANGED),
    ),
    projectiles=(ProjectileRow("arrow", damage=2),),
)
_ZOMBIE, _COW, _SKELETON = CLASSIC.mobs


@struct
class CraftParams(Params):
    """Params of Craft-Classic; each may differ between the environments of a batch."""

    max_steps_in_episode: Any = np.int32(10_000)
    day_length: Any = np.int32(300)  # number of steps in a day
    always_diamond: Any = np.bool_(True)  # whether each new map turns one stone into a diamond
    zombie_health: Any = np.int32(_ZOMBIE.health)  # health of a new zombie in points, at most 31
    cow_health: Any = np.int32(_COW.health)  # health of a new cow in points, at most 31
    skeleton_health: Any = np.int32(_SKELETON.health)  # health of a new skeleton, at most 31 points
    # A mob vanishes if it is at least this many steps away from the player.
    # The value is at most the environment's `reach`.
    mob_despawn_distance: Any = np.int32(14)
    spawn_cow_chance: Any = np.float32(0.1)  # probability per step that a cow appears
    # Probability per step that a zombie appears in full daylight.
    spawn_zombie_base_chance: Any = np.float32(0.02)
    # Increase of the probability of a zombie in full darkness.
    spawn_zombie_night_chance: Any = np.float32(0.1)
    spawn_skeleton_chance: Any = np.float32(0.05)  # probability per step that a skeleton appears
    # Angles of the noise gradients, in turns (full circles): water, mountains, tunnels, woods.
    # NaN: the angle is drawn at random.
    fractal_noise_angles: Any = ()


_CHANCES = ("cow_chance", "zombie_base_chance", "zombie_night_chance", "skeleton_chance")
# Lowest and highest valid value of each param. A traced value is clipped to this range; a concrete
# value outside of it raises an error.
_RANGES = {
    **dict.fromkeys(("max_steps_in_episode", "day_length"), STEPS),
    **dict.fromkeys((f"{row.name}_health" for row in CLASSIC.mobs), (1, MOST_HEALTH)),
    **dict.fromkeys((f"spawn_{name}" for name in _CHANCES), (0, 1)),
}


def _odds(moment: Moment) -> Odds:
    """Return, for each mob role, the probability that a mob appears, and its health and type.

    Zombies are likelier in the dark.
    """
    params, dark = moment.params, (1 - moment.light) * (1 - moment.light)
    night = params.spawn_zombie_base_chance + rounded(params.spawn_zombie_night_chance * dark)
    chances = (params.spawn_cow_chance, night, params.spawn_skeleton_chance)
    health = (params.cow_health, params.zombie_health, params.skeleton_health)
    by_role = (dict(zip(APPEARING, values, strict=True)) for values in (chances, health))
    return Odds(*by_role, types=dict.fromkeys(ROLES, 0))


STAGES = (
    player.doze,
    player.face,
    attack.strike,
    attack.revive,
    deeds.choose,
    deeds.do,
    player.move,
    mobs.move,
    projectiles.fly,
    plants.grow,
    body.burn,
    functools.partial(spawn.appear, odds=_odds),
    body.sleep,
    body.live,
    body.carry,
    body.limit_health,
)


@register("Craft-Classic-Symbolic-v0", obs="symbolic", aliases=("Craftax-Classic-Symbolic-v1",))
@register("Craft-Classic-Ids-v0", obs="ids")
@register("Craft-Classic-Pixels-v0", obs="pixels", aliases=("Craftax-Classic-Pixels-v1",))
class CraftClassic(CraftEnv):
    """An open world to collect, build, fight and survive in: Crafter with Craftax's rules.

    Actions: 0 noop; 1 left, 2 right, 3 up, 4 down; 5 do; 6 sleep; 7 place stone, 8 place table,
        9 place furnace, 10 place plant; 11 to 13 make a wood, stone, iron pickaxe; 14 to 16 make a
        wood, stone, iron sword. A sleeping player takes no action.
    Observation (field `obs`): `symbolic` float32 (1345,), Craftax's: for each of the 7 x 9 cells,
        row by row, 17 block flags and 4 flags for zombie, cow, skeleton, arrow; then 12 item counts
        and health, food, drink, energy in tenths; 4 flags for facing left, right, up, down; light;
        sleeping. `ids` uint8 (145,), the same content as integers: entries 0 to 62 are blocks,
        63 to 125 mobs (one bit per type), 126 to 137 items, 138 to 141 health, food, drink, energy,
        142 facing (1 left, 2 right, 3 up, 4 down), 143 sleeping, 144 light (0 to 255); `layout`
        names each entry. `pixels` uint8 (63, 63, 3).
    Reward: 1 for every achievement new in this episode, 0.1 for every point of health gained (-0.1
        for a point lost); with the field `task`, 1 for that achievement and 0 otherwise.
    Episode ends: without health, in lava, at the time limit.
    """

    size: int = 64  # cells on a side of the map, a multiple of 16

    stages: ClassVar[tuple[Rule, ...]] = STAGES
    edges: ClassVar[Mapping[Rule, Rule]] = EDGES
    ranges: ClassVar[dict[str, tuple[float, float]]] = _RANGES
    rules: ClassVar[Rules] = CLASSIC
    achievements: ClassVar[tuple[str, ...]] = tuple(a.name.lower() for a in CLASSIC.achievements)
    measures: ClassVar[tuple[str, ...]] = diagnostics.names(CLASSIC)
    reward_range: ClassVar[tuple[float, float]] = (-1.0, len(CLASSIC.achievements) + 0.9)

    def __post_init__(self) -> None:
        """Raise an error if a field of the environment has an invalid value."""
        super().__post_init__()
        owner = type(self).__name__
        checks.integer_field(owner, "size", self.size, 16, MAX_SIZE)
        if self.size % 16:
            near = round(self.size / 16) * 16
            raise ValueError(
                f"{owner}: size={self.size} must be a multiple of 16 (the noise of the terrain has "
                f"cells of 16), such as {max(16, near)}"
            )

    @property
    def default_params(self) -> CraftParams:
        """Craftax's default values of all params."""
        return numbers(CraftParams, self.size)

    def draw_level(self, key: Key, params: Any) -> Level:
        """Generate a map from random noise, see `terrain`."""
        draws = terrain.draw(key, self.size, params.fractal_noise_angles)
        return Level(map=terrain.build(draws, params.always_diamond, self.size))

    def reset_state(self, key: Key, level: Level, params: Any) -> CraftState:
        """Return the initial state: the player stands in the middle of the map."""
        health = {"melee": 1, "passive": params.cow_health, "ranged": 0}
        world = new_world(self.rules, self.slots, self.size, health)
        return self.packed(jnp.int32(0), level.map, world)

    def ending(self, level: Level) -> Ending:
        """Return a level, and two actions that end its episode: wait, then walk right into lava."""
        middle = self.size // 2
        ahead = level.map.at[middle, middle + 1].set(Block.LAVA)
        return Ending(level.replace(map=ahead), (Action.NOOP, Action.RIGHT))
