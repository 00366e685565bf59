"""Q-networks, epsilon-greedy exploration and the trained policy of the value-based learners.

The network is the encoder of encoders.py followed by an MLP with LayerNorm before each ReLU. PQN
diverges without LayerNorm (Gallici et al., 2024); DQN does not need LayerNorm, but uses it by
default. Recurrent PQN can instead use the network of spatial.py, which applies LayerNorm before
each of its residual layers. With `dueling` heads (Wang et al., 2016), the action values are the sum
of a state value and zero-mean advantages.

A trained policy takes the best legal action, or with probability `EVALUATION_EPSILON` a random
legal action. Without random actions, a deterministic feed-forward policy could repeat a cycle of
states forever.
"""

import functools
import math
from typing import Any, ClassVar, NamedTuple

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int32, PyTree

from jaxenvs.core.masking import Mask, legal

from ..core.learner import Learner
from . import products
from .layers import dense, normalise, orthogonal_if_wide
from .policies import Network, Recurrent

EVALUATION_EPSILON = 0.02  # probability with which a trained policy takes a random legal action
NOISE = 0.5  # a noisy layer's initial noise scale is NOISE / sqrt(number of inputs)


class QNetwork(Network):
    """Q-network for one observation; `jax.vmap` it for a batch.

    The network outputs a value for each action. Subclasses for distributional learning output an
    array of shape `outputs` for each action; their method `mean` returns the action's value.
    """

    dueling: bool = False
    # whether the last hidden layer and the heads are noisy; without the Flax rng "noise", they use
    # their mean weights
    noisy: bool = False
    layer_norm: bool = True  # whether LayerNorm precedes each ReLU
    evaluation_epsilon: ClassVar[float] = EVALUATION_EPSILON

    @property
    def outputs(self) -> tuple[int, ...]:
        """Shape of the network's output for one action; () if the output is the action's value."""
        return ()

    def mean(self, answer: Array) -> Float32[Array, "*batch actions"]:
        """Return the action values that the network's outputs `answer` represent."""
        return answer

    @nn.compact
    def __call__(self, obs: PyTree[Array]) -> Float32[Array, " actions *outputs"]:
        return self.heads(self.features(obs))

    def features(self, obs: PyTree[Array]) -> Float[Array, " features"]:
        """Apply the encoder and all hidden layers except the last, which `heads` applies."""
        features = self.encoder_of(self.observation_space)(self.read(obs))
        for width in self.hidden[:-1]:
            features = self.activated(self.dense(width, np.sqrt(2), self.dtype)(features))
        return features

    def heads(self, features: Float[Array, "*batch features"]) -> Float32[Array, "..."]:
        """Return the network's outputs (*batch, actions, *outputs) for the hidden features."""
        layer = Noisy if self.noisy else self.dense
        for width in self.hidden[-1:]:
            features = self.activated(layer(width, np.sqrt(2), self.dtype)(features))
        batch, outputs = features.shape[:-1], self.outputs
        count, axis = math.prod(outputs), -1 - len(outputs)
        values = layer(self.num_actions * count, 0.1)(features)
        values = values.reshape(*batch, self.num_actions, *outputs)
        if not self.dueling:
            return values
        value = layer(count, 0.1)(features).reshape(*batch, 1, *outputs)
        return value + values - values.mean(axis=axis, keepdims=True)

    def dense(self, width: int, scale: float, dtype: Any = jnp.float32) -> nn.Dense:
        """Return a dense layer; its initial weights are orthogonal if the network has LayerNorm.

        Without LayerNorm, the initialiser is `orthogonal_if_wide`.
        """
        if self.layer_norm:
            return products.dense(width, scale, dtype)
        return products.dense(width, scale, dtype, initial=orthogonal_if_wide)

    def activated(self, features: Float[Array, "*batch width"]) -> Float[Array, "*batch width"]:
        """Apply LayerNorm, if the network has it, and then the activation."""
        return nn.relu(normalise(nn.LayerNorm(), features) if self.layer_norm else features)

    @property
    def body(self) -> set[str]:
        """Names of the Flax modules that `features` applies.

        DQN's resets (`q_learning.reset`) move these modules' weights only part of the way back to
        their initial values.
        """
        layers = range(len(self.hidden) - 1)
        kinds = ("Dense", "LayerNorm") if self.layer_norm else ("Dense",)
        names = (f"{kind}_{i}" for i in layers for kind in kinds)
        return {"Encoder_0", *names}

    def values(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array]
    ) -> tuple[Any, Float32[Array, " actions"]]:
        """Return the recurrent state, which is () here, and the values of all actions."""
        outputs: Any = self.apply(weights, obs)
        return memory, self.mean(outputs)

    def think(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array], mask: Mask
    ) -> tuple[Any, ...]:
        """Return the recurrent state (), the policy's logits, and the best legal action's value."""
        memory, values = self.values(weights, memory, obs)
        return memory, *greedy(values, mask)


