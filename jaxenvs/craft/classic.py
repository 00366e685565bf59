"""Craftax-Classic (Matthews et al. 2024, package `craftax` 1.6.1): the environment.

Differences from the package: the time limit truncates and never terminates; randomness comes from
JAX keys drawn once a step; what the package keeps and can be derived (mob map, light) is not kept.
Replicated though surely not meant: see `player.strike` (mobs come back to life), `player.damage`
(two swords hit harder), `player.move` (lava at the opposite border), `sight.view` (hidden mobs),
`spawn` (a full kind marks its first mob anew).
"""

import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float32, Int32, PyTree, UInt8

from ..core import checks
from ..core.controls import Controls
from ..core.env import Ending, Env, Params, Step, Transition
from ..core.facts import RGB, Fact, Features
from ..core.random import Key
from ..core.registry import register
from ..core.spaces import Box, Discrete, Space
from ..core.struct import struct
from . import chance, facts, pixels, player, sight, terrain
from .chance import Draws
from .ground import Ground, is_in
from .state import (
    MAX_SIZE,
    MOST_HEALTH,
    MOST_MOBS,
    CraftState,
    Level,
    Slots,
    World,
    earned_vector,
    new_world,
    pack,
    unpack,
)
from .step import advance
from .tables import CLASSIC, Achievement, Action, Block, Rules

OBSERVATIONS = ("symbolic", "ids", "pixels")
ACHIEVEMENTS = tuple(a.name.lower() for a in Achievement)
MOST_REACH = 32


@struct
class CraftParams(Params):
    """Numbers of the game; each may differ within a batch."""

    day_length: Any = np.int32(300)  # steps
    always_diamond: Any = np.bool_(True)  # whether one stone of every world is a diamond
    zombie_health: Any = np.int32(5)  # points of one that appears, at most 31
    cow_health: Any = np.int32(3)  # points of one that appears, at most 31
    skeleton_health: Any = np.int32(3)  # points of one that appears, at most 31
    mob_despawn_distance: Any = np.int32(14)  # steps from the player, at most `reach`
    spawn_cow_chance: Any = np.float32(0.1)  # a step
    spawn_zombie_base_chance: Any = np.float32(0.02)  # a step, in full light
    spawn_zombie_night_chance: Any = np.float32(0.1)  # more, in full darkness
    spawn_skeleton_chance: Any = np.float32(0.05)  # a step
    # Gradients of the noise of water, mountains, tunnels and woods, in full turns; NaN: drawn.
    fractal_noise_angles: Any = ()


# Lowest and highest value of each, checked where it is not traced.
_LIMITS = {
    "max_steps_in_episode": (1, 2**31 - 1),
    "day_length": (1, 2**31 - 1),
    "zombie_health": (1, MOST_HEALTH),
    "cow_health": (1, MOST_HEALTH),
    "skeleton_health": (1, MOST_HEALTH),
    "spawn_cow_chance": (0, 1),
    "spawn_zombie_base_chance": (0, 1),
    "spawn_zombie_night_chance": (0, 1),
    "spawn_skeleton_chance": (0, 1),
}


