"""The contract: pure `reset` and `step` over fixed-shape pytrees, for the caller's transforms."""

import dataclasses
import functools
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float32, Int, Int32, PyTree, UInt8

from . import checks, eager, param_values
from .controls import Controls, by_name
from .facts import RGB, Effects, Fact, Features, identity, observed, sentences
from .random import Key
from .spaces import Discrete, Space
from .struct import Struct, struct
from .vocabulary import Vocabulary, of_map

BATCH = "envs"  # name of the axis over which `make_vec` maps steps
ROWS_PER_LANE = 64  # a little less than the steps of an episode, in most families


@struct
class Params(Struct):
    """Numbers of an environment that may differ within a batch. Subclass to add more."""

    # Time limit, steps; the step that reaches it is truncated. Any number, cast to int32.
    max_steps_in_episode: Int[Any, "*batch"] | int


@struct
class State(Struct):
    """What an environment remembers: plain arrays, no keys. Subclass to add fields.

    Any other state class needs `time` and `ticked` as here, and must be a `struct`.
    """

    time: Int32[Array, ""]  # steps since reset; the base class counts it

    def ticked(self) -> Any:
        """Return the state one step later on the clock."""
        return self.replace(time=self.time + 1)


class Reset(NamedTuple):
    """What `reset` returns."""

    obs: PyTree[Array]
    state: Any


class Step(NamedTuple):
    """What `step` returns; the order of the fields is that of gymnax 1.0."""

    obs: PyTree[Array]
    state: Any
    reward: Float32[Array, "*batch"]
    terminated: Bool[Array, "*batch"]  # the task ended here; the future is worth nothing
    truncated: Bool[Array, "*batch"]  # the time limit cut it and the task had not ended
    info: dict[str, Any]

    @property
    def done(self) -> Bool[Array, "*batch"]:
        """Whether the episode is over, for either reason."""
        return self.terminated | self.truncated

    @property
    def discount(self) -> Float32[Array, "*batch"]:
        """1, or 0 where the task ended (1 at the time limit: the future is cut, not worthless)."""
        return 1.0 - self.terminated.astype(jnp.float32)


class Transition(NamedTuple):
    """What an author's `step_state` returns: the consequences of one action, without the clock."""

    state: Any
    reward: Array
    terminated: Array
    info: dict[str, Any] = {}  # noqa: RUF012 - never written


