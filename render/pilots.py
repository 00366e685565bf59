"""Who chooses the actions: random play, or a policy with its probabilities."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int32, PRNGKeyArray

from ..core.env import Env

Think = Callable[[Any, Bool[Array, " actions"]], tuple[Float[Array, " actions"], Array]]


@dataclasses.dataclass(frozen=True)
class Pilot:
    """One way to choose actions from the observation and the mask of one environment."""

    name: str  # as the panel shows it
    think: Think  # (obs, mask) -> logits, value (NaN for none)
    greedy: bool = False  # the likeliest action, or one drawn by its probability

    @property
    def is_random(self) -> bool:
        """Whether it looks at nothing, so that probabilities are not worth showing."""
        return self.think is _indifferent

    def judge(self, env: Env, state: Any, params: Any) -> tuple[Array, Array]:
        """Return logits and value of a state."""
        return self.think(env.observe(state, params), env.action_mask(state, params))

    def choose(self, key: PRNGKeyArray, env: Env, state: Any, params: Any) -> Int32[Array, ""]:
        """Choose an action in a state."""
        logits, _ = self.judge(env, state, params)
        drawn = logits.argmax() if self.greedy else jax.random.categorical(key, logits)
        return drawn.astype(jnp.int32)


def _indifferent(obs: Any, mask: Bool[Array, " actions"]) -> tuple[Array, Array]:
    return jnp.where(mask, 0.0, -jnp.inf), jnp.float32(jnp.nan)


RANDOM = Pilot("random", _indifferent)


def of_policy(policy: Any, greedy: bool = False) -> Pilot:
    """Return the pilot of a policy with `apply(obs) -> (logits, value)` for one observation."""
    name = "policy, greedy" if greedy else "policy, sampled"
    return Pilot(name, lambda obs, mask: policy.apply(obs), greedy)