QLearner = Learner[Any, QNetwork]


class RecurrentQ(Recurrent):
    """Recurrent Q-network: dense layers with LayerNorm, a GRU, and a head of action values."""

    evaluation_epsilon: ClassVar[float] = EVALUATION_EPSILON

    def setup(self) -> None:
        """Create all layers. Flax needs this because several methods apply layers."""
        self.encoder = self.encoder_of(self.observation_space)
        self.layers = [dense(width, np.sqrt(2), self.dtype) for width in self.hidden]
        self.norms = [nn.LayerNorm() for _ in self.hidden]
        self.cell = nn.GRUCell(self.memory, dtype=self.dtype)
        self.actions = dense(self.num_actions, 0.1)

    def features(self, obs: PyTree[Array]) -> Any:
        """Return features of one observation, computed before the GRU, for `recall` and `heads`."""
        features = self.encoder(self.read(obs))
        for layer, norm in zip(self.layers, self.norms, strict=True):
            features = nn.relu(normalise(norm, layer(features)))
        return features

    def heads(self, memory: Any, seen: Any, *given: Any) -> tuple[Any, ...]:
        """Return a tuple that contains the values of all actions."""
        return (self.actions(memory),)

    def values(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array]
    ) -> tuple[Any, Float32[Array, " actions"]]:
        """Return the next recurrent state and the values of all actions."""
        outputs: Any = self.apply(weights, obs, memory)
        return outputs

    def think(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array], mask: Mask
    ) -> tuple[Any, ...]:
        """Return the next recurrent state, policy logits, and the best legal action's value."""
        memory, values = self.values(weights, memory, obs)
        return memory, *greedy(values, mask)


def greedy(
    values: Float32[Array, " actions"], mask: Mask
) -> tuple[Float32[Array, " actions"], Float32[Array, ""]]:
    """Return the logits of the trained policy, and the largest value of a legal action.

    The policy is epsilon-greedy with `EVALUATION_EPSILON`, so the best action has the largest
    logit.
    """
    values, number = legal(values, mask), len(values)
    best = jax.nn.one_hot(values.argmax(), number)
    actions = number if mask is None else mask.astype(jnp.float32).sum().clip(1)
    logits = jnp.log((1.0 - EVALUATION_EPSILON) * best + EVALUATION_EPSILON / actions)
    return legal(logits, mask), values.max()


class Noisy(nn.Module):
    """Dense layer whose weights have factorised noise of learned scale (Fortunato et al., 2018).

    Without the Flax rng "noise", the layer uses its mean weights. Deliberate difference from the
    paper: the initial mean weights are orthogonal, as in `dense`.
    """

    width: int
    scale: float
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, features: Float[Array, "*batch inputs"]) -> Float[Array, "*batch width"]:
        inputs, zeros = features.shape[-1], nn.initializers.zeros_init()
        noise_scale = nn.initializers.constant(NOISE / np.sqrt(inputs))
        orthogonal = nn.initializers.orthogonal(self.scale)
        kernel = self.param("kernel", orthogonal, (inputs, self.width)).astype(self.dtype)
        bias = self.param("bias", zeros, (self.width,)).astype(self.dtype)
        of_kernel = self.param("kernel_noise", noise_scale, (inputs, self.width)).astype(self.dtype)
        of_bias = self.param("bias_noise", noise_scale, (self.width,)).astype(self.dtype)
        features = features.astype(self.dtype)
        mean = features @ kernel + bias
        if not self.has_rng("noise"):
            return mean
        draws = jax.random.normal(self.make_rng("noise"), (inputs + self.width,), jnp.float32)
        factors = (jnp.sign(draws) * jnp.sqrt(jnp.abs(draws))).astype(self.dtype)
        return mean + ((features * factors[:inputs]) @ of_kernel + of_bias) * factors[inputs:]


