"""Named tuples that `reset`, `step` and an author's `step_state` return."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, PyTree


class Reset(NamedTuple):
    """Result of `reset`: the first observation and state of an episode."""

    obs: PyTree[Array]
    state: Any


class Step(NamedTuple):
    """Result of `step`; the fields are in the order of gymnax 1.0."""

    obs: PyTree[Array]
    state: Any
    reward: Float32[Array, "*batch"]
    # Whether the task ended, so that no further reward can follow.
    terminated: Bool[Array, "*batch"]
    truncated: Bool[Array, "*batch"]  # whether the time limit ended the episode before the task did
    info: dict[str, Any]

    @property
    def done(self) -> Bool[Array, "*batch"]:
        """True if the episode is over, terminated or truncated."""
        return self.terminated | self.truncated

    @property
    def discount(self) -> Float32[Array, "*batch"]:
        """Factor for the value of the next state: 0 if the episode terminated, else 1.

        It is 1 for a truncated episode, because its last state still has a future value.
        """
        return 1.0 - self.terminated.astype(jnp.float32)


class Transition(NamedTuple):
    """Result of an author's `step_state`: the consequences of one action.

    It has no `truncated`, because `Env.step` applies the time limit.
    """

    state: Any
    reward: Array
    terminated: Array
    info: dict[str, Any] = {}  # noqa: RUF012 - never written
