"""Networks for any registered environment; they expand the compact observations of a rollout.

Only matrix products: on a CPU they are several times faster inside a scan than convolutions.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, PyTree, UInt8

from jaxenvs import Env, spaces
from jaxenvs.core.facts import identity
from jaxenvs.core.masking import Mask, legal

PIXELS = 255  # highest value of a picture; smaller whole numbers are categories
MISSION = "mission"  # part of a Dict that is a sentence: word ids, 0 where there is none
WORD, SENTENCE = 8, 32  # features of a word, of the whole sentence


class Network(nn.Module):
    """The network of a policy, of any kind; it takes one observation, `vmap` it."""

    observation_space: spaces.Space
    num_actions: int
    hidden: Sequence[int]  # width of each layer
    embed: int  # features per cell of a map or picture, 0 to take its one-hots as they are
    read: Callable[[Any], Any] = identity  # from an observation to `observation_space`

    @classmethod
    def of(cls, env: Env, hidden: Sequence[int], embed: int, **more: Any) -> Any:
        """Return the network for an environment; `ValueError` unless its actions are Discrete."""
        if not isinstance(env.action_space, spaces.Discrete):
            raise ValueError(
                f"{env.name} has the action space {env.action_space}; this learner needs a "
                f"Discrete one"
            )
        space, read = env.features
        return cls(space, env.action_space.n, tuple(hidden), embed, read, **more)

    def begin(self) -> Any:
        """What it remembers before the first observation of an episode: nothing, ever."""
        return ()

    def think(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array], mask: Mask
    ) -> tuple[Any, ...]:
        """What it remembers after one more observation, logits of the legal actions, its value."""
        raise NotImplementedError


class ActorCritic(Network):
    """A tanh MLP shared by a categorical policy and a value."""

    value_gain: float = 1.0  # of the value's initial weights; 0: every value is 0 at first

    @nn.compact
    def __call__(self, obs: PyTree[Array]) -> tuple[Float32[Array, " actions"], Float32[Array, ""]]:
        features = Encoder(self.observation_space, self.embed)(self.read(obs))
        for width in self.hidden:
            features = nn.tanh(dense(width, np.sqrt(2))(features))
        logits = dense(self.num_actions, 0.01)(features)
        return logits, dense(1, self.value_gain)(features)[0]

    def think(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array], mask: Mask
    ) -> tuple[Any, ...]:
        """What it remembers after one more observation, logits of the legal actions, its value."""
        answer: Any = self.apply(weights, obs)
        logits, value = answer
        return memory, legal(logits, mask), value


class Recurrent(Network):
    """The same layers before a GRU (Cho et al., 2014), which policy and value are read from."""

    memory: int = 128  # numbers that are remembered

    def setup(self) -> None:
        """Name the parts: some are applied to many observations at once, one in their order."""
        self.encoder = Encoder(self.observation_space, self.embed)
        self.layers = [dense(width, np.sqrt(2)) for width in self.hidden]
        self.cell = nn.GRUCell(self.memory)
        self.policy, self.critic = dense(self.num_actions, 0.01), dense(1, 1.0)

    def __call__(self, obs: PyTree[Array], memory: Array | None = None) -> tuple[Any, ...]:
        memory = self.recall(self.begin() if memory is None else memory, self.features(obs))
        return memory, *self.heads(memory)

    def features(self, obs: PyTree[Array]) -> Float32[Array, " features"]:
        """What is seen, whatever came before."""
        features = self.encoder(self.read(obs))
        for layer in self.layers:
            features = nn.tanh(layer(features))
        return features

    def recall(self, memory: Array, features: Array) -> Float32[Array, " memory"]:
        """What is remembered after one more observation."""
        return self.cell(memory, features)[0]

    def heads(self, memory: Array) -> tuple[Float32[Array, " actions"], Float32[Array, ""]]:
        """Logits and value."""
        return self.policy(memory), self.critic(memory)[0]

    def begin(self) -> Float32[Array, " memory"]:
        """What it remembers before the first observation of an episode."""
        return jnp.zeros(self.memory, jnp.float32)

    def think(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array], mask: Mask
    ) -> tuple[Any, ...]:
        """What it remembers after one more observation, logits of the legal actions, its value."""
        answer: Any = self.apply(weights, obs, memory)
        memory, logits, value = answer
        return memory, legal(logits, mask), value

    def unroll(
        self,
        weights: PyTree[Array],
        memory: Float32[Array, " memory"],
        obs: PyTree[Array],
        done: Bool[Array, " steps"],
    ) -> tuple[Float32[Array, "steps actions"], Float32[Array, " steps"]]:
        """Logits and values of the successive observations of one environment.

        `memory` is from before the first of them; an episode that is `done` is forgotten before
        the next observation. Only the GRU takes them one after another.
        """
        apply: Any = functools.partial(self.apply, weights)
        features = jax.vmap(functools.partial(apply, method="features"))(obs)

        def remember(memory: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
            features, done = now
            memory = apply(memory, features, method="recall")
            return jnp.where(done, 0.0, memory), memory

        memories = jax.lax.scan(remember, memory, (features, done))[1]
        return jax.vmap(functools.partial(apply, method="heads"))(memories)


class Encoder(nn.Module):
    """Float features of one observation of any space.

    In a Dict, the mission is one more part, and decides what is looked for in the cells of a map:
    it scales and shifts the features of all cells alike (FiLM; Perez et al., 2018).
    """

    space: spaces.Space
    embed: int

    @nn.compact
    def __call__(
        self, obs: PyTree[Array], mission: Float32[Array, " sentence"] | None = None
    ) -> Float32[Array, " features"]:
        if isinstance(self.space, spaces.Dict):
            rest = dict(sorted(self.space.spaces.items()))
            words = rest.get(MISSION)
            if isinstance(words, spaces.Box):
                del rest[MISSION]
                mission = Sentence(int(words.high.max()) + 1, name=MISSION)(obs[MISSION])
            parts = [
                Encoder(space, self.embed, name=name)(obs[name], mission)
                for name, space in rest.items()
            ]
            return jnp.concatenate(parts if mission is None else [*parts, mission])
        features = expand(self.space, obs)
        if self.embed and len(self.space.shape) == 3:  # the same small embedding for every cell
            features = nn.Dense(self.embed, use_bias=False)(features)
            if mission is not None:
                scale, shift = jnp.split(nn.Dense(2 * self.embed)(mission), 2)
                features = nn.relu(features * (1.0 + scale) + shift)
        return features.reshape(-1)


class Sentence(nn.Module):
    """Features of a mission: each word has a vector, which counts by the word's place."""

    words: int  # word ids are below it

    @nn.compact
    def __call__(self, ids: UInt8[Array, " words"]) -> Float32[Array, " sentence"]:
        vectors = nn.Embed(self.words, WORD)(ids.astype(jnp.int32))
        vectors = jnp.where(ids[:, None] == 0, 0.0, vectors)
        return nn.tanh(nn.Dense(SENTENCE)(vectors.reshape(-1)))