@register("Craft-Classic-Symbolic-v0", obs="symbolic", aliases=("Craftax-Classic-Symbolic-v1",))
@register("Craft-Classic-Ids-v0", obs="ids")
@register("Craft-Classic-Pixels-v0", obs="pixels", aliases=("Craftax-Classic-Pixels-v1",))
class CraftClassic(Env):
    """An open world to gather, build, fight and survive in: Crafter's game by Craftax's rules.

    Actions: 0 noop, 1 left, 2 right, 3 up, 4 down, 5 do, 6 sleep, 7 place stone, 8 place table,
        9 place furnace, 10 place plant, 11 to 13 make a wood, stone, iron pickaxe, 14 to 16 make a
        wood, stone, iron sword. A sleeping player does nothing.
    Observation (field `obs`): `symbolic` float32 (1345,), upstream's: for each of the 7 x 9 cells,
        row by row, 17 block flags and 4 flags for zombie, cow, skeleton, arrow; 12 item counts and
        health, food, drink, energy in tenths; 4 flags for left, right, up, down; light; sleeping.
        `ids` uint8 (145,), the same in numbers, by name in `layout`: 0 to 62 blocks, 63 to 125 mobs
        (bits), 126 to 137 items, 138 to 141 health, food, drink, energy, 142 facing (1 left,
        2 right, 3 up, 4 down), 143 sleeping, 144 light (0 to 255). `pixels` uint8 (63, 63, 3).
    Reward: 1 for every achievement that is new in this episode, 0.1 for every point of health;
        with the field `task`, 1 when that achievement is reached and 0 otherwise.
    Episode ends: without health, in lava, at the time limit.
    """

    size: int = 64  # cells on a side, a multiple of 16
    obs: str = "symbolic"  # which observation is made
    task: str | None = None  # name of the only achievement that is rewarded
    slots: Slots = Slots()  # the most zombies, cows, skeletons, arrows and plants of a world
    reach: int = 14  # steps from the player at which mobs may appear, exclusive

    reset_source: ClassVar[str] = "exact"
    rows_per_lane: ClassVar[int] = 512  # a world is the work of some hundred steps
    levels_at_once: ClassVar[int] = 4096
    idle_action: ClassVar[int | None] = Action.NOOP
    reward_range: ClassVar[tuple[float, float]] = (-0.9, len(Achievement) + 0.9)
    rules: ClassVar[Rules] = CLASSIC
    achievements: ClassVar[tuple[str, ...]] = ACHIEVEMENTS
    observations: ClassVar[tuple[str, ...]] = OBSERVATIONS
    status_rows: ClassVar[int] = 2  # the inventory

    def __post_init__(self) -> None:
        """Check the fields."""
        owner = type(self).__name__
        checks.one_of(owner, "obs", self.obs, OBSERVATIONS)
        if self.task is not None:
            checks.one_of(owner, "task", self.task, self.achievements)
        checks.integer_field(owner, "size", self.size, 16, MAX_SIZE)
        if self.size % 16:
            near = round(self.size / 16) * 16
            raise ValueError(
                f"{owner}: size={self.size} must be a multiple of 16 (the noise of the terrain has "
                f"cells of 16), such as {max(16, near)}"
            )
        checks.integer_field(owner, "reach", self.reach, 1, MOST_REACH)
        if not isinstance(self.slots, Slots):
            raise TypeError(f"{owner}: slots must be a craft.Slots(...), got {self.slots!r}")
        for name, count in zip(self.slots._fields, self.slots, strict=True):
            checks.integer_field(owner, f"slots.{name}", count, 1, 16)
        if sum(self.slots.mobs.values()) > MOST_MOBS:
            raise ValueError(
                f"{owner}: slots={self.slots} has {sum(self.slots.mobs.values())} mobs; zombies, "
                f"cows and skeletons together may be at most {MOST_MOBS}"
            )

    # The contract.

    @property
    def default_params(self) -> CraftParams:
        """Upstream's numbers."""
        return _default_params(self.size)

    @property
    def action_space(self) -> Space:
        """17 actions."""
        return Discrete(self.rules.actions)

    @property
    def observation_space(self) -> Space:
        """Space of the observation named by the field `obs`."""
        return self._spaces[self.obs]

    @property
    def _spaces(self) -> dict[str, Box]:
        height, width = self.rules.view
        return {
            "symbolic": Box(0.0, 1.0, (sight.floats(self.rules),), np.float32),
            "ids": Box(0, 255, (self.layout.size,), np.uint8),
            "pixels": Box(0, 255, ((height + 2) * 7, width * 7, 3), np.uint8),
        }

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the actions."""
        return tuple(row.name for row in facts.KEYS)

    @property
    def controls(self) -> Controls:
        """Upstream's keys, and arrows; see `facts.KEYS`."""
        return Controls(facts.KEYS)

    @property
    def features(self) -> Features:
        """Those of `symbolic` where `ids` are observed, which a network could not add up."""
        if self.obs != "ids":
            return super().features
        return Features(self._spaces["symbolic"], self.expand)

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """What stands where in `ids` and in `symbolic`."""
        return sight.observation_rows(self.rules)

    def checked_params(self, params: Any, where: str) -> Any:
        """Also check the ranges of numbers; those not known while tracing are clipped."""
        limits = {**_LIMITS, "mob_despawn_distance": (1, self.reach)}
        if isinstance(params, CraftParams):
            for name, (low, high) in limits.items():
                _check_range(where, name, getattr(params, name), low, high)
        checked = super().checked_params(params, where)
        return checked.replace(**{n: getattr(checked, n).clip(*limits[n]) for n in limits})

    def draw_level(self, key: Key, params: Any) -> Level:
        """Draw a world."""
        draws = terrain.draw(key, self.size, params.fractal_noise_angles)
        return Level(map=terrain.build(draws, params.always_diamond, self.size))

    def reset_state(self, key: Key, level: Level, params: Any) -> CraftState:
        """Put the player into the middle of the map."""
        health = {"zombie": 1, "cow": params.cow_health, "skeleton": 0}
        world = new_world(self.rules, self.slots, self.size, health)
        return self.packed(jnp.int32(0), level.map, world)

    def step_state(self, key: Key, state: CraftState, action: Array, params: Any) -> Transition:
        """Draw the chance of the step and apply the rules."""
        return self.advance(state, action, chance.draw(key, self.slots), params)

    def advance(self, state: CraftState, action: Array, draws: Draws, params: Any) -> Transition:
        """Apply the rules with given draws; `state.time` already counts this step."""
        before = self.world(state)
        light = sight.light(state.time - 1, params.day_length)
        cells, after = advance(
            self.rules, state.map, before, action, draws, params, light, self.reach
        )
        new = [a & ~b for a, b in zip(after.earned, before.earned, strict=True)]
        earned = sum((jax.lax.population_count(word) for word in new), jnp.int32(0))
        gained = after.vitals["health"] - before.vitals["health"]
        reward = earned.astype(jnp.float32) + gained.astype(jnp.float32) * np.float32(0.1)
        if self.task is not None:
            reward = earned_vector(self.rules, tuple(new))[self.achievements.index(self.task)]
        return Transition(
            self.packed(state.time, cells, after),
            reward,
            after.vitals["health"] <= 0,
            {"achievements": earned_vector(self.rules, after.earned)},
        )

    def observe(self, state: CraftState, params: Any = None) -> PyTree[Array]:
        """Return the observation named by the field `obs`."""
        if self.obs == "pixels":
            return self.picture(state, 7, params)
        show = sight.symbolic if self.obs == "symbolic" else sight.ids
        return show(self.rules, state.map, self.world(state), self.light(state, params))

    def action_mask(self, state: CraftState, params: Any = None) -> Bool[Array, "17"]:
        """Actions that may do more than noop; DO, moving and noop always may, but in sleep."""
        world, rules = self.world(state), self.rules
        front = player.look(Ground(state.map), world)
        awake, free = ~world.sleeping, front.inside & ~front.taken
        mask = [awake] * rules.actions
        mask[Action.NOOP] = jnp.ones((), jnp.bool_)
        mask[Action.SLEEP] = awake & (world.vitals["energy"] < rules.best)
        for row in rules.placements:
            able = free & is_in(front.block, row.on)
            mask[row.action] = awake & able & player.has(world, {row.item: row.cost})
        for recipe in rules.recipes:
            able = front.table & (front.furnace | (not recipe.at_furnace))
            mask[recipe.action] = awake & able & player.has(world, recipe.costs)
        return jnp.stack(mask)

    def succeeded(self, step: Step) -> Bool[Array, ""] | None:
        """Tell whether the `task` was reached; without one the return is a score."""
        return None if self.task is None else step.reward > 0

    def ending(self, level: Level) -> Ending:
        """Wait, then walk right into lava."""
        middle = self.size // 2
        ahead = level.map.at[middle, middle + 1].set(Block.LAVA)
        return Ending(level.replace(map=ahead), (Action.NOOP, Action.RIGHT))

    def facts(self, state: CraftState, params: Any = None) -> tuple[Fact, ...]:
        """The body, every item with its count, and the hour."""
        return facts.facts(self, state, params)

    def describe(self, state: CraftState, params: Any = None) -> str:
        """Body, belongings, hour, what is in front, what is in sight and where."""
        return facts.describe(self, state, params)

    def icon(self, name: str, size: int, background: RGB) -> np.ndarray | None:
        """The icon of a vital or an item."""
        return facts.icon(name, size, background)

    def tiles(self, state: CraftState) -> Int32[Array, "rows columns"]:
        """Sprites of the view and the inventory, see `pixels`."""
        return pixels.tiles(self.rules, self.world(state), self.view(state)[0])

    def atlas(self, tile_size: int) -> np.ndarray:
        """Sprites, uint8 (sprites, tile_size, tile_size, 3)."""
        return pixels.atlas(tile_size)

    # More than the contract.

    @property
    def layout(self) -> sight.Layout:
        """Offsets in the observation `ids`."""
        return sight.layout(self.rules)

    def world(self, state: CraftState) -> World:
        """Everything but map and clock, by name."""
        return unpack(self.rules, self.slots, state.words)

    def packed(self, time: Array, map: UInt8[Array, "size size"], world: World) -> CraftState:
        """Build a state; the inverse of `world`."""
        return CraftState(time=time, map=map, words=pack(self.rules, world))

    def view(self, state: CraftState) -> tuple[UInt8[Array, "7 9"], UInt8[Array, "7 9"]]:
        """Blocks around the player, and bits of the mobs there: zombie, cow, skeleton, arrow."""
        return sight.view(self.rules, state.map, self.world(state))

    def light(self, state: CraftState, params: Any = None) -> Float32[Array, ""]:
        """Daylight, 0 to 1."""
        params = self.default_params if params is None else params
        return sight.light(state.time, params.day_length)

    def expand(self, ids: UInt8[Array, "145"]) -> Float32[Array, "1345"]:
        """Turn an observation `ids` into `symbolic`."""
        return sight.expand(self.rules, ids)

    def picture(
        self, state: CraftState, tile_size: int, params: Any = None
    ) -> UInt8[Array, "height width 3"]:
        """Draw the view and the inventory, by day and by night."""
        world, (blocks, _) = self.world(state), self.view(state)
        light = self.light(state, params)
        return pixels.picture(self.rules, world, blocks, light, state.time, tile_size)


@functools.lru_cache
def _default_params(size: int) -> CraftParams:
    angles = tuple(np.full(shape, np.nan, np.float32) for shape in terrain.lattices(size))
    return CraftParams(max_steps_in_episode=np.int32(10_000), fractal_noise_angles=angles)


def _check_range(where: str, name: str, given: Any, low: float, high: float) -> None:
    """Raise `ValueError` for a number out of range, unless it is traced."""
    if isinstance(given, Tracer) or not isinstance(
        given, (int, float, np.generic, np.ndarray, jax.Array)
    ):
        return
    values = np.asarray(given)
    if values.dtype.kind in "iuf" and not ((values >= low) & (values <= high)).all():
        worst = values.reshape(-1)[np.argmin(((values >= low) & (values <= high)).reshape(-1))]
        raise ValueError(
            f"{where}: params.{name}={worst} is out of range; it must be from {low} to {high}"
        )
