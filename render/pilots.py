"""Policies that act in a session: random play, or a trained policy.

A `Pilot` also returns the policy's action probabilities and value, which the panel shows.
"""

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
    """A policy for a session: its name, its functions, and whether it acts greedily."""

    name: str  # name of the policy that the panel shows
    # Function (memory, obs, mask) -> (memory, network outputs, value). `memory` is the recurrent
    # state of the policy. `mask` is the action mask, which is applied to the logits; None if
    # actions are not discrete. The value is NaN if the policy predicts none.
    think: Think
    greedy: bool = False  # whether to take the most likely action instead of sampling
    # Function that returns the recurrent state of the policy at the start of an episode.
    begin: Callable[[], Any] = tuple
    # `Policy.decide`, which chooses actions by a search. None: actions follow the distribution that
    # the network's outputs determine.
    decide: Callable[..., tuple[Any, Array]] | None = None

    @property
    def is_random(self) -> bool:
        """True for random play; the panel then shows no action probabilities."""
        return self.think is _indifferent

    def predict(self, env: Env, state: Any, params: Any, memory: Any) -> tuple[Any, Array, Array]:
        """Apply the network to the observation of a state.

        `memory` is the policy's recurrent state. Returns the updated recurrent state, the policy
        outputs (logits if actions are discrete), and the value of the state.
        """
        has_mask = isinstance(env.action_space, Discrete)
        mask = env.action_mask(state, params) if has_mask else None
        return self.think(memory, env.observe(state, params), mask)

    def choose(
        self, key: PRNGKeyArray, env: Env, state: Any, params: Any, memory: Any
    ) -> tuple[Any, Array]:
        """Return the new recurrent state and the action that the policy takes in a state."""
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
    """Return a trained policy (of baselines/core/policy.py) as a `Pilot`.

    If a search chooses the policy's actions, `predict` still returns the network's outputs.
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