def expand(space: spaces.Space, obs: Array) -> Float32[Array, "*cells features"]:
    """One-hot vectors for categories, channels of a map side by side; floats for the rest."""
    if not isinstance(space, spaces.Box):
        raise ValueError(f"no encoding for observations of {space}")
    if not np.issubdtype(space.dtype, np.integer):
        return jnp.atleast_1d(obs.astype(jnp.float32))
    low, high = int(space.low.min()), int(space.high.max())
    if high - low >= PIXELS:
        return (obs.astype(jnp.float32) - low) / (high - low)
    if (low, high) == (0, 1):
        return obs.astype(jnp.float32)
    if len(space.shape) < 3:
        return jax.nn.one_hot(obs.astype(jnp.int32) - low, high - low + 1)
    tops = space.high.max(axis=(0, 1))  # per channel, so that no column is always zero
    values = [np.arange(low, top + 1).astype(space.dtype) for top in tops]
    channels = [obs[..., c, None] == codes for c, codes in enumerate(values)]
    return jnp.concatenate(channels, axis=-1).astype(jnp.float32)


def dense(width: int, scale: float) -> nn.Dense:
    """A layer whose initial weights are orthogonal (Saxe et al., 2014), times `scale`."""
    return nn.Dense(width, kernel_init=nn.initializers.orthogonal(scale))
