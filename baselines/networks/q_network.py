"""Q-networks, epsilon-greedy exploration and the trained policy of the value-based learners.

The network is the encoder of encoders.py followed by an MLP with LayerNorm before each ReLU. PQN
diverges without LayerNorm (Gallici et al., 2024); DQN does not need it, but uses it by default.
Recurrent PQN can use the layers of spatial.py instead, which are normalised in another order. With
`dueling` heads (Wang et al., 2016) the action values are the sum of a value and zero-mean
advantages.

A trained policy takes the best legal action, or with probability `EVALUATION_EPSILON` a random
legal one: a feed-forward policy can repeat a cycle of states, which a single other action breaks.
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

EVALUATION_EPSILON = 0.02  # probability of a random action of a trained policy
NOISE = 0.5  # initial noise scale of a noisy layer times the square root of its number of inputs


class QNetwork(Network):
    """Q-network for one observation; `jax.vmap` it for a batch.

    Outputs a value for each action. In distributional subclasses it outputs an array of shape
    `outputs` for each action, from which `mean` returns the values.
    """

    dueling: bool = False
    noisy: bool = False  # whether the last layer and heads are noisy, if Flax rng "noise" is given
    layer_norm: bool = True  # whether layers are normalised
    evaluation_epsilon: ClassVar[float] = EVALUATION_EPSILON

    @property
    def outputs(self) -> tuple[int, ...]:
        """Shape of the output for one action."""
        return ()

    def mean(self, answer: Array) -> Float32[Array, "*batch actions"]:
        """Return the action values that the network's outputs `answer` represent."""
        return answer

    @nn.compact
    def __call__(self, obs: PyTree[Array]) -> Float32[Array, " actions *outputs"]:
        return self.heads(self.features(obs))

    def features(self, obs: PyTree[Array]) -> Float[Array, " features"]:
        """Return the output of the encoder and of all hidden layers but the last."""
        features = self.encoder_of(self.observation_space)(self.read(obs))
        for width in self.hidden[:-1]:
            features = self.activated(self.dense(width, np.sqrt(2), self.dtype)(features))
        return features

    def heads(self, features: Float[Array, "*batch features"]) -> Float32[Array, "..."]:
        """Return the outputs (*batch, actions, *outputs), computed from the features."""
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
        """Return a layer; without LayerNorm, `orthogonal_if_wide` chooses its initial weights."""
        if self.layer_norm:
            return products.dense(width, scale, dtype)
        return products.dense(width, scale, dtype, initial=orthogonal_if_wide)

    def activated(self, features: Float[Array, "*batch width"]) -> Float[Array, "*batch width"]:
        """Apply LayerNorm, if the network has it, and then the activation."""
        return nn.relu(normalise(nn.LayerNorm(), features) if self.layer_norm else features)

    @property
    def body(self) -> set[str]:
        """Names of the Flax modules that `features` uses."""
        layers = range(len(self.hidden) - 1)
        kinds = ("Dense", "LayerNorm") if self.layer_norm else ("Dense",)
        names = (f"{kind}_{i}" for i in layers for kind in kinds)
        return {"Encoder_0", *names}

    def values(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array]
    ) -> tuple[Any, Float32[Array, " actions"]]:
        """Return the recurrent state (here empty) and the values of all actions."""
        outputs: Any = self.apply(weights, obs)
        return memory, self.mean(outputs)

    def think(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array], mask: Mask
    ) -> tuple[Any, ...]:
        """Return an empty recurrent state, the trained policy's logits and the best legal value."""
        memory, values = self.values(weights, memory, obs)
        return memory, *greedy(values, mask)


class RecurrentQ(Recurrent):
    """Recurrent Q-network: dense layers with LayerNorm, a GRU, and a head of action values."""

    evaluation_epsilon: ClassVar[float] = EVALUATION_EPSILON

    def setup(self) -> None:
        """Create the layers here, because methods apply some of them separately."""
        self.encoder = self.encoder_of(self.observation_space)
        self.layers = [dense(width, np.sqrt(2), self.dtype) for width in self.hidden]
        self.norms = [nn.LayerNorm() for _ in self.hidden]
        self.cell = nn.GRUCell(self.memory, dtype=self.dtype)
        self.actions = dense(self.num_actions, 0.1)

    def features(self, obs: PyTree[Array]) -> Any:
        """Return features of one observation: an array, or the inputs of `recall` and `heads`."""
        features = self.encoder(self.read(obs))
        for layer, norm in zip(self.layers, self.norms, strict=True):
            features = nn.relu(normalise(norm, layer(features)))
        return features

    def heads(self, memory: Array, seen: Any, *given: Any) -> tuple[Any, ...]:
        """Return the values of all actions."""
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
        """Return the next recurrent state, logits of the trained policy, and the best value."""
        memory, values = self.values(weights, memory, obs)
        return memory, *greedy(values, mask)


