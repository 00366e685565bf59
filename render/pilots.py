"""Who chooses the actions: random play, or a policy with its probabilities."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from jaxenvs.core import distributions
from jaxenvs.core.env import Env
from jaxenvs.core.masking import legal
from jaxenvs.core.spaces import Discrete

Mask = Bool[Array, " actions"] | None
Think = Callable[[Any, Any, Mask], tuple[Any, Float[Array, " outputs"], Array]]


@dataclasses.dataclass(frozen=True)
class Pilot:
    """One way to choose actions from the observations and the mask of one environment."""

    name: str  # as the panel shows it
    # (memory, obs, mask) -> memory, outputs of the policy, of which logits are those of legal
    # actions, and value (NaN for none).
    think: Think
    greedy: bool = False  # the likeliest action, or one drawn by its probability
    begin: Callable[[], Any] = tuple  # memory before the first observation of an episode
    # As `Policy.decide` of a policy with a search; None: actions follow from the outputs.
    decide: Callable[..., tuple[Any, Array]] | None = None

    @property
    def is_random(self) -> bool:
        """Whether it ignores what it observes, so that its probabilities need not be shown."""
        return self.think is _indifferent

    def predict(self, env: Env, state: Any, params: Any, memory: Any) -> tuple[Any, Array, Array]:
        """Return memory, outputs and value of a state; `memory` is from before it was seen."""
        has_mask = isinstance(env.action_space, Discrete)
        mask = env.action_mask(state, params) if has_mask else None
        return self.think(memory, env.observe(state, params), mask)

    def choose(
        self, key: PRNGKeyArray, env: Env, state: Any, params: Any, memory: Any
    ) -> tuple[Any, Array]:
        """Return memory and an action in a state."""
        if self.is_random and not isinstance(env.action_space, Discrete):
            return memory, env.action_space.sample(key)
        if self.decide is not None:
            seen = env.observe(state, params), env.action_mask(state, params), state, params
            return self.decide(key, memory, *seen, self.greedy)
        memory, outputs, _ = self.predict(env, state, params, memory)
        policy = distributions.of(env.action_space)
        drawn = policy.best(outputs) if self.greedy else policy.draw(key, outputs)
        return memory, policy.action(drawn)


def _indifferent(memory: Any, obs: Any, mask: Mask) -> tuple[Any, Array, Array]:
    even = jnp.zeros(0 if mask is None else mask.shape, jnp.float32)
    return memory, legal(even, mask), jnp.float32(jnp.nan)


RANDOM = Pilot("random", _indifferent)


def of_policy(policy: Any, greedy: bool = False) -> Pilot:
    """Return the pilot of a policy with `begin` and `think`, see baselines/core/policy.py.

    Probabilities that are shown are those of its network, also where a search chooses.
    """
    search = getattr(policy, "search", None)
    name = f"search ({search.simulations})" if search else "policy"
    return Pilot(
        f"{name}, greedy" if greedy else f"{name}, sampled",
        policy.think,
        greedy,
        policy.begin,
        policy.decide if search else None,
    )
