"""What the editions of Craft have in common as environments."""

import functools
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
from .state import MOST_MOBS, CraftState, Known, Slots, World, earned_vector, pack, unpack, worth
from .step import Moment, Stage, advance
from .tables import Action, Rules

OBSERVATIONS = ("symbolic", "ids", "pixels")
MOST_REACH = 32


STEPS = (1, 2**31 - 1)  # range of what is counted in steps


class CraftEnv(Env):
    """An edition of the game: a subclass has its rules, its numbers and its worlds."""

    obs: str = "symbolic"  # which observation is made
    task: str | None = None  # name of the only achievement that is rewarded
    slots: Slots = Slots()  # the most mobs, projectiles and plants of a world
    reach: int = 14  # steps from the player at which mobs may appear, exclusive

    package: ClassVar[str] = "craftax"
    reset_source: ClassVar[str] = "exact"
    rows_per_lane: ClassVar[int] = 512  # a world is the work of some hundred steps
    levels_at_once: ClassVar[int] = 4096
    idle_action: ClassVar[int | None] = Action.NOOP
    rules: ClassVar[Rules]
    ranges: ClassVar[dict[str, tuple[float, float]]]  # of numbers in params
    state_type: ClassVar[type[CraftState]] = CraftState
    stages: ClassVar[tuple[Stage, ...]]  # of a step
    observations: ClassVar[tuple[str, ...]] = OBSERVATIONS
    status_rows: ClassVar[int] = 2  # the inventory
    pixel_size: ClassVar[int] = 7  # of a cell, where pictures are observed
    most_seen: ClassVar[float] = 1.0  # in the symbolic observation
    sight: ClassVar[Any] = sight  # module of what is seen
    people: ClassVar[Any] = facts  # module of what is told

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
        """Lowest and highest value of each number in params, checked where it is not traced."""
        return {**self.ranges, "mob_despawn_distance": (1, self.reach)}

    # The contract.

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
        """Upstream's keys, and arrows; see `facts.KEYS`."""
        return Controls(self.people.KEYS)

    @property
    def features(self) -> Features:
        """Those of `symbolic` where `ids` are observed, which a network could not add up."""
        if self.obs != "ids":
            return super().features
        return Features(self._spaces["symbolic"], self.expand)

    @property
    def map_features(self) -> Features:
        """Of `ids`: flags of each cell and of the one ahead, counts up to 9, and other numbers."""
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
        """Of `ids`: what is in a cell, and every number beside the view."""
        if self.obs != "ids":
            return super().vocabulary
        return of_bytes(self.rules.view, *self.sight.categories(self.rules))

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """What stands where in `ids` and in `symbolic`."""
        return self.sight.observation_layout(self.rules)

    def checked_params(self, params: Any, where: str) -> Any:
        """Also check the ranges of numbers; those not known while tracing are clipped."""
        limits = self.limits
        if isinstance(params, type(self.default_params)):
            for name, (low, high) in limits.items():
                checks.number(where, f"params.{name}", getattr(params, name), low, high)
        checked = super().checked_params(params, where)
        return checked.replace(**{n: getattr(checked, n).clip(*limits[n]) for n in limits})

    def step_state(self, key: Key, state: CraftState, action: Array, params: Any) -> Transition:
        """Draw the chance of the step and apply the rules."""
        draws = chance.draw(key, self.slots, bool(self.rules.floors))
        return self.advance(state, action, draws, params)

    def advance(self, state: CraftState, action: Array, draws: Draws, params: Any) -> Transition:
        """Apply the rules with given draws; `state.time` already counts this step."""
        before = self.world(state)
        light = sight.light(state.time - 1, params.day_length)
        given = (self.rules, self.ground(state, before), before, action, draws, params, light)
        floors = getattr(state, "floors", None)  # of the full game
        moment = advance(self.stages, Moment(*given, self.reach, floors))
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
        """The state behind the last stage."""
        return self.packed(state.time, moment.ground.cells, moment.world)

    def is_over(self, world: World) -> Bool[Array, ""]:
        """Whether the episode ends by the rules."""
        return world.vitals["health"] <= 0

    def observe(self, state: CraftState, params: Any = None) -> PyTree[Array]:
        """Return the observation named by the field `obs`."""
        if self.obs == "pixels":
            return self.picture(state, self.pixel_size, params)
        show = self.sight.symbolic if self.obs == "symbolic" else self.sight.ids
        return show(self.rules, state.map, self.world(state), self.light(state, params))

    def action_mask(self, state: CraftState, params: Any = None) -> Bool[Array, " actions"]:
        """Actions that may do more than noop; DO, moving and noop always may, but in sleep.

        In the full game REST may too: after a blow in the same step, a healthy player rests.
        """
        world = self.world(state)
        awake = ~player.is_idle(world)
        mask = [awake] * len(self.rules.actions)
        mask[Action.NOOP] = jnp.ones((), jnp.bool_)
        for action, able in self.able(state, world, params).items():
            mask[action] = awake & able
        return jnp.stack(mask)

    def able(self, state: CraftState, world: World, params: Any) -> dict[int, Bool[Array, ""]]:
        """Whether each action would do something; not DO, REST and moves, which always may."""
        front = player.look(self.ground(state, world), world)
        tired = world.vitals["energy"] < body.most(self.rules, world, "energy")
        return {Action.SLEEP: tired, **deeds.able(self.rules, world, front)}

    def ground(self, state: CraftState, world: World) -> Ground:
        """The map where the player is."""
        return Ground(state.map)

    def succeeded(self, step: Step) -> Bool[Array, ""] | None:
        """Tell whether the `task` was reached; without one the return is a score."""
        return None if self.task is None else step.reward > 0

    def facts(self, state: CraftState, params: Any = None) -> tuple[Fact, ...]:
        """The body, every item with its count, and the hour."""
        world, _, light, days = facts.read(self, state, params)
        return self.people.known(self.rules, world, light, days)

    def describe(self, state: CraftState, params: Any = None) -> str:
        """Describe the body, the inventory, the time of day, the cell ahead and what is in view."""
        world, view, light, days = facts.read(self, state, params)
        known = sentences(self.people.known(self.rules, world, light, days))
        seen = facts.told(self.people.sights(self.rules, view), world.facing)
        return "\n".join([*known, *seen])

    def icon(self, name: str, size: int, background: RGB) -> np.ndarray | None:
        """The icon of a vital or an item."""
        return facts.icon(name, size, background)

    def tiles(self, state: CraftState) -> Int32[Array, "rows columns"]:
        """Sprites of the view and the inventory, see `look.tiles`."""
        return tiles.tiles(self.rules, self.world(state), self.view(state)[0])

    def atlas(self, tile_size: int) -> np.ndarray:
        """Sprites, uint8 (sprites, tile_size, tile_size, 3)."""
        return sprites.atlas(self.rules, tile_size)

    def from_upstream(self, state: Any) -> Any:
        """A state of craftax 1.6.1's same game as ours, see `upstream.from_craftax`."""
        return upstream.from_craftax(self, state)

    # More than the contract.

    @property
    def layout(self) -> Any:
        """Offsets in the observation `ids`, see `Layout` of `sight`."""
        return self.sight.layout(self.rules)

    def world(self, state: CraftState) -> World:
        """Everything but map and clock, by name."""
        return unpack(self.rules, self.slots, state.words)

    def packed(
        self,
        time: Array,
        map: UInt8[Array, "*floors size size"],
        world: World,
        known: Known = None,
        **more: Array,
    ) -> Any:
        """Build a state, with what `more` an edition's has; the inverse of `world`."""
        return self.state_type(time=time, map=map, words=pack(self.rules, world, known), **more)

    def view(self, state: CraftState) -> Any:
        """What is around the player, see `sight.view`."""
        return self.sight.view(self.rules, state.map, self.world(state))

    def light(self, state: CraftState, params: Any = None) -> Float32[Array, ""]:
        """Daylight, 0 to 1."""
        params = self.default_params if params is None else params
        return sight.light(state.time, params.day_length)

    def expand(self, ids: UInt8[Array, " ids"]) -> Float32[Array, " floats"]:
        """Turn an observation `ids` into `symbolic`."""
        return self.sight.expand(self.rules, ids)

    def picture(
        self, state: CraftState, tile_size: int, params: Any = None
    ) -> UInt8[Array, "height width 3"]:
        """Draw the view and the inventory, by day and by night."""
        world, (blocks, _) = self.world(state), self.view(state)
        light = self.light(state, params)
        return pictures.picture(self.rules, world, blocks, light, state.time, tile_size)


def reward_of(rules: Rules, new: tuple[Any, ...], gained: Array) -> Float32[Array, ""]:
    """Return the weights of new achievements and a tenth of the health gained."""
    return worth(rules, new) + rounded(gained.astype(jnp.float32) * np.float32(0.1))


@functools.lru_cache
def numbers(kind: Any, size: int) -> Any:
    """Params of a kind as upstream has them, for maps of a size."""
    angles = tuple(np.full(shape, np.nan, np.float32) for shape in terrain.lattices(size))
    return kind(fractal_noise_angles=angles)
