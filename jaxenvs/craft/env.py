"""Base class of the environments of both editions: Craftax-Classic and the full game.

`CraftEnv` implements the `Env` interface once, from the class variables that an edition defines:
its rule tables, its stages of a step, and its modules for observations and texts.
"""

import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, PyTree, UInt8

from ..core import checks, texts
from ..core.controls import Controls
from ..core.env import Env, Step, Transition
from ..core.facts import RGB, Fact, Features
from ..core.random import Key
from ..core.rounding import rounded
from ..core.spaces import Box, Dict, Discrete, Space
from ..core.vocabulary import Vocabulary, of_bytes
from . import (
    body,
    chance,
    deeds,
    descriptions,
    diagnostics,
    facts,
    player,
    sight,
    terrain,
    upstream,
)
from .chance import Draws
from .ground import Ground
from .look import pictures, sprites, tiles
from .packing import UNKNOWN, Known
from .setups import EASED, ORIGINAL, SETUPS, eased_reward, repaired
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
STEPS = (1, 2**31 - 1)  # lowest and highest valid value of params that count steps


class CraftEnv(Env):
    """Base class of `CraftClassic` and `CraftFull`, the two editions of the game.

    A subclass adds its rules, params and world generation.
    """

    obs: str = "symbolic"  # kind of observation, one of OBSERVATIONS
    setup: str = ORIGINAL  # reward, masks and marks of the task, one of SETUPS, see module `setups`
    task: str | None = None  # name of the only rewarded achievement; None: all are rewarded
    slots: Slots = Slots()  # number of slots for mobs, projectiles and plants
    # Mobs appear only on cells whose distance from the player is below this value. Classic counts
    # steps; the full game measures the straight-line distance, in cells.
    reach: int = 14

    package: ClassVar[str] = "craftax"
    level_format: ClassVar[str] = "jaxenvs.craft.leveltext.form"
    reset_source: ClassVar[str] = "exact"
    # The reset source `exact` generates worlds only for environments whose episode has ended. On a
    # CPU, a loop generates num_envs / rows_per_lane worlds per iteration, and some worlds of an
    # iteration are not needed. The value is large, so that few unneeded worlds are generated: a
    # world takes as long as several hundred steps.
    rows_per_lane: ClassVar[int] = 512
    levels_at_once: ClassVar[int] = 4096
    idle_action: ClassVar[int | None] = Action.NOOP
    rules: ClassVar[Rules]
    ranges: ClassVar[dict[str, tuple[float, float]]]  # lowest and highest valid value of each param
    state_type: ClassVar[type[CraftState]] = CraftState
    stages: ClassVar[tuple[Rule, ...]]  # stages of a step, in order, see `step.advance`
    # Functions applied after certain stages to limit XLA's fusion, see `compiler`.
    edges: ClassVar[Mapping[Rule, Rule]] = {}
    observations: ClassVar[tuple[str, ...]] = OBSERVATIONS
    setups: ClassVar[tuple[str, ...]] = SETUPS
    status_rows: ClassVar[int] = 2  # height of the drawn inventory below the view, in cells
    pixel_size: ClassVar[int] = 7  # side of a cell in pixels, in the observation `pixels`
    most_seen: ClassVar[float] = 1.0  # highest value that occurs in the symbolic observation
    sight: ClassVar[Any] = sight  # module that computes the edition's observations
    people: ClassVar[Any] = facts  # module for keyboard keys, panel facts and text descriptions

    def __post_init__(self) -> None:
        """Raise an error if a field of the environment has an invalid value."""
        owner = type(self).__name__
        checks.one_of(owner, "obs", self.obs, OBSERVATIONS)
        checks.one_of(owner, "setup", self.setup, SETUPS)
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
    def uses_mask(self) -> bool:
        """True if learners use the action mask: in every setup but `original`."""
        return self.setup != ORIGINAL

    @property
    def skips_forced(self) -> bool:
        """True in the setup `eased`: learners skip steps in which the player sleeps or rests."""
        return self.setup == EASED

    @property
    def limits(self) -> dict[str, tuple[float, float]]:
        """Lowest and highest valid value of each param.

        Traced params outside their limits are clipped; concrete ones raise an error.
        """
        return {**self.ranges, "mob_despawn_distance": (1, self.reach)}

    # The following methods implement the `Env` interface.

    @property
    def action_space(self) -> Space:
        """Discrete space of the edition's actions. Action i is the `Action` with value i."""
        return Discrete(len(self.rules.actions))

    @property
    def observation_space(self) -> Space:
        """Space of the observation that the field `obs` selects."""
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
        """Name of each action, in the order of the action indices."""
        return self.controls.names

    @property
    def controls(self) -> Controls:
        """Keyboard keys of each action: `facts.KEYS`, in the full game `full_facts.KEYS`."""
        return Controls(self.people.KEYS)

    @property
    def features(self) -> Features:
        """Network input that replaces the observation `ids`: the symbolic observation.

        The integers in `ids` are categories, so their size has no meaning for a network. Other
        observations are used unchanged.
        """
        if self.obs != "ids":
            return super().features
        return Features(self._spaces["symbolic"], self.expand)

    @property
    def map_features(self) -> Features:
        """Network input with a spatial part, computed from the observation `ids`.

        The input is a dict: `cells`, the flags of each cell of the view; `ahead`, the flags of the
        cell that the player faces; `counts`, quantities such as items and vitals, clipped to at
        most `Rules.best`; and `body`, the values of the symbolic observation that do not belong to
        cells.
        """
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
        """Vocabulary of the observation `ids`: the number of values that each byte can take.

        `Vocabulary.cells` is for the bytes of one cell of the view, `Vocabulary.rest` for the bytes
        after the cells. For other observations, the result is None.
        """
        if self.obs != "ids":
            return super().vocabulary
        return of_bytes(self.rules.view, *self.sight.categories(self.rules))

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Describe the entries of `ids` and `symbolic`, as pairs (index or range, meaning)."""
        return self.sight.observation_layout(self.rules)

    def checked_params(self, params: Any, where: str) -> Any:
        """Check the params as `Env` does, and check that each value is in its range.

        A concrete value out of its range raises an error. A traced value is clipped instead,
        because traced code cannot raise an error.
        """
        limits = self.limits
        if isinstance(params, type(self.default_params)):
            for name, (low, high) in limits.items():
                checks.number(where, f"params.{name}", getattr(params, name), low, high)
        checked = super().checked_params(params, where)
        return checked.replace(**{n: getattr(checked, n).clip(*limits[n]) for n in limits})

    def step_state(self, key: Key, state: CraftState, action: Array, params: Any) -> Transition:
        """Draw all random numbers of the step, then apply the rules of the game with `advance`."""
        draws = chance.draw(key, self.slots, self.rules.is_full)
        return self.advance(state, action, draws, params)

    def advance(self, state: CraftState, action: Array, draws: Draws, params: Any) -> Transition:
        """Apply the rules of a step with the given random draws.

        `state.time` already counts this step.
        """
        before = self.world(state)
        light = sight.light(state.time - 1, params.day_length)
        given = (self.rules, self.ground(state, before), before, action, draws, params, light)
        moment = Moment(*given, self.reach, self.floors(state))
        moment = advance(self.stages, self.edges, moment)
        after = moment.world
        new = tuple(a & ~b for a, b in zip(after.earned, before.earned, strict=True))
        gained = after.vitals["health"] - before.vitals["health"]
        if self.setup == EASED:
            reward = eased_reward(self.rules, before, after, new)
        else:
            reward = reward_of(self.rules, new, gained)
        if self.task is not None:
            reward = earned_vector(self.rules, new)[self.achievements.index(self.task)]
        over = self.is_over(after)
        if self.setup == EASED:  # the time limit terminates, as death does
            over = over | (state.time >= params.max_steps_in_episode)
        return Transition(
            self.after(state, moment),
            reward,
            over,
            {"achievements": earned_vector(self.rules, after.earned)},
        )

    def after(self, state: CraftState, moment: Moment) -> CraftState:
        """Return the state at the end of a step, packed into words.

        `moment` is the intermediate state that the last stage of the step returned.
        """
        return self.packed(state.time, moment.ground.cells, moment.world)

    def floors(self, state: CraftState) -> Int32[Array, "floors floor_words"]:
        """Return the ladders, mobs and projectiles of each floor, packed into words.

        The words of a floor are unpacked when the player enters the floor. Classic has one floor
        only, so the array is empty.
        """
        return jnp.zeros((0, 0), jnp.int32)

    def is_over(self, world: World) -> Bool[Array, ""]:
        """Return whether the episode terminates: True if the player has no health left."""
        return world.vitals["health"] <= 0

    def observe(self, state: CraftState, params: Any = None) -> PyTree[Array]:
        """Return the observation that the field `obs` selects."""
        if self.obs == "pixels":
            return self.picture(state, self.pixel_size, params)
        show = self.sight.symbolic if self.obs == "symbolic" else self.sight.ids
        world = self.world(state)
        world = repaired(self.rules, world) if self.setup == EASED else world
        return show(self.rules, state.map, world, self.light(state, params))

    def action_mask(self, state: CraftState, params: Any = None) -> Bool[Array, " actions"]:
        """Return which actions may have an effect; noop is always allowed.

        While the player is awake, DO and moves are always allowed. In the full game, REST is always
        allowed too, because even at full health it has an effect if the player is hit in the same
        step.
        """
        world = self.world(state)
        awake = ~player.is_idle(world)
        mask = [awake] * len(self.rules.actions)
        mask[Action.NOOP] = jnp.ones((), jnp.bool_)
        for action, able in self.able(state, world, params).items():
            mask[action] = awake & able
        return jnp.stack(mask)

    def able(self, state: CraftState, world: World, params: Any) -> dict[int, Bool[Array, ""]]:
        """Return a dict from each action to whether it would have an effect.

        The dict omits NOOP, DO, REST and moves, which `action_mask` sets itself.
        """
        front = player.look(self.ground(state, world), world)
        tired = world.vitals["energy"] < body.most(self.rules, world, "energy")
        return {Action.SLEEP: tired, **deeds.able(self.rules, world, front)}

    def ground(self, state: CraftState, world: World) -> Ground:
        """Return the map of the player's floor, as a `Ground` with no writes yet."""
        return Ground(state.map)

    def measure(self, before: CraftState, step: Step) -> Float32[Array, " measures"]:
        """Return the achievements, the deepest floor and the causes of death of an episode."""
        return diagnostics.measure(self, before, step.state)

    def succeeded(self, step: Step) -> Bool[Array, ""] | None:
        """Return whether this step earned the achievement `task`; None if there is no task."""
        return None if self.task is None else step.reward > 0

    def facts(self, state: CraftState, params: Any = None) -> tuple[Fact, ...]:
        """Return the facts for the play window's panel: vitals, item counts and time of day."""
        return descriptions.known(self, texts.one_input(self, state, params))

    def text_inputs(self, state: CraftState, params: Any = None) -> Any:
        """Return the argument `inputs` of `texts`: a `descriptions.Inputs` of arrays."""
        return descriptions.text_inputs(self, state, params)

    def texts(self, inputs: Any, detail: str = "full") -> list[str]:
        """Describe the vitals, the inventory, the time of day, the cell ahead and the view."""
        return descriptions.texts(self, inputs, detail)

    def text_changes(self, old: Any, new: Any) -> list[str]:
        """Describe changes of the vitals, the inventory, the cell ahead and the view."""
        return descriptions.changes(self, old, new)

    def icon(self, name: str, size: int, background: RGB) -> np.ndarray | None:
        """Return the icon of a vital or item, uint8 (size, size, 3); None for any other `name`."""
        return facts.icon(name, size, background)

    def tiles(self, state: CraftState) -> Int32[Array, "rows columns"]:
        """Return the index of the sprite that each cell of the view and the inventory shows.

        See `look.tiles`; `atlas` has the sprites.
        """
        return tiles.tiles(self.rules, self.world(state), self.view(state)[0])

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return the images of all sprites, uint8 (sprites, tile_size, tile_size, 3)."""
        return sprites.atlas(self.rules, tile_size)

    def from_upstream(self, state: Any) -> Any:
        """Convert a state of the same edition of Craftax 1.6.1; see `upstream.from_craftax`."""
        return upstream.from_craftax(self, state)

    # The following methods are not part of the `Env` interface.

    @property
    def layout(self) -> Any:
        """Position of each part of the observation `ids`, see `sight.Layout`."""
        return self.sight.layout(self.rules)

    def world(self, state: CraftState) -> World:
        """Unpack `state.words`: everything in the state except the map and the time step."""
        return unpack(self.rules, self.slots, state.words)

    def packed(
        self,
        time: Array,
        map: UInt8[Array, "*floors size size"],
        world: World,
        known: Known = UNKNOWN,
        **more: Array,
    ) -> Any:
        """Build a state from an unpacked `World`.

        `more` are the fields that only the state of the full game has. `known` has words that were
        packed earlier. A word is reused if its values have not changed since then, see
        `packing.words_of`.
        """
        return self.state_type(time=time, map=map, words=pack(self.rules, world, known), **more)

    def view(self, state: CraftState) -> Any:
        """Return the blocks and mobs that the player sees, see `sight.view`."""
        return self.sight.view(self.rules, state.map, self.world(state))

    def light(self, state: CraftState, params: Any = None) -> Float32[Array, ""]:
        """Return the daylight at the state's time step: 0 is the darkest value, 1 the brightest."""
        params = self.default_params if params is None else params
        return sight.light(state.time, params.day_length)

    def expand(self, ids: UInt8[Array, " ids"]) -> Float32[Array, " floats"]:
        """Compute the symbolic observation from the compact observation `ids` of the same state."""
        return self.sight.expand(self.rules, ids)

    def picture(
        self, state: CraftState, tile_size: int, params: Any = None
    ) -> UInt8[Array, "height width 3"]:
        """Draw the view, darkened at night, and the inventory below it.

        A cell of the view has `tile_size` x `tile_size` pixels.
        """
        world, (blocks, _) = self.world(state), self.view(state)
        light = self.light(state, params)
        return pictures.picture(self.rules, world, blocks, light, state.time, tile_size)


def reward_of(rules: Rules, new: tuple[Any, ...], gained: Array) -> Float32[Array, ""]:
    """Return a step's reward: rewards of new achievements, plus 0.1 per point of health gained.

    `new` has the bit masks of the achievements earned in this step. `gained` is negative if health
    was lost.
    """
    achieved = achievement_reward(rules, new)
    return achieved + rounded(gained.astype(jnp.float32) * np.float32(0.1))


@functools.lru_cache
def numbers(kind: Any, size: int) -> Any:
    """Return an instance of the params class `kind` with Craftax's default values.

    The noise angles are NaN, so new angles are drawn; their shapes depend on the map's `size`.
    """
    angles = tuple(np.full(shape, np.nan, np.float32) for shape in terrain.lattices(size))
    return kind(fractal_noise_angles=angles)
