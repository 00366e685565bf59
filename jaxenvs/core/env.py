"""The base class of all environments, `Env`, and the classes `State` and `Params` to subclass.

An environment consists of pure functions (`reset`, `step` and others) over pytrees of arrays of
fixed shapes, to which callers apply `jit`, `vmap` and `scan`.
"""

import dataclasses
from abc import abstractmethod
from typing import Any, ClassVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int, Int32, PyTree

from . import checks, eager, levels, param_values
from .carries import as_carry
from .parts.batch import BatchPart
from .parts.derived import Derived
from .parts.learner import LearnerPart
from .parts.player import PlayerPart
from .parts.text import TextPart
from .parts.upstream import Ending, UpstreamPart
from .random import Key
from .spaces import Discrete, Space
from .struct import Struct, struct
from .transitions import Reset, Step, Transition

__all__ = ["Ending", "Env", "Params", "Reset", "State", "Step", "Transition"]


@struct
class Params(Struct):
    """Parameters that may change without recompilation and may differ within a batch.

    An environment with further parameters subclasses `Params`.
    """

    # Time limit in steps; the step that reaches it truncates the episode. Any number type is
    # allowed and cast to int32.
    max_steps_in_episode: Int[Any, "*batch"] | int


@struct
class State(Struct):
    """State of an episode: arrays only, without PRNG keys. Subclass it to add fields.

    A state class that does not inherit from `State` must be a `struct` with the field `time` and
    the method `ticked`.
    """

    time: Int32[Array, ""]  # number of steps since reset, counted by `Env.step`

    def ticked(self) -> Any:
        """Return the state with `time` increased by one step."""
        return self.replace(time=self.time + 1)


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclasses.dataclass(frozen=True, kw_only=True)
class Env(PlayerPart, LearnerPart, UpstreamPart, BatchPart, TextPart, Derived):
    """One environment: frozen, hashable settings, and pure functions of arrays as methods.

    An author writes a subclass with settings, as annotated fields, and the abstract members; `make`
    fails if a member is missing. Every subclass becomes a frozen dataclass. `step` counts `time`,
    applies the time limit, casts dtypes and checks its arguments. The members in
    `jaxenvs.core.parts` have defaults. They are for players, learners, batches, levels as text and
    comparison with other packages.
    """

    # maximum number of candidate levels of one reset; 1 if `accepts` accepts every level
    level_budget: ClassVar[int] = 1
    # Action taken in place of an illegal one; None: an illegal action changes only `time`.
    idle_action: ClassVar[int | None] = None
    # Params whose values were given to `make` or `with_params`, as sorted pairs (name, value).
    given_params: tuple[tuple[str, Any], ...] = dataclasses.field(default=(), repr=False)

    def __init_subclass__(cls, kw_only: bool = True, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        eager.compile_overrides(cls)
        dataclasses.dataclass(frozen=True, kw_only=kw_only)(cls)
        param_values.apply_to_defaults(cls)

    def __post_init__(self) -> None:
        """Hook for checks of the fields; an author's override calls `super().__post_init__()`."""

    # Members that every author writes:

    @property
    @abstractmethod
    def default_params(self) -> Params:
        """Default parameters.

        An environment that reproduces one of another package, such as MiniGrid, uses the defaults
        of that package.
        """
        raise NotImplementedError

    @property
    @abstractmethod
    def action_space(self) -> Space:
        """The space of one action, for one environment."""
        raise NotImplementedError

    @property
    @abstractmethod
    def observation_space(self) -> Space:
        """The space of one observation, for one environment."""
        raise NotImplementedError

    @abstractmethod
    def reset_state(self, key: Key, level: PyTree[Array], params: Any) -> Any:
        """Return the first state of an episode in `level`, which `draw_level` or a user made."""
        raise NotImplementedError

    @abstractmethod
    def step_state(self, key: Key, state: Any, action: Any, params: Any) -> Transition:
        """Return the `Transition` that an action in `state` causes.

        The action is already clipped into `action_space`; `state.time` already counts this step.
        """
        raise NotImplementedError

    @eager.compiled
    @abstractmethod
    def observe(self, state: Any, params: Any = None) -> PyTree[Array]:
        """Return the agent's observation of `state`."""
        raise NotImplementedError

    # Members that an author may override:

    def draw_level(self, key: Key, params: Any) -> PyTree[Array]:
        """Draw a level: a pytree of everything that is random at the start of an episode.

        By default a level is empty. A generator that may produce unsuitable levels sets
        `level_budget` and overrides `accepts`.
        """
        return ()

    def accepts(self, level: PyTree[Array]) -> Bool[Array, ""]:
        """Return whether a drawn level may be played; if not, a reset draws another one."""
        return jnp.ones((), jnp.bool_)

    @eager.compiled
    def action_mask(self, state: Any, params: Any = None) -> Bool[Array, " actions"]:
        """Return the mask of legal actions; true: legal.

        An illegal action does nothing, or is replaced by `idle_action` if there is one.
        """
        if not isinstance(self.action_space, Discrete):
            raise TypeError(f"{self.name}: only a Discrete action space has a mask")
        return jnp.ones((self.action_space.n,), jnp.bool_)

    def time_limit(self, state: Any, params: Any) -> ArrayLike:
        """Return the number of steps after which this episode is truncated.

        By default `params.max_steps_in_episode`.
        """
        return params.max_steps_in_episode

    def shortest_limit(self, params: Any) -> int:
        """Return the smallest `time_limit` that an episode with `params` can have.

        Learners use it to choose the size of their buffers. `params` must not be traced. The result
        is 1 if a subclass overrides `time_limit` but not this method, because its time limits are
        then unknown.
        """
        if type(self).time_limit is not Env.time_limit:
            return 1
        return int(np.min(params.max_steps_in_episode))

    # Members that callers use:

    @eager.compiled
    def sample_level(self, key: Key, params: Any = None) -> PyTree[Array]:
        """Draw a level as `reset` does. To start episodes in this level, call `reset_to`."""
        key = checks.single_key(key, "sample_level")
        return levels.first_accepted(self, key, self.checked_params(params, "sample_level"))

    @eager.compiled
    def reset(self, key: Key, params: Any = None) -> Reset:
        """Start an episode in a newly drawn level: `sample_level`, then `reset_to`."""
        key_level, key_state = jax.random.split(checks.single_key(key, "reset"))
        params = self.checked_params(params, "reset")
        level = self.sample_level(key_level, params)
        with checks.level_is_drawn():
            return self.reset_to(key_state, level, params)

    @eager.compiled
    def reset_to(self, key: Key, level: PyTree[Array], params: Any = None) -> Reset:
        """Start an episode in the given level: one from `sample_level`, a file or a curriculum.

        Raises `TypeError` if the shapes of the level differ from the shapes that `sample_level`
        draws.
        """
        key = checks.single_key(key, "reset_to")
        params = self.checked_params(params, "reset_to")
        checks.level_like(level, lambda: self.level_shape, f"{type(self).__name__}.reset_to")
        state = as_carry(key, self.reset_state(key, level, params))
        return Reset(self.observe(state, params), state)

    @eager.compiled
    def step(self, key: Key, state: Any, action: Any, params: Any = None) -> Step:
        """Advance the episode by one action; never start the next episode.

        An action outside `action_space` is clipped into it and sets `info["invalid_action"]`. A
        key, state or action of the wrong shape or dtype raises `TypeError` while tracing.
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
