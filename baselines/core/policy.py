"""Trained policy, which takes only legal actions.

Evaluation, `jaxenvs watch`, replays and `load_policy` all act through it. The policy of a planner
(MuZero, AlphaZero) includes the search that chooses its actions.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array, Float32, PyTree

from jaxenvs.core import distributions
from jaxenvs.core.env import Env
from jaxenvs.core.masking import Mask, has_illegal, legal_actions
from jaxenvs.core.random import Key

from . import value_scales
from .planning import Search


@dataclasses.dataclass(frozen=True)
class Policy:
    """Network with its weights, and the environment in which it acts.

    All methods take one observation or state; `jax.vmap` them for a batch. A policy needs the mask
    of legal actions: `act` computes it from the state, and `think` and `apply` raise without it if
    the environment has illegal actions.
    """

    env: Env
    begin: Callable[[], PyTree[Array]]  # initial recurrent state; () for a feed-forward network
    predict: Callable[[Any, PyTree[Array], Mask], tuple[Any, Array, Array]]
    """Memory, observation and mask -> memory, outputs of the policy, value."""
    env_id: str = ""
    weights: PyTree[Array] = dataclasses.field(default=None, compare=False, repr=False)
    epsilon: float = 0.0  # probability of a random action, unless greedy; for Q-networks only
    search: Search | None = None  # search that chooses actions; None: the network's outputs do

    @classmethod
    def of(
        cls,
        env: Env,
        network: Any,
        weights: PyTree[Array],
        env_id: str = "",
        search: Search | None = None,
    ) -> "Policy":
        """Return the policy of a network with these weights, or of a search that uses it."""

        def think(memory: PyTree[Array], obs: Any, mask: Mask) -> tuple[Any, Array, Array]:
            memory, outputs, value = network.think(weights, memory, obs, mask)
            return memory, outputs, value_scales.in_rewards(weights, value)

        epsilon = getattr(network, "evaluation_epsilon", 0.0)
        return cls(env, network.begin, think, env_id, weights, epsilon, search)

    def act(
        self, key: Key, memory: PyTree[Array], state: Any, params: Any = None, greedy: bool = False
    ) -> tuple[PyTree[Array], Array]:
        """Return the next recurrent state and an action in a state of `env`.

        The action is sampled, or the most likely one if `greedy`. `memory` is the recurrent state
        before this observation: `begin()` at the start of an episode.
        """
        obs = self.env.observe(state, params)
        mask = legal_actions(self.env, state, params)
        return self.decide(key, memory, obs, mask, state, params, greedy)

    def decide(
        self,
        key: Key,
        memory: PyTree[Array],
        obs: PyTree[Array],
        mask: Mask = None,
        state: Any = None,
        params: Any = None,
        greedy: bool = False,
    ) -> tuple[PyTree[Array], Array]:
        """Return the next recurrent state and an action for an observation, like `act`.

        Only a search in the true environment reads `state` and `params`.
        """
        memory, outputs, _ = self.think(memory, obs, mask)
        if self.search is None:
            return memory, self.choose(key, outputs, greedy)
        obs, mask, state = jax.tree.map(lambda leaf: leaf[None], (obs, mask, state))
        action = self.search.plan(self.weights, key, obs, mask, state, params, greedy)
        return memory, action[0]

    def decide_batch(
        self,
        key: Key,
        memory: PyTree[Array],
        obs: PyTree[Array],
        state: Any,
        greedy: bool = False,
    ) -> tuple[PyTree[Array], Array]:
        """Return the next recurrent states and actions for a batch of observations and states."""
        mask = self.masks(state)
        memory, outputs, _ = jax.vmap(self.think)(memory, obs, mask)
        if self.search is None:
            return memory, self.choose(key, outputs, greedy)
        return memory, self.search.plan(self.weights, key, obs, mask, state, None, greedy)

    def choose(self, key: Key, outputs: Array, greedy: bool = False) -> Array:
        """Return actions for outputs of `think` (*batch, outputs), without a planner's search.

        They are sampled, or the most likely ones if `greedy`. For a Box, greedy actions are the
        tanh of the Gaussian's mean, scaled to the bounds.
        """
        policy = distributions.of(self.env.action_space)
        return policy.action(policy.best(outputs) if greedy else policy.draw(key, outputs))

    def think(
        self, memory: PyTree[Array], obs: PyTree[Array], mask: Mask = None
    ) -> tuple[PyTree[Array], Float32[Array, " outputs"], Float32[Array, ""]]:
        """Return the next recurrent state, the outputs, and the value (NaN if there is none).

        The value is a discounted return in units of the environment's reward, regardless of the
        network's scale. It includes the exploration bonus of a run that trained with one.

        For Discrete actions the outputs are logits; `jaxenvs.core.distributions` describes the
        others. Illegal actions have the logit `jaxenvs.core.masking.NEVER`. `mask` is
        `env.action_mask(state)`; raises `TypeError` without it if `env` has illegal actions.
        """
        if mask is None and has_illegal(self.env):
            raise TypeError(
                f"{self.env_id or self.env.name} forbids some actions in some states: give "
                f"mask=env.action_mask(state) with the observation, or use act(key, memory, state)"
            )
        return self.predict(memory, obs, mask)

    def apply(self, obs: PyTree[Array], mask: Mask = None) -> tuple[Array, Array]:
        """Return outputs and value for one observation and the initial recurrent state.

        `think` describes `mask`.
        """
        return self.think(self.begin(), obs, mask)[1:]

    def masks(self, states: Any) -> Mask:
        """Return the legal actions in a batch of states; None if all actions are always legal."""
        return jax.vmap(functools.partial(legal_actions, self.env))(states)
