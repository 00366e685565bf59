"""`Derived`, a base class of `Env`: members computed from other members, never overridden."""

import functools
from typing import TYPE_CHECKING, Any

import jax
from jaxtyping import Array, PyTree

from .. import checks, eager, levels, param_values
from ..random import Key
from ..transitions import Reset


class Derived:
    """Members for the name, shapes, argument checks and restarts of an environment."""

    if TYPE_CHECKING:  # members that `Env` defines, declared here for type checkers
        given_params: tuple[tuple[str, Any], ...]
        carries_over: Any

        @property
        def default_params(self) -> Any: ...

        def reset(self, key: Key, params: Any = None) -> Reset: ...

        def observe(self, state: Any, params: Any = None) -> PyTree[Array]: ...

        def carry_over(self, ended: Any, begun: Any, params: Any = None) -> Any: ...

    @property
    def name(self) -> str:
        """Text with the class, settings and given params of the environment, for messages."""
        given = ", ".join(f"{name}={value}" for name, value in self.given_params)
        return f"{self!r} with {given}" if given else repr(self)

    def with_params(self, **numbers: Any) -> Any:
        """Return a copy of this environment with other default params, by keyword.

        Example: `env.with_params(max_steps_in_episode=50)`. Raises `TypeError` for an unknown name
        or a value of the wrong type, and `ValueError` for a time limit below 1.
        """
        return param_values.with_params(self, f"{type(self).__name__}.with_params", numbers)

    def candidate(self, key: Key, number: Array, params: Any) -> PyTree[Array]:
        """Draw the candidate level with the index `number`, counted from 0 within one reset.

        A reset uses the first candidate that `accepts` accepts.
        """
        return levels.candidate(self, key, number, params)

    @eager.compiled
    def restart(self, key: Key, ended: Any, params: Any = None) -> Reset:
        """Start the episode that follows `ended`, the last state of the previous episode.

        Unlike `reset`, this method applies `carry_over`, which copies statistics of the previous
        episode into the new state.
        """
        begun = self.reset(key, params)
        if not self.carries_over:
            return begun
        state = self.carry_over(ended, begun.state, params)
        return Reset(self.observe(state, params), state)

    def checked_params(self, params: Any, where: str) -> Any:
        """Return `params` as arrays with the dtypes of the default params; None: the defaults.

        Raises `TypeError` if the structure or a shape differs from the default params, or if a
        value does not fit its dtype. `where` begins the message.
        """
        defaults = self.default_params
        return checks.tree_like(defaults if params is None else params, defaults, where, "params")

    def check_values(self, params: Any, where: str) -> None:
        """Raise the errors of `checked_params` for concrete params, before JAX traces a function.

        Inside a trace the values are unknown, so only this method finds values that do not fit
        their dtype.
        """
        _check_once(self, params, where)

    @property
    def state_shape(self) -> Any:
        """Shapes and dtypes of a state: a pytree of `jax.ShapeDtypeStruct`."""
        return _state_shape(self)

    @property
    def level_shape(self) -> Any:
        """Shapes and dtypes of a level: a pytree of `jax.ShapeDtypeStruct`."""
        return _level_shape(self)


@functools.lru_cache(maxsize=512)
def _check_once(env: Any, params: Any, where: str) -> None:
    env.checked_params(params, where)


@functools.lru_cache(maxsize=512)
def _state_shape(env: Any) -> Any:
    # `eval_shape` only computes shapes, so the value of the key does not matter.
    return jax.eval_shape(eager.shared(env.reset), jax.random.key(0)).state


@functools.lru_cache(maxsize=512)
def _level_shape(env: Any) -> Any:
    return jax.eval_shape(eager.shared(env.sample_level), jax.random.key(0))
