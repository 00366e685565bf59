"""Who chooses the actions: random play, or a policy with its probabilities."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int32, PRNGKeyArray

from ..core.env import Env
from ..core.masking import legal

Think = Callable[[Any, Any, Bool[Array, " actions"]], tuple[Any, Float[Array, " actions"], Array]]


@dataclasses.dataclass(frozen=True)
class Pilot:
    """One way to choose actions from the observations and the mask of one environment."""

    name: str  # as the panel shows it
    think: Think  # (memory, obs, mask) -> memory, logits of legal actions, value (NaN for none)
    greedy: bool = False  # the likeliest action, or one drawn by its probability
    begin: Callable[[], Any] = tuple  # memory before the first observation of an episode

    @property
    def is_random(self) -> bool:
        """Whether it ignores what it observes, so that its probabilities need not be shown."""
        return self.think is _indifferent

    def predict(self, env: Env, state: Any, params: Any, memory: Any) -> tuple[Any, Array, Array]:
        """Return memory, logits and value of a state; `memory` is from before it was seen."""
        return self.think(memory, env.observe(state, params), env.action_mask(state, params))

    def choose(
        self, key: PRNGKeyArray, env: Env, state: Any, params: Any, memory: Any
    ) -> tuple[Any, Int32[Array, ""]]:
        """Return memory and an action in a state."""
        memory, logits, _ = self.predict(env, state, params, memory)
        drawn = logits.argmax() if self.greedy else jax.random.categorical(key, logits)
        return memory, drawn.astype(jnp.int32)


def _indifferent(memory: Any, obs: Any, mask: Bool[Array, " actions"]) -> tuple[Any, Array, Array]:
    return memory, legal(jnp.zeros(mask.shape, jnp.float32), mask), jnp.float32(jnp.nan)


RANDOM = Pilot("random", _indifferent)


def of_policy(policy: Any, greedy: bool = False) -> Pilot:
    """Return the pilot of a policy with `begin` and `think`, see baselines/policy.py."""
    return Pilot(
        "policy, greedy" if greedy else "policy, sampled", policy.think, greedy, policy.begin
    )
