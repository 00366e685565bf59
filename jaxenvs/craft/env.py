"""Base class of the environments of both editions of Craft."""

import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, PyTree, UInt8

from ..core import checks
from ..core.controls import Controls
from ..core.env import Env, Step, Transition
from ..core.facts import RGB, Fact, Features, sentences
from ..core.random import Key
from ..core.rounding import rounded
from ..core.spaces import Box, Dict, Discrete, Space
from ..core.vocabulary import Vocabulary, of_bytes
from . import body, chance, deeds, facts, player, sight, terrain, upstream
from .chance import Draws
from .ground import Ground
from .look import pictures, sprites, tiles
from .packing import UNKNOWN, Known
from .state import (
    MOST_MOBS,
    CraftState,
    Slots,
    World,
    achievement_reward,
    earned_vector,
    pack,
    unpack,
)
from .step import Moment, Rule, advance
from .tables import Action, Rules

OBSERVATIONS = ("symbolic", "ids", "pixels")
MOST_REACH = 32
STEPS = (1, 2**31 - 1)  # valid range of params that count steps


class CraftEnv(Env):
    """Base of an edition: a subclass adds its rules, params and world generation."""

    obs: str = "symbolic"  # observation, one of OBSERVATIONS
    task: str | None = None  # name of the only rewarded achievement; None: all are rewarded
    slots: Slots = Slots()  # number of slots for mobs, projectiles and plants
    reach: int = 14  # mobs appear fewer than this many steps from the player

    package: ClassVar[str] = "craftax"
    reset_source: ClassVar[str] = "exact"
    # On a CPU, the reset source `exact` generates num_envs / rows_per_lane worlds at a time:
    # generating a world takes as long as some hundred steps.
    rows_per_lane: ClassVar[int] = 512
    levels_at_once: ClassVar[int] = 4096
    idle_action: ClassVar[int | None] = Action.NOOP
    rules: ClassVar[Rules]
    ranges: ClassVar[dict[str, tuple[float, float]]]  # lowest and highest value of each param
    state_type: ClassVar[type[CraftState]] = CraftState
    stages: ClassVar[tuple[Rule, ...]]  # rules of a step, in order
    edges: ClassVar[Mapping[Rule, Rule]] = {}  # barriers for XLA after stages, see `compiler`
    observations: ClassVar[tuple[str, ...]] = OBSERVATIONS
    status_rows: ClassVar[int] = 2  # number of rows of cells in the inventory
    pixel_size: ClassVar[int] = 7  # pixels along a cell's side in the observation `pixels`
    most_seen: ClassVar[float] = 1.0  # highest value in the symbolic observation
    sight: ClassVar[Any] = sight  # module that computes the observations
    people: ClassVar[Any] = facts  # module of keys, facts and text descriptions

    def __post_init__(self) -> None:
        """Check the fields."""
        owner = type(self).__name__
        checks.one_of(owner, "obs", self.obs, OBSERVATIONS)
        if self.task is not None:
            checks.one_of(owner, "task", self.task, self.achievements)
        checks.integer_field(owner, "reach", self.reach, 1, MOST_REACH)
        if not isinstance(self.slots, Slots):
            raise TypeError(f"{owner}: slots must be a craft.Slots(...), got {self.slots!r}")
        for name, count in zip(self.slots._fields, self.slots, strict=True):
            checks.integer_field(owner, f"slots.{name}", count, 1, 16)
        if sum(self.slots.mobs.values()) > MOST_MOBS:
            raise ValueError(
                f"{owner}: slots={self.slots} has {sum(self.slots.mobs.values())} mobs; "
                f"there may be at most {MOST_MOBS}"
            )

    @property
    def limits(self) -> dict[str, tuple[float, float]]:
        """Lowest and highest value of each param; traced params are clipped, others checked."""
        return {**self.ranges, "mob_despawn_distance": (1, self.reach)}

    # The `Env` interface.

    @property
    def action_space(self) -> Space:
        """The actions of the edition."""
        return Discrete(len(self.rules.actions))

    @property
    def observation_space(self) -> Space:
        """Space of the observation named by the field `obs`."""
        return self._spaces[self.obs]

    @property
    def _spaces(self) -> dict[str, Box]:
        (height, width), size = self.rules.view, self.pixel_size
        picture = ((height + self.status_rows) * size, width * size, 3)
        return {
            "symbolic": Box(0.0, self.most_seen, (self.sight.floats(self.rules),), np.float32),
            "ids": Box(0, 255, (self.layout.size,), np.uint8),
            "pixels": Box(0, 255, picture, np.uint8),
        }

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the actions."""
        return self.controls.names

    @property
    def controls(self) -> Controls:
        """Keys of the actions: Craftax's keys and the arrow keys, see `facts.KEYS`."""
        return Controls(self.people.KEYS)

    @property
    def features(self) -> Features:
        """For `ids`: the symbolic observation instead, because the codes have no linear meaning."""
        if self.obs != "ids":
            return super().features
        return Features(self._spaces["symbolic"], self.expand)

    @property
    def map_features(self) -> Features:
        """For `ids`: flags of each cell and of the cell ahead, capped counts, other values."""
        if self.obs != "ids":
            return self.features
        flags, numbers = self.sight.flags(self.rules), self.sight.NUMBERS
        counts = jax.eval_shape(self._counts, jax.ShapeDtypeStruct((self.layout.size,), np.uint8))
        spaces: dict[str, Space] = {
            "ahead": Box(0.0, 1.0, (flags,), np.float32),
            "body": Box(0.0, self.most_seen, (numbers,), np.float32),
            "cells": Box(0.0, 1.0, (*self.rules.view, flags), np.float32),
            "counts": Box(0, self.rules.best, counts.shape, np.uint8),
        }
        return Features(Dict(spaces), self._map_features)

    def _map_features(self, ids: UInt8[Array, " ids"]) -> dict[str, Array]:
        (rows, columns), flags = self.rules.view, self.sight.flags(self.rules)
        floats = self.expand(ids)
        cells = floats[: rows * columns * flags].reshape(rows, columns, flags)
        return {
            "ahead": sight.ahead(cells, ids[self.layout.facing]),
            "body": floats[-self.sight.NUMBERS :],
            "cells": cells,
            "counts": self._counts(ids),
        }

    def _counts(self, ids: UInt8[Array, " ids"]) -> UInt8[Array, " counts"]:
        return jnp.minimum(self.sight.counts(self.rules, ids), self.rules.best)

    @property
    def vocabulary(self) -> Vocabulary | None:
        """For `ids`: the number of values of each byte of a cell and of each byte after them."""
        if self.obs != "ids":
            return super().vocabulary
        return of_bytes(self.rules.view, *self.sight.categories(self.rules))

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Entries of `ids` and `symbolic`: pairs of an index and its meaning."""
        return self.sight.observation_layout(self.rules)

    def checked_params(self, params: Any, where: str) -> Any:
        """Check the params as `Env` does, then their ranges; clip traced params to the ranges."""
        limits = self.limits
        if isinstance(params, type(self.default_params)):
            for name, (low, high) in limits.items():
                checks.number(where, f"params.{name}", getattr(params, name), low, high)
        checked = super().checked_params(params, where)
        return checked.replace(**{n: getattr(checked, n).clip(*limits[n]) for n in limits})

    def step_state(self, key: Key, state: CraftState, action: Array, params: Any) -> Transition:
        """Draw the random numbers of the step and apply the rules."""
        draws = chance.draw(key, self.slots, self.rules.is_full)
        return self.advance(state, action, draws, params)

    def advance(self, state: CraftState, action: Array, draws: Draws, params: Any) -> Transition:
        """Apply the rules with given draws; `state.time` already counts this step."""
        before = self.world(state)
        light = sight.light(state.time - 1, params.day_length)
        given = (self.rules, self.ground(state, before), before, action, draws, params, light)
        moment = Moment(*given, self.reach, self.floors(state))
        moment = advance(self.stages, self.edges, moment)
        after = moment.world
        new = tuple(a & ~b for a, b in zip(after.earned, before.earned, strict=True))
        gained = after.vitals["health"] - before.vitals["health"]
        reward = reward_of(self.rules, new, gained)
        if self.task is not None:
            reward = earned_vector(self.rules, new)[self.achievements.index(self.task)]
        return Transition(
            self.after(state, moment),
            reward,
            self.is_over(after),
            {"achievements": earned_vector(self.rules, after.earned)},
        )

    def after(self, state: CraftState, moment: Moment) -> CraftState:
        """Return the state after a step: pack `moment`, as the last stage leaves it."""
        return self.packed(state.time, moment.ground.cells, moment.world)

    def floors(self, state: CraftState) -> Int32[Array, "floors floor_words"]:
        """Return the packed words of the floors where the player is not; Classic has none."""
        return jnp.zeros((0, 0), jnp.int32)

    def is_over(self, world: World) -> Bool[Array, ""]:
        """Return whether the rules end the episode."""
        return world.vitals["health"] <= 0

    def observe(self, state: CraftState, params: Any = None) -> PyTree[Array]:
        """Return the observation named by the field `obs`."""
        if self.obs == "pixels":
            return self.picture(state, self.pixel_size, params)
        show = self.sight.symbolic if self.obs == "symbolic" else self.sight.ids
        return show(self.rules, state.map, self.world(state), self.light(state, params))

    def action_mask(self, state: CraftState, params: Any = None) -> Bool[Array, " actions"]:
        """Return which actions may have an effect; noop is always allowed.

        While the player is awake, DO and moves are always allowed. So is REST in the full game:
        even at full health it takes effect if the player is hit in the same step.
        """
        world = self.world(state)
        awake = ~player.is_idle(world)
        mask = [awake] * len(self.rules.actions)
        mask[Action.NOOP] = jnp.ones((), jnp.bool_)
        for action, able in self.able(state, world, params).items():
            mask[action] = awake & able
        return jnp.stack(mask)

    def able(self, state: CraftState, world: World, params: Any) -> dict[int, Bool[Array, ""]]:
        """Return by action whether the action has an effect, except NOOP, DO, REST and moves."""
        front = player.look(self.ground(state, world), world)
        tired = world.vitals["energy"] < body.most(self.rules, world, "energy")
        return {Action.SLEEP: tired, **deeds.able(self.rules, world, front)}

    def ground(self, state: CraftState, world: World) -> Ground:
        """Return the map of the player's floor."""
        return Ground(state.map)

    def succeeded(self, step: Step) -> Bool[Array, ""] | None:
        """Return whether the `task` was achieved; None without a task."""
        return None if self.task is None else step.reward > 0

    def facts(self, state: CraftState, params: Any = None) -> tuple[Fact, ...]:
        """Return the vitals, every item with its count, and the time of day."""
        world, _, light, days = facts.read(self, state, params)
        return self.people.known(self.rules, world, light, days)

    def describe(self, state: CraftState, params: Any = None) -> str:
        """Describe the vitals, the inventory, the time of day, the cell ahead and the view."""
        world, view, light, days = facts.read(self, state, params)
        known = sentences(self.people.known(self.rules, world, light, days))
        seen = facts.described(self.people.sights(self.rules, view), world.facing)
        return "\n".join([*known, *seen])

    def icon(self, name: str, size: int, background: RGB) -> np.ndarray | None:
        """Return the icon of a vital or an item."""
        return facts.icon(name, size, background)

    def tiles(self, state: CraftState) -> Int32[Array, "rows columns"]:
        """Return the sprite indices of the view and the inventory, see `look.tiles`."""
        return tiles.tiles(self.rules, self.world(state), self.view(state)[0])

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return the sprites, uint8 (sprites, tile_size, tile_size, 3)."""
        return sprites.atlas(self.rules, tile_size)

    def from_upstream(self, state: Any) -> Any:
        """Convert a state of the same game of craftax 1.6.1, see `upstream.from_craftax`."""
        return upstream.from_craftax(self, state)

    # Methods beyond the `Env` interface.

    @property
    def layout(self) -> Any:
        """Offsets in the observation `ids`, see `sight.Layout`."""
        return self.sight.layout(self.rules)

    def world(self, state: CraftState) -> World:
        """Return the unpacked state without map and clock."""
        return unpack(self.rules, self.slots, state.words)

    def packed(
        self,
        time: Array,
        map: UInt8[Array, "*floors size size"],
        world: World,
        known: Known = UNKNOWN,
        **more: Array,
    ) -> Any:
        """Build a state from an unpacked world; `more` are further fields of the state type."""
        return self.state_type(time=time, map=map, words=pack(self.rules, world, known), **more)

    def view(self, state: CraftState) -> Any:
        """Return the player's view, see `sight.view`."""
        return self.sight.view(self.rules, state.map, self.world(state))

    def light(self, state: CraftState, params: Any = None) -> Float32[Array, ""]:
        """Return the daylight, 0 to 1."""
        params = self.default_params if params is None else params
        return sight.light(state.time, params.day_length)

    def expand(self, ids: UInt8[Array, " ids"]) -> Float32[Array, " floats"]:
        """Convert an observation `ids` to `symbolic`."""
        return self.sight.expand(self.rules, ids)

    def picture(
        self, state: CraftState, tile_size: int, params: Any = None
    ) -> UInt8[Array, "height width 3"]:
        """Draw the view in daylight or darkness, and the inventory."""
        world, (blocks, _) = self.world(state), self.view(state)
        light = self.light(state, params)
        return pictures.picture(self.rules, world, blocks, light, state.time, tile_size)


def reward_of(rules: Rules, new: tuple[Any, ...], gained: Array) -> Float32[Array, ""]:
    """Return the rewards of new achievements plus a tenth of the health gained."""
    achieved = achievement_reward(rules, new)
    return achieved + rounded(gained.astype(jnp.float32) * np.float32(0.1))


@functools.lru_cache
def numbers(kind: Any, size: int) -> Any:
    """Return the default params of the class `kind`, as in Craftax, for maps of a size."""
    angles = tuple(np.full(shape, np.nan, np.float32) for shape in terrain.lattices(size))
    return kind(fractal_noise_angles=angles)
