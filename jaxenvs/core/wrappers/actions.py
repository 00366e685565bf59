"""Wrappers that change actions: `StickyAction` and `ActionRepeat`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int32, PyTree

from .. import checks
from ..carries import as_carry, varying_like
from ..env import Reset, Step
from ..facts import Effects
from ..random import Key
from ..stateful import WrappedState, check_wrapped
from ..struct import Struct, struct
from ..wrapper import Wrapper
from .normalisation import refuse_shared
from .success import SuccessInInfo, with_success


@struct
class StickyParams(Struct):
    """Params of `StickyAction`: params of the wrapped environment and the repeat probability."""

    env: Any
    # Probability that a step repeats the previous action.
    repeat_probability: Float[Any, "*batch"] | float

    @property
    def max_steps_in_episode(self) -> Any:
        """Time limit of the wrapped environment."""
        return self.env.max_steps_in_episode


class StickyAction(Wrapper):
    """Repeats the previous action with a probability (by default 0.25), except in the first step.

    Source: Machado et al. 2018, "Revisiting the Arcade Learning Environment". The probability is a
    param; `info["repeated_action"]` is true in the steps that repeat the previous action.
    """

    @property
    def fully_observed(self) -> bool:  # type: ignore[override]
        """False, because the next state depends on the previous action, which is not observed."""
        return False

    @property
    def default_params(self) -> StickyParams:
        """Params of the wrapped environment, and a repeat probability of 0.25."""
        return StickyParams(env=self.env.default_params, repeat_probability=np.float32(0.25))

    def ending(self, level: PyTree[Array]) -> None:
        """Return None, so that `jaxenvs check` plays no known ending.

        An `Ending` lists the actions that end an episode, and each of them must be taken. This
        wrapper may take the previous action instead.
        """

    def inner(self, state: WrappedState) -> Any:
        """Return the wrapped environment's part of the wrapper's state."""
        return state.env

    def inner_params(self, params: StickyParams | None) -> Any:
        """Return the wrapped environment's part of the params; None means the defaults."""
        return None if params is None else params.env

    def reset_to(self, key: Key, level: PyTree[Array], params: Any = None) -> Reset:
        """Start an episode in the given level."""
        params = self.checked_params(params, "reset_to")
        obs, state = self.env.reset_to(key, level, params.env)
        spaces = self.action_space
        previous, _ = spaces.clip(jax.tree.map(jnp.zeros_like, spaces.sample(jax.random.key(0))))
        return Reset(obs, WrappedState(env=state, memory=as_carry(key, previous)))

    def step(self, key: Key, state: WrappedState, action: Any, params: Any = None) -> Step:
        """Advance by `action`, or with `repeat_probability` by the previous action."""
        check_wrapped(state, "StickyAction")
        params = self.checked_params(params, "step")
        action, invalid = checks.action_in(self.action_space, action, "step")
        key_repeat, key_step = jax.random.split(checks.single_key(key, "step"))
        drawn = jax.random.uniform(key_repeat, dtype=jnp.float32) < params.repeat_probability
        repeats = drawn & (state.time > 0)
        action = jax.tree.map(lambda old, new: jnp.where(repeats, old, new), state.memory, action)
        stepped = self.env.step(key_step, state.env, action, params.env)
        info = {**stepped.info, "invalid_action": invalid, "repeated_action": repeats}
        return stepped._replace(state=WrappedState(env=stepped.state, memory=action), info=info)


@struct
class RepeatedState(Struct):
    """State of `ActionRepeat`: the wrapped environment's state and a separate step count."""

    # Number of actions of the agent since reset; repetitions are not counted.
    time: Int32[Array, "*batch"]
    env: Any


class ActionRepeat(SuccessInInfo):
    """Takes each action `num_repeats` times, or until the episode ends, and sums the rewards.

    Gymnasium calls this wrapper `RepeatAction`. `state.time` counts the agent's actions, but
    `max_steps_in_episode` limits the steps of the wrapped environment. The observation and the info
    come from the last repetition of the action.
    """

    num_repeats: int

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        checks.integer_field("ActionRepeat", "num_repeats", self.num_repeats, 1)
        advice = (
            "belongs around ActionRepeat: inside it, environments whose episode is done would miss "
            "steps that others still make"
        )
        refuse_shared(self.env, "ActionRepeat", advice)

    @property
    def reward_range(self) -> tuple[float, float]:  # type: ignore[override]
        """Lowest and highest sum of up to `num_repeats` rewards."""
        low, high = self.env.reward_range
        return min(low, low * self.num_repeats), max(high, high * self.num_repeats)

    def inner(self, state: RepeatedState) -> Any:
        """Return the wrapped environment's part of the wrapper's state."""
        return state.env

    def reset_to(self, key: Key, level: PyTree[Array], params: Any = None) -> Reset:
        """Start an episode in the given level."""
        obs, state = self.env.reset_to(key, level, self.inner_params(params))
        return Reset(obs, RepeatedState(time=jnp.zeros_like(state.time), env=state))

    def step(self, key: Key, state: RepeatedState, action: Any, params: Any = None) -> Step:
        """Advance the wrapped environment by up to `num_repeats` steps with the same action."""
        if not isinstance(state, RepeatedState):
            kind = type(state).__name__
            raise TypeError(f"step: ActionRepeat needs a state from its reset or step, got {kind}")
        key = checks.single_key(key, "step")

        def advance(key: Key, state: Any) -> Step:
            stepped = self.env.step(key, state, action, self.inner_params(params))
            return with_success(self.env, stepped)

        def once(before: Step, key: Key) -> tuple[Step, None]:
            new = advance(key, before.state)
            new = new._replace(reward=before.reward + new.reward)
            return jax.tree.map(lambda a, b: jnp.where(before.done, a, b), before, new), None

        shapes = jax.eval_shape(advance, key, state.env)
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        start = jax.tree.map(lambda leaf: varying_like(key, leaf), nothing)
        keys = jax.random.split(key, self.num_repeats)
        stepped, _ = jax.lax.scan(once, start._replace(state=state.env), keys)
        time = state.time + jnp.int32(1)
        if self.env.resets_itself:
            time = jnp.where(stepped.done, jnp.zeros_like(time), time)
        return stepped._replace(state=RepeatedState(time=time, env=stepped.state))

    def time_limit(self, state: RepeatedState, params: Any) -> ArrayLike:
        """Return the number of actions of the agent after which the episode is truncated."""
        limit = self.env.time_limit(state.env, self.inner_params(params))
        return -(-limit // np.int32(self.num_repeats))  # type: ignore[operator]

    def shortest_limit(self, params: Any) -> int:
        """Return the smallest time limit of any episode, in actions of the agent."""
        return -(-self.env.shortest_limit(self.inner_params(params)) // self.num_repeats)

    def ending(self, level: PyTree[Array]) -> None:
        """Return None, so that `jaxenvs check` plays no known ending.

        An `Ending` lists the actions that end an episode, and each of them must be taken once. This
        wrapper repeats each action.
        """

    def effects(self, before: Any, action: int, after: Any, params: Any = None) -> Effects:
        """Return no effects, so that viewers highlight nothing.

        The wrapped environment finds the effects of one step, but several of its steps lie between
        the states `before` and `after`.
        """
        return Effects()

    def picture_between(self, state: Any, action: int, share: float, tile_size: int) -> None:
        """Return None, so that viewers do not animate actions.

        The wrapped environment can only draw a part of one step, but an action takes several.
        """
