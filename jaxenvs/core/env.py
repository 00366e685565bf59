"""The base class `Env`: pure `reset` and `step` over fixed-shape pytrees.

Callers apply `jit`, `vmap` and `scan` to them.
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
from .parts.upstream import Ending, UpstreamPart
from .random import Key
from .spaces import Discrete, Space
from .struct import Struct, struct
from .transitions import Reset, Step, Transition

__all__ = ["Ending", "Env", "Params", "Reset", "State", "Step", "Transition"]


@struct
class Params(Struct):
    """Parameters that may differ between the environments of a batch. Subclass to add more."""

    # Time limit, steps; the step that reaches it truncates the episode. Any number, cast to int32.
    max_steps_in_episode: Int[Any, "*batch"] | int


@struct
class State(Struct):
    """State of an episode: plain arrays, no PRNG keys. Subclass to add fields.

    Any other state class needs `time` and `ticked` as here, and must be a `struct`.
    """

    time: Int32[Array, ""]  # steps since reset, counted by `Env.step`

    def ticked(self) -> Any:
        """Return the state with `time` increased by one step."""
        return self.replace(time=self.time + 1)


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclasses.dataclass(frozen=True, kw_only=True)
class Env(PlayerPart, LearnerPart, UpstreamPart, BatchPart, Derived):
    """One environment: a frozen, hashable record of static settings, with pure functions of arrays.

    An author subclasses it with annotated fields (every subclass becomes a frozen dataclass) and
    writes the abstract members, which `make` requires. `step` counts `time`, applies the time
    limit, casts dtypes and makes checks. Members for players, learners, batches and upstream
    packages have defaults, in `jaxenvs.core.parts`.
    """

    level_budget: ClassVar[int] = 1  # maximum number of levels drawn for a reset
    # Action that replaces an illegal one; None: an illegal action only increases `time`.
    idle_action: ClassVar[int | None] = None
    # Params that differ from the class's defaults, see `with_params`.
    given_params: tuple[tuple[str, Any], ...] = dataclasses.field(default=(), repr=False)

    def __init_subclass__(cls, kw_only: bool = True, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        eager.compile_overrides(cls)
        dataclasses.dataclass(frozen=True, kw_only=kw_only)(cls)
        param_values.apply_to_defaults(cls)

    def __post_init__(self) -> None:
        """Check the fields; an author's override calls `super().__post_init__()`."""

    # The author writes:

    @property
    @abstractmethod
    def default_params(self) -> Params:
        """Default parameters; those of `package` if the environment reproduces one."""
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
        """Return the agent's observation of `state`."""
        raise NotImplementedError

    # The author may write:

    def draw_level(self, key: Key, params: Any) -> PyTree[Array]:
        """Draw a level: everything that differs between episodes. By default levels are empty.

        A generator that rejects levels sets `level_budget` and overrides `accepts`.
        """
        return ()

    def accepts(self, level: PyTree[Array]) -> Bool[Array, ""]:
        """Tell whether a drawn level may be played; if not, another one is drawn."""
        return jnp.ones((), jnp.bool_)

    @eager.compiled
    def action_mask(self, state: Any, params: Any = None) -> Bool[Array, " actions"]:
        """Tell which actions are legal; an illegal one does nothing, or what `idle_action` does."""
        if not isinstance(self.action_space, Discrete):
            raise TypeError(f"{self.name}: only a Discrete action space has a mask")
        return jnp.ones((self.action_space.n,), jnp.bool_)

    def time_limit(self, state: Any, params: Any) -> ArrayLike:
        """Return the number of steps after which this episode is truncated.

        By default `params.max_steps_in_episode`.
        """
        return params.max_steps_in_episode

    def shortest_limit(self, params: Any) -> int:
        """Return the smallest `time_limit` of any episode; learners size their buffers by it.

        `params` must not be traced. Returns 1 if a subclass overrides `time_limit` but not this.
        """
        if type(self).time_limit is not Env.time_limit:
            return 1
        return int(np.min(params.max_steps_in_episode))

    # The caller uses:

    @eager.compiled
    def sample_level(self, key: Key, params: Any = None) -> PyTree[Array]:
        """Draw a level as `reset` does: a pytree of arrays, ready for `reset_to`."""
        key = checks.single_key(key, "sample_level")
        return levels.first_accepted(self, key, self.checked_params(params, "sample_level"))

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
        state = as_carry(key, self.reset_state(key, level, params))
        return Reset(self.observe(state, params), state)

    @eager.compiled
    def step(self, key: Key, state: Any, action: Any, params: Any = None) -> Step:
        """Advance by one action; never resets.

        An action out of range is clipped into `action_space` and sets `info["invalid_action"]`.
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