def greedy(
    values: Float32[Array, " actions"], mask: Mask
) -> tuple[Float32[Array, " actions"], Float32[Array, ""]]:
    """Return the logits of the trained policy, and the best legal value."""
    values, number = legal(values, mask), len(values)
    best = jax.nn.one_hot(values.argmax(), number)
    actions = number if mask is None else mask.astype(jnp.float32).sum().clip(1)
    logits = jnp.log((1.0 - EVALUATION_EPSILON) * best + EVALUATION_EPSILON / actions)
    return legal(logits, mask), values.max()


class Noisy(nn.Module):
    """Dense layer with factorised noise of learned scale (Fortunato et al., 2018).

    Deterministic unless the rng "noise" is given. Deliberate difference: the mean weights are
    initialised as in `dense`.
    """

    width: int
    scale: float
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, features: Float[Array, "*batch inputs"]) -> Float[Array, "*batch width"]:
        inputs, zeros = features.shape[-1], nn.initializers.zeros_init()
        spread = nn.initializers.constant(NOISE / np.sqrt(inputs))
        orthogonal = nn.initializers.orthogonal(self.scale)
        kernel = self.param("kernel", orthogonal, (inputs, self.width)).astype(self.dtype)
        bias = self.param("bias", zeros, (self.width,)).astype(self.dtype)
        of_kernel = self.param("kernel_noise", spread, (inputs, self.width)).astype(self.dtype)
        of_bias = self.param("bias_noise", spread, (self.width,)).astype(self.dtype)
        features = features.astype(self.dtype)
        mean = features @ kernel + bias
        if not self.has_rng("noise"):
            return mean
        draws = jax.random.normal(self.make_rng("noise"), (inputs + self.width,), jnp.float32)
        factors = (jnp.sign(draws) * jnp.sqrt(jnp.abs(draws))).astype(self.dtype)
        return mean + ((features * factors[:inputs]) @ of_kernel + of_bias) * factors[inputs:]


def apply_batch(
    learner: Learner, weights: PyTree[Array], obs: PyTree[Array], key: Array | None, *given: Array
) -> Array:
    """Apply the network to a batch of observations.

    A noisy network draws separate noise for each observation; without a key it draws none. `given`
    are further inputs of the network for each observation.
    """
    apply = functools.partial(learner.network.apply, weights)
    if key is None or not learner.network.noisy:
        return jax.vmap(apply)(obs, *given)
    keys = jax.random.split(key, len(jax.tree.leaves(obs)[0]))
    return jax.vmap(lambda key, *seen: apply(*seen, rngs={"noise": key}))(keys, obs, *given)


class ExplorationDraws(NamedTuple):
    """Random draws of epsilon-greedy exploration, made before action values are known."""

    whether: Bool[Array, "*steps envs"]  # whether the action is random
    action: Array  # (*steps, envs) random actions; (..., actions) Gumbel noise if masked


def exploration_draws(
    key: Array,
    envs: int,
    actions: int,
    epsilon: Float32[Array, ""] | Float32[Array, " envs"],
    all_legal: bool,
) -> ExplorationDraws:
    """Make the draws of `epsilon_greedy`; `epsilon` is a scalar, or one rate per environment."""
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
    """Return the best legal actions, or random legal ones where the draws explore."""
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
    """Return epsilon-greedy actions: the best legal one, or a random one with probability epsilon.

    `epsilon` is a scalar, or one rate per environment.
    """
    chex.assert_rank(values, 2, custom_message="values are [envs, actions]")
    envs, actions = values.shape
    return epsilon_greedy(
        exploration_draws(key, envs, actions, epsilon, mask is None), values, mask
    )


def epsilon_ladder(epsilon: Any, power: float, place: Any) -> Any:
    """Return separate epsilons for vectorised environments (Horgan et al., 2018).

    `place` rises from 0 for the first environment, which has `epsilon`, to 1 for the last, which
    explores least.
    """
    return epsilon ** (1.0 + power * place)


def of_actions(
    values: Float32[Array, "..."], action: Int32[Array, "*batch"]
) -> Float32[Array, "..."]:
    """Select the outputs of the actions taken.

    `values` are (*batch, actions, *outputs); the result is (*batch, *outputs).
    """
    chex.assert_shape(
        action, values.shape[: action.ndim], custom_message="one action for each vector of values"
    )
    rank = action.ndim
    at = action.reshape(*action.shape, *[1] * (values.ndim - rank))
    return jnp.take_along_axis(values, at, axis=rank).squeeze(rank)
