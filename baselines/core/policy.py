"""Trained policy, which takes only legal actions.

Evaluation, `jaxenvs watch`, replays and `load_policy` all use the class `Policy` to choose actions.
The policy of a planner (MuZero, AlphaZero) includes the tree search that chooses its actions.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array, Float32, PyTree

from jaxenvs.core import distributions
from jaxenvs.core.env import Env
from jaxenvs.core.masking import Mask, is_masked, legal_actions
from jaxenvs.core.random import Key

from . import value_scales
from .planning import Search


@dataclasses.dataclass(frozen=True)
class Policy:
    """Network with its weights, and the environment in which it acts.

    Methods take one observation or state, except those whose name or docstring says "batch"; use
    `jax.vmap` for a batch. If an environment has illegal actions, `think` and `apply` need the mask
    of legal actions as an argument, and raise an error without it. `act` computes the mask from the
    state.
    """

    env: Env
    begin: Callable[[], PyTree[Array]]  # initial recurrent state; () for a feed-forward network
    predict: Callable[[Any, PyTree[Array], Mask], tuple[Any, Array, Array]]
    """Memory, observation and mask -> memory, outputs of the policy, value."""
    env_id: str = ""
    weights: PyTree[Array] = dataclasses.field(default=None, compare=False, repr=False)
    epsilon: float = 0.0  # Q-networks: probability of a random action, unless actions are greedy
    search: Search | None = None  # search that chooses actions; None: the network chooses them

    @classmethod
    def of(
        cls,
        env: Env,
        network: Any,
        weights: PyTree[Array],
        env_id: str = "",
        search: Search | None = None,
    ) -> "Policy":
        """Return a policy of `network` with `weights`; `search`, unless None, chooses actions."""

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
        from the previous step, or `begin()` at the start of an episode.
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
        """Return the next recurrent state and an action for an observation.

        The arguments have the same meaning as in `act`. `state` and `params` are needed only by a
        planner whose search steps the true environment.
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
        """Return the next recurrent states and actions for a batch of observations and states.

        A search in the true environment uses the environment's default params.
        """
        mask = self.masks(state)
        memory, outputs, _ = jax.vmap(self.think)(memory, obs, mask)
        if self.search is None:
            return memory, self.choose(key, outputs, greedy)
        return memory, self.search.plan(self.weights, key, obs, mask, state, None, greedy)

    def choose(self, key: Key, outputs: Array, greedy: bool = False) -> Array:
        """Return actions for policy outputs (*batch, outputs), without a planner's search.

        Actions are sampled or, if `greedy`, the most likely ones. In a Box, a greedy action is the
        tanh of the Gaussian's mean, scaled to the bounds of the Box.
        """
        policy = distributions.of(self.env.action_space)
        return policy.action(policy.best(outputs) if greedy else policy.draw(key, outputs))

    def think(
        self, memory: PyTree[Array], obs: PyTree[Array], mask: Mask = None
    ) -> tuple[PyTree[Array], Float32[Array, " outputs"], Float32[Array, ""]]:
        """Return the next recurrent state, the policy outputs, and the value.

        The value is a discounted return in units of the environment's reward, even if the network
        was trained on scaled rewards. It is NaN for a network without a value output, and includes
        the exploration bonus if the run trained with one.

        For Discrete actions the outputs are logits; `jaxenvs.core.distributions` describes the
        outputs for other spaces. Illegal actions have the logit `jaxenvs.core.masking.NEVER`.
        `mask` is `env.action_mask(state)`; `TypeError` is raised if it is missing although `env`
        has illegal actions.
        """
        if mask is None and is_masked(self.env):
            raise TypeError(
                f"{self.env_id or self.env.name} forbids some actions in some states: give "
                f"mask=env.action_mask(state) with the observation, or use act(key, memory, state)"
            )
        return self.predict(memory, obs, mask)

    def apply(self, obs: PyTree[Array], mask: Mask = None) -> tuple[Array, Array]:
        """Return the policy outputs and the value for the first observation of an episode.

        The recurrent state is the initial one. `think` describes the results and `mask`.
        """
        return self.think(self.begin(), obs, mask)[1:]

    def masks(self, states: Any) -> Mask:
        """Return masks of the legal actions in a batch of states; None if all are always legal."""
        return jax.vmap(functools.partial(legal_actions, self.env))(states)
