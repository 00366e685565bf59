"""What learners of action values share: the network, how they explore, what their policy is.

The network is the encoder of networks.py and an MLP with LayerNorm before each ReLU, without which
PQN diverges (Gallici et al., 2024); DQN, which does not need it, has it too. With `dueling` heads
(Wang et al., 2016) a value and advantages whose mean is zero add up to the action values.

A trained policy takes the best action, and with probability `EVALUATION_EPSILON` any: a policy that
remembers nothing can be caught in a circle, which a single other action ends. Where the environment
forbids actions, best and any are those of the legal ones.
"""

from typing import Any

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int32, PyTree

from jaxenvs.core.masking import Mask, legal

from .networks import Network, Recurrent, dense

EVALUATION_EPSILON = 0.02  # share of random actions of a trained policy


class QNetwork(Network):
    """Values of all actions in one observation; `vmap` it."""

    dueling: bool = False

    @nn.compact
    def __call__(self, obs: PyTree[Array]) -> Float32[Array, " actions"]:
        features = self.encoder_of(self.observation_space)(self.read(obs))
        for width in self.hidden:
            features = dense(width, np.sqrt(2), self.dtype)(features)
            features = nn.relu(nn.LayerNorm(dtype=self.dtype)(features))
        values = dense(self.num_actions, 0.1)(features)
        if not self.dueling:
            return values
        return dense(1, 0.1)(features) + values - values.mean()

    def values(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array]
    ) -> tuple[Any, Float32[Array, " actions"]]:
        """What it remembers (nothing), and the values of all actions."""
        answer: Any = self.apply(weights, obs)
        return memory, answer

    def think(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array], mask: Mask
    ) -> tuple[Any, ...]:
        """What it remembers (nothing), logits of the trained policy, and the best legal value."""
        memory, values = self.values(weights, memory, obs)
        return memory, *greedy(values, mask)


class RecurrentQ(Recurrent):
    """The same normalised layers before a GRU, which the values of all actions are read from."""

    def setup(self) -> None:
        """Name the parts: some are applied to many observations at once, one in their order."""
        self.encoder = self.encoder_of(self.observation_space)
        self.layers = [dense(width, np.sqrt(2), self.dtype) for width in self.hidden]
        self.norms = [nn.LayerNorm(dtype=self.dtype) for _ in self.hidden]
        self.cell = nn.GRUCell(self.memory, dtype=self.dtype)
        self.actions = dense(self.num_actions, 0.1)

    def features(self, obs: PyTree[Array]) -> Float[Array, " features"]:
        """What is seen, whatever came before."""
        features = self.encoder(self.read(obs))
        for layer, norm in zip(self.layers, self.norms, strict=True):
            features = nn.relu(norm(layer(features)))
        return features

    def heads(self, memory: Array, seen: Any, *given: Any) -> tuple[Any, ...]:
        """Values of all actions."""
        return (self.actions(memory),)

    def values(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array]
    ) -> tuple[Any, Float32[Array, " actions"]]:
        """What it remembers after one more observation, and the values of all actions."""
        answer: Any = self.apply(weights, obs, memory)
        return answer

    def think(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array], mask: Mask
    ) -> tuple[Any, ...]:
        """What it remembers, logits of the trained policy, and the best legal value."""
        memory, values = self.values(weights, memory, obs)
        return memory, *greedy(values, mask)


def greedy(
    values: Float32[Array, " actions"], mask: Mask
) -> tuple[Float32[Array, " actions"], Float32[Array, ""]]:
    """Logits of the trained policy, and the best legal value."""
    values, number = legal(values, mask), len(values)
    best = jax.nn.one_hot(values.argmax(), number)
    actions = number if mask is None else mask.astype(jnp.float32).sum().clip(1)
    logits = jnp.log((1.0 - EVALUATION_EPSILON) * best + EVALUATION_EPSILON / actions)
    return legal(logits, mask), values.max()


def explore(
    key: Array,
    values: Float32[Array, "envs actions"],
    epsilon: Float32[Array, ""] | Float32[Array, " envs"],
    mask: Mask,
) -> Int32[Array, " envs"]:
    """Epsilon-greedy actions: the best legal one, or with probability epsilon any legal one.

    `epsilon` is a number, or one for each environment.
    """
    chex.assert_rank(values, 2, custom_message="values are [envs, actions]")
    key_whether, key_action = jax.random.split(key)
    envs, actions = values.shape
    if mask is None:
        anything = jax.random.randint(key_action, (envs,), 0, actions, jnp.int32)
    else:
        chex.assert_equal_shape([values, mask], custom_message="values and mask, [envs, actions]")
        even = legal(jnp.zeros_like(values), mask)
        anything = jax.random.categorical(key_action, even).astype(jnp.int32)
    whether = jax.random.bernoulli(key_whether, epsilon, (envs,))
    best = legal(values, mask).argmax(axis=-1).astype(jnp.int32)
    return jnp.where(whether, anything, best)


def chosen(
    values: Float32[Array, "*batch actions"], action: Int32[Array, "*batch"]
) -> Float32[Array, "*batch"]:
    """The value of the action taken in each observation."""
    chex.assert_shape(
        action, values.shape[:-1], custom_message="one action for each vector of values"
    )
    return jnp.take_along_axis(values, action[..., None], axis=-1)[..., 0]
