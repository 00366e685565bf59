"""Results of `reset` and `step`."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, PyTree


class Reset(NamedTuple):
    """Result of `reset`."""

    obs: PyTree[Array]
    state: Any


class Step(NamedTuple):
    """Result of `step`, in gymnax 1.0's order of fields."""

    obs: PyTree[Array]
    state: Any
    reward: Float32[Array, "*batch"]
    terminated: Bool[Array, "*batch"]  # the task ended: no further reward can follow
    truncated: Bool[Array, "*batch"]  # the time limit ended the episode before the task did
    info: dict[str, Any]

    @property
    def done(self) -> Bool[Array, "*batch"]:
        """True if the episode is over, for either reason."""
        return self.terminated | self.truncated

    @property
    def discount(self) -> Float32[Array, "*batch"]:
        """0 where the episode terminated, else 1: a truncated episode still has a future value."""
        return 1.0 - self.terminated.astype(jnp.float32)


class Transition(NamedTuple):
    """Result of an author's `step_state`: the consequences of one action; `step` counts `time`."""

    state: Any
    reward: Array
    terminated: Array
    info: dict[str, Any] = {}  # noqa: RUF012 - never written