class Ending(NamedTuple):
    """How a task can end: a level close to it, and the actions that lead there."""

    level: PyTree[Array]
    actions: Sequence[ArrayLike]  # only the last one terminates the episode


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclasses.dataclass(frozen=True, kw_only=True)
class Env:
    """One environment: a frozen, hashable record of static settings, with pure functions of arrays.

    An author subclasses it with annotated fields (every subclass becomes a frozen dataclass) and
    writes the abstract methods, which `make` asks for; `draw_level`, `action_mask`, `tiles` and
    `atlas` where they apply. The base keeps the clock, the time limit, dtypes and checks.
    """

    reset_source: ClassVar[str] = "exact"  # where a batch takes new levels from, by default
    observations: ClassVar[tuple[str, ...]] = ()  # values of the field `obs`, if there is one
    # Environments of a batch for each level that `exact` generates at a time on a CPU.
    rows_per_lane: ClassVar[int] = ROWS_PER_LANE
    levels_at_once: ClassVar[int] = 0  # large levels: how many there are at a time; 0: all
    level_budget: ClassVar[int] = 1  # levels drawn for a reset, at most, until one is accepted
    achievements: ClassVar[tuple[str, ...]] = ()  # names of info["achievements"], if any
    # What an illegal action counts as; None: it only advances the clock.
    idle_action: ClassVar[int | None] = None
    reward_range: ClassVar[tuple[float, float]] = (-float("inf"), float("inf"))
    # What `succeeded` tells, where "success" alone would mislead beside the return.
    success_is: ClassVar[str] = "success"
    task_sets: ClassVar[tuple[str, ...]] = ()  # what `trials` takes, if the params hold a task
    # Whether one observation determines the state, except for the clock. Plans made by stepping
    # the true state then use nothing that the agent cannot know.
    fully_observed: ClassVar[bool] = False
    # Package whose rules are reproduced, as Python imports it; "" for none.
    package: ClassVar[str] = ""
    # Rows of `tiles` at the bottom that repeat `facts`; a picture beside a panel leaves them out.
    status_rows: ClassVar[int] = 0
    carries_over: ClassVar[bool] = False  # whether `carry_over` changes states
    resets_itself: ClassVar[bool] = False  # whether `step` begins the next episode

    # Params that differ from the class's defaults, see `with_params`.
    given_params: tuple[tuple[str, Any], ...] = dataclasses.field(default=(), repr=False)

    def __init_subclass__(cls, kw_only: bool = True, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        eager.compile_overrides(cls)
        dataclasses.dataclass(frozen=True, kw_only=kw_only)(cls)
        param_values.apply_to_defaults(cls)

    def __post_init__(self) -> None:
        """Check the fields; an author's override calls `super().__post_init__()`."""

    # The author's part.

    @property
    @abstractmethod
    def default_params(self) -> Params:
        """The numbers of the original environment."""
        raise NotImplementedError

    @property
    @abstractmethod
    def action_space(self) -> Space:
        """The space of one action."""
        raise NotImplementedError

    @property
    @abstractmethod
    def observation_space(self) -> Space:
        """The space of one observation."""
        raise NotImplementedError

    @property
    def action_names(self) -> tuple[str, ...]:
        """A short name for each action, for players and pages; `up` and the like have arrows.

        Of a Box or a MultiDiscrete space: a name for each number of an action.
        """
        return ()

    @property
    def controls(self) -> Controls:
        """Keys and mouse of a person who plays.

        By default empty unless actions are Discrete; for another space, `values` says what each of
        `actions` does.
        """
        if not isinstance(self.action_space, Discrete):
            return Controls()
        names = self.action_names or (f"action {i}" for i in range(self.action_space.n))
        return Controls(by_name(names))

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """(index, meaning) of each entry, for its page, where the shape alone does not tell."""
        return ()

    @property
    def full_observations(self) -> tuple[str, ...]:
        """Values of the field `obs` that make the environment fully observed."""
        change: Any = dataclasses.replace
        return tuple(n for n in self.observations if change(self, obs=n).fully_observed)

    @property
    def features(self) -> Features:
        """What networks take as input: by default the observation itself."""
        return Features(self.observation_space, identity)

    @property
    def map_features(self) -> Features:
        """Features for spatial networks: cells are a map, integers are categories."""
        return self.features

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The observation as categories, for models that foretell it; None for other numbers.

        By default that of a map of whole numbers, which is no picture.
        """
        return of_map(self.observation_space)

    def facts(self, state: Any, params: Any = None) -> tuple[Fact, ...]:
        """Return what the agent has and knows in `state`, for panels and text; not for traces."""
        return ()

    def effects(self, before: Any, action: int, after: Any, params: Any = None) -> Effects:
        """Tell what an action set off between two states; nothing by default. Not for traces."""
        return Effects()

    def describe(self, state: Any, params: Any = None) -> str:
        """Describe what the agent may know of `state`, for people and language models.

        By default the facts as sentences, then the observation. Not for traces.
        """
        known = sentences(self.facts(state, params))
        return "\n".join([*known, *observed(self.observe(state, params))])

    def icon(self, name: str, size: int, background: RGB) -> np.ndarray | None:
        """Return the icon that a fact names, uint8 (size, size, 3); None where there is none."""
        return None

    def draw_level(self, key: Key, params: Any) -> PyTree[Array]:
        """Draw a level: all that differs between episodes. By default levels are empty.

        A generator that rejects levels sets `level_budget` and overrides `accepts`.
        """
        return ()

    def accepts(self, level: PyTree[Array]) -> Bool[Array, ""]:
        """Tell whether a drawn level may be played; if not, another one is drawn."""
        return jnp.ones((), jnp.bool_)

    @abstractmethod
    def reset_state(self, key: Key, level: PyTree[Array], params: Any) -> Any:
        """Return the first state of an episode in `level`."""
        raise NotImplementedError

    @abstractmethod
    def step_state(self, key: Key, state: Any, action: Any, params: Any) -> Transition:
        """Apply a valid action; `state.time` already counts this step."""
        raise NotImplementedError

    @eager.compiled
    @abstractmethod
    def observe(self, state: Any, params: Any = None) -> PyTree[Array]:
        """Return what the agent sees of `state`."""
        raise NotImplementedError

    def time_limit(self, state: Any, params: Any) -> ArrayLike:
        """Return the steps after which this episode is truncated: by default the params' limit."""
        return params.max_steps_in_episode

    def shortest_limit(self, params: Any) -> int:
        """Return the least `time_limit` of any episode: 1 where a subclass leaves it unknown.

        `params` are numbers, not traced. Learners allocate by it.
        """
        if type(self).time_limit is not Env.time_limit:
            return 1
        return int(np.min(params.max_steps_in_episode))

    @eager.compiled
    def action_mask(self, state: Any, params: Any = None) -> Bool[Array, " actions"]:
        """Tell which actions are legal; an illegal one does nothing, or what `idle_action` does."""
        if not isinstance(self.action_space, Discrete):
            raise TypeError(f"{self.name}: only a Discrete action space has a mask")
        return jnp.ones((self.action_space.n,), jnp.bool_)

    def succeeded(self, step: Step) -> Bool[Array, ""] | None:
        """Tell whether this step accomplished the task; an episode with such a step is a success.

        None, the default, where the return is a score and nothing counts as success.
        """
        return None

    def trials(self, tasks: str, part: tuple[float, float] = (0.0, 1.0), **lengths: int) -> Any:
        """Return an environment whose episodes are trials under tasks of a set.

        Its default params hold the tasks that lie between the shares `part` of a fixed order of the
        set, one of `task_sets`; `lengths` are the fields `episodes` and `steps` of a trial. Raises
        `ValueError` where they cannot be made.
        """
        raise ValueError(f"{self.name} has no sets of tasks to draw trials from")

    def ending(self, level: PyTree[Array]) -> Ending | None:
        """Change a drawn level to one near the end of its task; return it with the last actions.

        `jaxenvs check` plays them; not for traces. None, the default, if the task has no end.
        """
        return None

    def from_upstream(self, state: Any) -> Any:
        """Turn a state of `package` into one of this environment's.

        With this or `upstream_obs`, policies trained here can play there (`jaxenvs eval --in`).
        """
        raise NotImplementedError(f"{self.name} takes no states of another package")

    def upstream_obs(self, shown: Any) -> PyTree[Any]:
        """Turn an observation of `package` into one of this environment's; not for traces.

        By default it is the same, with the dtypes of `observation_space`.
        """
        return jax.tree.map(lambda one: np.asarray(one, self.observation_space.dtype), shown)

    @eager.compiled
    def tiles(self, state: Any) -> Int[Array, "height width"]:
        """Return indices into `atlas` that draw the state."""
        raise NotImplementedError(f"{self.name} has no tiles to draw")

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return the sprites, uint8 (tiles, tile_size, tile_size, 3)."""
        raise NotImplementedError(f"{self.name} has no tiles to draw")

    def picture(
        self, state: Any, tile_size: int, params: Any = None
    ) -> UInt8[Array, "height width 3"] | None:
        """Return a picture that shows more than the tiles; None, the default, if there is none.

        Traceable for a given `tile_size`, in pixels; the picture is about as large as the tiles.
        """
        return None

    def view_tiles(self, state: Any) -> Int[Array, "height width"] | None:
        """Return indices into `atlas` that draw the agent's view; None if it has none."""
        return None

    def trail(self, state: Any, action: int) -> Sequence[tuple[float, float]] | None:
        """Return the points of the latest step, x and y in the picture from 0 to 1.

        A player joins those of an episode to a line; None, the default, for no line. `state` is the
        one after `action`, which is -1 at the start. Not for traces.
        """
        return None

    def picture_between(
        self, state: Any, action: int, share: float, tile_size: int
    ) -> UInt8[Array, "height width 3"] | None:
        """Return the picture when a share of an action, from 0 to 1, is done: players animate it.

        None, the default, if there is nothing in between. Not for traces.
        """
        return None

    # The caller's part.

    @property
    def name(self) -> str:
        """The class with its settings, as messages and tables show it."""
        given = ", ".join(f"{name}={value}" for name, value in self.given_params)
        return f"{self!r} with {given}" if given else repr(self)

    def with_params(self, **numbers: Any) -> Any:
        """Return this environment with other default params, such as `max_steps_in_episode=50`.

        Raises `TypeError` for an unknown name or a value that is no number of its dtype, and
        `ValueError` for a time limit below 1.
        """
        return param_values.with_params(self, f"{type(self).__name__}.with_params", numbers)

    @eager.compiled
    def sample_level(self, key: Key, params: Any = None) -> PyTree[Array]:
        """Draw a level as `reset` does: a pytree of arrays, ready for `reset_to`."""
        key = checks.single_key(key, "sample_level")
        params = self.checked_params(params, "sample_level")
        if self.level_budget == 1:
            return self.draw_level(key, params)

        def again(drawn: tuple[Array, Any]) -> Array:
            number, level = drawn
            return (number == 0) | ((number < self.level_budget) & ~self.accepts(level))

        def draw(drawn: tuple[Array, Any]) -> tuple[Array, Any]:
            return drawn[0] + 1, self.candidate(key, drawn[0], params)

        shapes = jax.eval_shape(self.candidate, key, jnp.int32(0), params)
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        start = jax.tree.map(lambda leaf: varying_like(key, leaf), (jnp.int32(0), nothing))
        return jax.lax.while_loop(again, draw, start)[1]

    def candidate(self, key: Key, number: Array, params: Any) -> PyTree[Array]:
        """Draw candidate level `number`; a reset takes the first candidate that is accepted."""
        if self.level_budget == 1:
            return self.draw_level(key, params)
        level = self.draw_level(jax.random.fold_in(key, number), params)
        return jax.tree.map(lambda leaf: varying_like(key, _strong(leaf)), level)

    @eager.compiled
    def reset(self, key: Key, params: Any = None) -> Reset:
        """Start an episode in a fresh level: `sample_level` and `reset_to`, composed."""
        key_level, key_state = jax.random.split(checks.single_key(key, "reset"))
        params = self.checked_params(params, "reset")
        level = self.sample_level(key_level, params)
        with checks.level_is_drawn():
            return self.reset_to(key_state, level, params)

    @eager.compiled
    def reset_to(self, key: Key, level: PyTree[Array], params: Any = None) -> Reset:
        """Start an episode in the given level (from `sample_level`, a file or a curriculum).

        Raises `TypeError` for a level of other shapes than `sample_level` draws.
        """
        key = checks.single_key(key, "reset_to")
        params = self.checked_params(params, "reset_to")
        checks.level_like(level, lambda: self.level_shape, f"{type(self).__name__}.reset_to")
        state = self.reset_state(key, level, params)
        state = jax.tree.map(lambda leaf: varying_like(key, _strong(leaf)), state)
        return Reset(self.observe(state, params), state)

    @eager.compiled
    def step(self, key: Key, state: Any, action: Any, params: Any = None) -> Step:
        """Advance by one action; never resets.

        An action out of range is clipped into `action_space` and `info["invalid_action"]` says so.
        A wrong key, state or action shape raises `TypeError` while tracing.
        """
        key = checks.single_key(key, "step")
        params = self.checked_params(params, "step")
        checks.state_of(state, self.state_shape, "step")
        action, invalid = checks.action_in(self.action_space, action, "step")
        ticked = state.ticked()
        moved = self.step_state(key, ticked, action, params)
        after = checks.same_types(ticked, moved.state, f"{type(self).__name__}.step_state")
        terminated = jnp.asarray(moved.terminated, jnp.bool_)
        truncated = (after.time >= self.time_limit(after, params)) & ~terminated
        reward = jnp.asarray(moved.reward).astype(jnp.float32)
        info = {**moved.info, "invalid_action": invalid}
        return Step(self.observe(after, params), after, reward, terminated, truncated, info)

    def carry_over(self, ended: Any, begun: Any, params: Any = None) -> Any:
        """Return the state `begun` of a new episode with the statistics of `ended`, the last state.

        By default nothing outlives an episode. An environment that overrides this, such as
        `wrappers.LogWrapper`, sets `carries_over`; batches and adapters then call it at each
        restart.
        """
        return begun

    @eager.compiled
    def restart(self, key: Key, ended: Any, params: Any = None) -> Reset:
        """Start the episode after `ended`, the last state of the one before: see `carry_over`."""
        begun = self.reset(key, params)
        if not self.carries_over:
            return begun
        state = self.carry_over(ended, begun.state, params)
        return Reset(self.observe(state, params), state)

    def checked_params(self, params: Any, where: str) -> Any:
        """Return `params`, or the defaults, as arrays of the right dtypes."""
        defaults = self.default_params
        return checks.tree_like(defaults if params is None else params, defaults, where, "params")

    def check_values(self, params: Any, where: str) -> None:
        """Raise for bad values, which only an uncompiled call can see, as `checked_params` does."""
        _check_once(self, params, where)

    @property
    def state_shape(self) -> Any:
        """The state as `jax.ShapeDtypeStruct`s."""
        return _state_shape(self)

    @property
    def level_shape(self) -> Any:
        """A level as `jax.ShapeDtypeStruct`s."""
        return _level_shape(self)


@functools.lru_cache(maxsize=512)
def _check_once(env: Env, params: Any, where: str) -> None:
    env.checked_params(params, where)


@functools.lru_cache(maxsize=512)
def _state_shape(env: Env) -> Any:
    # The key is abstract: only shapes are traced here.
    return jax.eval_shape(eager.shared(env.reset), jax.random.key(0)).state


@functools.lru_cache(maxsize=512)
def _level_shape(env: Env) -> Any:
    return jax.eval_shape(eager.shared(env.sample_level), jax.random.key(0))


def _strong(leaf: Any) -> Array:
    """Drop a weak type, which would make a second compilation of a scan or a jit."""
    array = jnp.asarray(leaf)
    return jax.lax.convert_element_type(array, array.dtype)


def varying_like(key: Key, leaf: Array) -> Array:
    """Under `shard_map`, make a leaf vary over the devices over which the key varies.

    A constant of a new state, such as the clock at 0, is the same on all devices. It cannot be the
    carry of a loop whose steps make it vary. A selection between two equal values marks it as
    varying, and the compiler removes the selection.
    """
    return jnp.where(jax.random.key_data(key)[0] == 0, leaf, leaf)
