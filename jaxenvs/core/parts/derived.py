"""Members that no environment overrides, because they follow from the other members of `Env`."""

import functools
from typing import TYPE_CHECKING, Any

import jax
from jaxtyping import Array, PyTree

from .. import checks, eager, levels, param_values
from ..random import Key
from ..transitions import Reset


class Derived:
    """Names, shapes, checks and restarts, computed from the other members of `Env`."""

    if TYPE_CHECKING:  # members of `Env`
        given_params: tuple[tuple[str, Any], ...]
        carries_over: Any

        @property
        def default_params(self) -> Any: ...

        def reset(self, key: Key, params: Any = None) -> Reset: ...

        def observe(self, state: Any, params: Any = None) -> PyTree[Array]: ...

        def carry_over(self, ended: Any, begun: Any, params: Any = None) -> Any: ...

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

    def candidate(self, key: Key, number: Array, params: Any) -> PyTree[Array]:
        """Draw candidate level `number`; a reset takes the first candidate that is accepted."""
        return levels.candidate(self, key, number, params)

    @eager.compiled
    def restart(self, key: Key, ended: Any, params: Any = None) -> Reset:
        """Start the episode after `ended`, the last state of the previous one; see `carry_over`."""
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
        """Raise as `checked_params` does, also for bad values, which a trace cannot see."""
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
def _check_once(env: Any, params: Any, where: str) -> None:
    env.checked_params(params, where)


@functools.lru_cache(maxsize=512)
def _state_shape(env: Any) -> Any:
    # The key is abstract: only shapes are traced here.
    return jax.eval_shape(eager.shared(env.reset), jax.random.key(0)).state


@functools.lru_cache(maxsize=512)
def _level_shape(env: Any) -> Any:
    return jax.eval_shape(eager.shared(env.sample_level), jax.random.key(0))
