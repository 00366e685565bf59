"""A trained policy, which never takes an action that the environment forbids.

Evaluation, `jaxenvs watch`, replays and `load_policy` all act through it. The policy of a planner
(MuZero, AlphaZero) also has the search that chooses its actions.
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
    """A network with its weights, and the environment that it acts in.

    Everything here is for one observation or state; `jax.vmap` it for a batch. The mask of legal
    actions is part of what a policy is given: `act` takes it from the state, and `think` and
    `apply` refuse to go without it where the environment ever forbids an action.
    """

    env: Env
    begin: Callable[[], PyTree[Array]]  # what it remembers before an episode; () if nothing ever
    predict: Callable[[Any, PyTree[Array], Mask], tuple[Any, Array, Array]]
    """Memory, observation and mask -> memory, outputs of the policy, value."""
    env_id: str = ""
    weights: PyTree[Array] = dataclasses.field(default=None, compare=False, repr=False)
    epsilon: float = 0.0  # share of random actions, unless greedy; only of action values
    search: Search | None = None  # chooses the actions; None: the network alone does

    @classmethod
    def of(
        cls,
        env: Env,
        network: Any,
        weights: PyTree[Array],
        env_id: str = "",
        search: Search | None = None,
    ) -> "Policy":
        """Return the policy of a network with these weights, which may act by a search."""

        def think(memory: PyTree[Array], obs: Any, mask: Mask) -> tuple[Any, Array, Array]:
            memory, outputs, value = network.think(weights, memory, obs, mask)
            return memory, outputs, value_scales.in_rewards(weights, value)

        epsilon = getattr(network, "evaluation_epsilon", 0.0)
        return cls(env, network.begin, think, env_id, weights, epsilon, search)

    def act(
        self, key: Key, memory: PyTree[Array], state: Any, params: Any = None, greedy: bool = False
    ) -> tuple[PyTree[Array], Array]:
        """New memory and an action in a state of `env`: sampled or, if `greedy`, the most likely.

        `memory` is from before the state was seen: `begin()` at the start of an episode.
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
        """New memory and an action for an observation, as `act`.

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
        """New memories and actions of a batch, for observations and their states."""
        mask = self.masks(state)
        memory, outputs, _ = jax.vmap(self.think)(memory, obs, mask)
        if self.search is None:
            return memory, self.choose(key, outputs, greedy)
        return memory, self.search.plan(self.weights, key, obs, mask, state, None, greedy)

    def choose(self, key: Key, outputs: Array, greedy: bool = False) -> Array:
        """Actions for outputs of `think` (*batch, outputs): sampled, or the most likely ones.

        These are actions of the network alone, without the search of a planner.
        For a Box the most likely action is tanh of the Gaussian's mean, stretched to the bounds.
        """
        policy = distributions.of(self.env.action_space)
        return policy.action(policy.best(outputs) if greedy else policy.draw(key, outputs))

    def think(
        self, memory: PyTree[Array], obs: PyTree[Array], mask: Mask = None
    ) -> tuple[PyTree[Array], Float32[Array, " outputs"], Float32[Array, ""]]:
        """Memory after one more observation, outputs of the policy, value (NaN if it has none).

        The value is a discounted return in units of the environment's reward, however the network
        scales it. It includes the exploration bonus of a run that learned with one.

        Outputs are logits of the legal actions; `jaxenvs.core.distributions` says what they are
        where actions are not Discrete. Illegal actions have the logit
        `jaxenvs.core.masking.NEVER`. `mask` is `env.action_mask(state)`; raises `TypeError` where
        it is left out and `env` has illegal actions.
        """
        if mask is None and has_illegal(self.env):
            raise TypeError(
                f"{self.env_id or self.env.name} forbids some actions in some states: give "
                f"mask=env.action_mask(state) with the observation, or use act(key, memory, state)"
            )
        return self.predict(memory, obs, mask)

    def apply(self, obs: PyTree[Array], mask: Mask = None) -> tuple[Array, Array]:
        """Outputs and value of one observation; if recurrent, of the first one of an episode.

        `mask` is as in `think`.
        """
        return self.think(self.begin(), obs, mask)[1:]

    def masks(self, states: Any) -> Mask:
        """Legal actions in a batch of states; None if `env` allows all in any state."""
        return jax.vmap(functools.partial(legal_actions, self.env))(states)
