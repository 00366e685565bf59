"""Policies of a session: random play, or a trained policy with its action probabilities."""

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
    """A policy of one environment, as a session uses it."""

    name: str  # name shown in the panel
    # (memory, obs, mask) -> (memory, network outputs, value): logits are masked to legal actions;
    # the value is NaN if there is none. `memory` is the recurrent state of the policy.
    think: Think
    greedy: bool = False  # whether to take the most likely action instead of sampling
    begin: Callable[[], Any] = tuple  # function that returns an episode's first recurrent state
    # `Policy.decide` of a policy with a search; None: actions are sampled from the outputs.
    decide: Callable[..., tuple[Any, Array]] | None = None

    @property
    def is_random(self) -> bool:
        """True if the policy ignores observations; its probabilities are then not shown."""
        return self.think is _indifferent

    def predict(self, env: Env, state: Any, params: Any, memory: Any) -> tuple[Any, Array, Array]:
        """Return the next recurrent state, the outputs and the value in a state.

        `memory` is the recurrent state before this observation.
        """
        has_mask = isinstance(env.action_space, Discrete)
        mask = env.action_mask(state, params) if has_mask else None
        return self.think(memory, env.observe(state, params), mask)

    def choose(
        self, key: PRNGKeyArray, env: Env, state: Any, params: Any, memory: Any
    ) -> tuple[Any, Array]:
        """Return the next recurrent state and an action."""
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
    """Wrap a policy with `begin` and `think`, see baselines/core/policy.py.

    The panel shows the probabilities of its network even if a search chooses the actions.
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