def apply_batch(
    learner: QLearner, weights: PyTree[Array], obs: PyTree[Array], key: Array | None, *given: Array
) -> Any:
    """Apply the network to a batch of observations.

    A noisy network draws separate noise for each observation; without a key it uses no noise.
    `given` are further inputs of the network, arrays with one entry per observation. Most networks
    have none; IQN's network gets the fractions tau.
    """
    apply = functools.partial(learner.network.apply, weights)
    if key is None or not learner.network.noisy:
        return jax.vmap(apply)(obs, *given)
    keys = jax.random.split(key, len(jax.tree.leaves(obs)[0]))
    return jax.vmap(lambda key, *seen: apply(*seen, rngs={"noise": key}))(keys, obs, *given)


class ExplorationDraws(NamedTuple):
    """Random numbers for epsilon-greedy exploration, which can be drawn before a rollout's loop.

    If all actions are always legal, `action` has random actions (*steps, envs). Otherwise, `action`
    has Gumbel noise (*steps, envs, actions), and the legal action with the largest noise is the
    random action.
    """

    whether: Bool[Array, "*steps envs"]  # whether each environment takes a random action
    action: Array  # random actions, or Gumbel noise with which to choose random legal actions


def exploration_draws(
    key: Array,
    envs: int,
    actions: int,
    epsilon: Float32[Array, ""] | Float32[Array, " envs"],
    all_legal: bool,
) -> ExplorationDraws:
    """Draw the random numbers of `epsilon_greedy` for one step of all environments.

    `epsilon`, the probability of a random action, is a scalar or has one entry per environment.
    """
    key_whether, key_action = jax.random.split(key)
    whether = jax.random.bernoulli(key_whether, epsilon, (envs,))
    if all_legal:
        return ExplorationDraws(
            whether, jax.random.randint(key_action, (envs,), 0, actions, jnp.int32)
        )
    return ExplorationDraws(whether, jax.random.gumbel(key_action, (envs, actions), jnp.float32))


def epsilon_greedy(
    draws: ExplorationDraws, values: Float32[Array, "envs actions"], mask: Mask
) -> Int32[Array, " envs"]:
    """Return the best legal actions, or random legal actions where `draws.whether` is True."""
    chex.assert_rank(values, 2, custom_message="values are [envs, actions]")
    random = draws.action
    if mask is not None:
        chex.assert_equal_shape([values, mask], custom_message="values and mask, [envs, actions]")
        even = legal(jnp.zeros_like(values), mask)
        random = (draws.action + even).argmax(axis=-1).astype(jnp.int32)
    best = legal(values, mask).argmax(axis=-1).astype(jnp.int32)
    return jnp.where(draws.whether, random, best)


def explore(
    key: Array,
    values: Float32[Array, "envs actions"],
    epsilon: Float32[Array, ""] | Float32[Array, " envs"],
    mask: Mask,
) -> Int32[Array, " envs"]:
    """Return epsilon-greedy actions; only legal actions are taken.

    `epsilon`, the probability of a random action, is a scalar or has one entry per environment.
    """
    chex.assert_rank(values, 2, custom_message="values are [envs, actions]")
    envs, actions = values.shape
    return epsilon_greedy(
        exploration_draws(key, envs, actions, epsilon, mask is None), values, mask
    )


def epsilon_ladder(epsilon: Any, power: float, place: Any) -> Any:
    """Return a separate epsilon for each environment, as in Ape-X (Horgan et al., 2018).

    `place` is the environment's index, scaled to [0, 1]. Epsilon falls from `epsilon` in the first
    environment (0) to `epsilon ** (1 + power)` in the last (1).
    """
    return epsilon ** (1.0 + power * place)


def of_actions(
    values: Float32[Array, "..."], action: Int32[Array, "*batch"]
) -> Float32[Array, "..."]:
    """Select a Q-network's outputs for the actions that were taken.

    `values` are the outputs for all actions (*batch, actions, *outputs); the result is (*batch,
    *outputs).
    """
    chex.assert_shape(
        action, values.shape[: action.ndim], custom_message="one action for each vector of values"
    )
    rank = action.ndim
    at = action.reshape(*action.shape, *[1] * (values.ndim - rank))
    return jnp.take_along_axis(values, at, axis=rank).squeeze(rank)
