"""Networks for any registered environment; they expand the compact observations of a rollout.

Only matrix products: on a CPU they are several times faster inside a scan than convolutions.
"""

import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, PyTree, UInt8

from jaxenvs import spaces
from jaxenvs.core import distributions
from jaxenvs.core.facts import identity
from jaxenvs.core.masking import Mask, legal
from jaxenvs.core.platforms import by_platform

PIXELS = 255  # highest value of a picture; smaller whole numbers are categories
MISSION = "mission"  # part of a Dict that is a sentence: word ids, 0 where there is none
WORD, SENTENCE = 8, 32  # features of a word, of the whole sentence


class Network(nn.Module):
    """The network of a policy, of any kind; it takes one observation, `vmap` it."""

    observation_space: spaces.Space
    num_actions: int  # outputs of the policy: logits, or for a Box means and spreads
    hidden: Sequence[int]  # width of each layer
    embed: int  # features per cell of a map or picture, 0 to take its one-hots as they are
    read: Callable[[Any], Any] = identity  # from an observation to `observation_space`
    bfloat16: bool = False  # whether activations are bfloat16; weights and results are float32
    activation: str = "tanh"  # function of flax.linen, of policies' layers
    conv: Sequence[int] = ()  # side and features of each convolution of a map, see `Encoder`
    neighbours: int = 0  # features of a cell with the eight around it, of spatial networks alone

    @property
    def activate(self) -> Callable[[Array], Array]:
        """The function between layers."""
        return getattr(nn, self.activation)

    @property
    def dtype(self) -> Any:
        """Type of the activations."""
        return jnp.bfloat16 if self.bfloat16 else jnp.float32

    @classmethod
    def of(cls, env: Any, hidden: Sequence[int], embed: int, **more: Any) -> Any:
        """Return the network for an `Env` or what Ray's learner knows of a world of Gymnasium.

        Raises `ValueError` for an action space that no policy has.
        """
        try:
            policy = distributions.of(env.action_space)
        except ValueError as error:
            raise ValueError(f"{env.name}: {error}") from error
        space, read = env.features
        made = cls(space, policy.outputs, tuple(hidden), embed, read, **more)
        if made.conv and not made.convolved:
            raise ValueError(
                f"conv={tuple(made.conv)}: {env.name} observes no map or picture to convolve; omit "
                f"it"
            )
        return made

    @property
    def convolved(self) -> list[spaces.Space]:
        """Parts of an observation that `conv` reads."""
        return [part for _, part in leaves(self.observation_space) if is_map(part, 1)]

    def encoder_of(self, space: spaces.Space, name: str | None = None) -> "Encoder":
        """The encoder that turns an observation of a space into features."""
        return Encoder(space, self.embed, self.dtype, tuple(self.conv), name=name)

    def begin(self) -> Any:
        """What it remembers before the first observation of an episode: nothing, ever."""
        return ()

    def think(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array], mask: Mask
    ) -> tuple[Any, ...]:
        """What it remembers after one more observation, logits of the legal actions, its value."""
        answer: Any = self.apply(weights, obs)
        logits, value = answer
        return memory, legal(logits, mask), value

    def unroll(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array], done: Bool[Array, " steps"]
    ) -> tuple[Any, ...]:
        """Logits and values of the successive observations of one environment.

        `memory` is from before the first of them; an episode that is `done` is forgotten before
        the next observation.
        """

        def step(memory: Any, now: tuple[PyTree[Array], Array]) -> tuple[Any, tuple[Array, Array]]:
            obs, done = now
            memory, logits, value = self.think(weights, memory, obs, None)
            return renewed(memory, self.begin(), done), (logits, value)

        return jax.lax.scan(step, memory, (obs, done))[1]


def renewed(
    memory: PyTree[Array], first: PyTree[Array], done: Bool[Array, "*envs"]
) -> PyTree[Array]:
    """Memory, begun anew where an episode is `done`: of one environment, or of a batch."""

    def forget(memory: Array, first: Array) -> Array:
        return jnp.where(done.reshape(*done.shape, *[1] * jnp.ndim(first)), first, memory)

    return jax.tree.map(forget, memory, first)


class ActorCritic(Network):
    """An MLP shared by a policy and a value."""

    value_gain: float = 1.0  # of the value's initial weights; 0: every value is 0 at first

    @nn.compact
    def __call__(self, obs: PyTree[Array]) -> tuple[Float32[Array, " actions"], Float32[Array, ""]]:
        layers = [
            dense(width, scale, self.dtype, name=f"Dense_{i}")
            for i, (width, scale) in enumerate(
                [(width, np.sqrt(2)) for width in self.hidden]
                + [(self.num_actions, 0.01), (1, self.value_gain)]
            )
        ]
        *layers, policy, value = layers
        encoder = self.encoder_of(self.observation_space, name="Encoder_0")
        seen = self.read(obs)
        if self.is_initializing():
            features = encoder(seen)
            for layer in layers:
                features = self.activate(layer(features))
            return policy(features).astype(jnp.float32), value(features)[0].astype(jnp.float32)
        weights = self.variables["params"]
        if layers and not self.conv and is_map(self.observation_space, self.embed):
            embedding = weights["Encoder_0"]["Dense_0"]["kernel"]
            space: Any = self.observation_space  # a Box: it is a map
            first = weights["Dense_0"]
            features = self.activate(embedded(space, seen, embedding, first, self.dtype))
            layers = layers[1:]
        else:
            features = encoder(seen)
        for layer in layers:
            features = self.activate(layer(features))
        logits, values = together(features, *(weights[str(head.name)] for head in (policy, value)))
        return logits, values[0]


class Recurrent(Network):
    """The same layers before a GRU (Cho et al., 2014), which policy and value are read from.

    Other networks with a memory, any tree of arrays, replace its parts: `features`, `in_order`,
    `recall`, `heads` and `begin`.
    """

    memory: int = 128  # numbers that are remembered

    def setup(self) -> None:
        """Name the parts: some are applied to many observations at once, one in their order."""
        self.encoder = self.encoder_of(self.observation_space)
        self.layers = [dense(width, np.sqrt(2), self.dtype) for width in self.hidden]
        self.cell = nn.GRUCell(self.memory, dtype=self.dtype)
        self.policy, self.critic = dense(self.num_actions, 0.01), dense(1, 1.0)

    def __call__(self, obs: PyTree[Array], memory: Any = None) -> tuple[Any, ...]:
        seen = self.features(obs)
        memory = self.recall(self.begin() if memory is None else memory, seen)
        return memory, *self.heads(memory, seen)

    def features(self, obs: PyTree[Array]) -> Any:
        """What is seen, whatever came before: an array, or what `recall` and `heads` take."""
        features = self.encoder(self.read(obs))
        for layer in self.layers:
            features = self.activate(layer(features))
        return features

    def recall(self, memory: Array, features: Any) -> Float32[Array, " memory"]:
        """What is remembered after one more observation."""
        with jax.numpy_dtype_promotion("standard"):  # flax mixes memory's float32 with bfloat16
            return self.cell(memory, features)[0].astype(jnp.float32)

    def heads(self, memory: Array, seen: Any, *given: Any) -> tuple[Any, ...]:
        """Logits and value from memory alone, which contains the features `seen` already."""
        return self.policy(memory), self.critic(memory)[0]

    def begin(self) -> Any:
        """What it remembers before the first observation of an episode."""
        return jnp.zeros(self.memory, jnp.float32)

    def think(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array], mask: Mask
    ) -> tuple[Any, ...]:
        """What it remembers after one more observation, logits of the legal actions, its value."""
        answer: Any = self.apply(weights, obs, memory)
        memory, logits, value, *_ = answer
        return memory, legal(logits, mask), value

    def unroll(
        self,
        weights: PyTree[Array],
        memory: PyTree[Array],
        obs: PyTree[Array],
        done: Bool[Array, " steps"],
        *given: PyTree[Array],
    ) -> tuple[Any, ...]:
        """What `heads` say of the successive observations of one environment: logits and values.

        `memory` is from before the first of them; an episode that is `done` is forgotten before
        the next observation. Only `recall` takes them one after another, and what it does not need
        of the features costs nothing in the compiled loop. `given` are further inputs of `heads`,
        by step.
        """
        _, memories, features = self.remembered(weights, memory, obs, done)
        heads: Any = functools.partial(self.apply, weights, method="heads")
        return jax.vmap(heads)(memories, features, *given)

    def remembered(
        self,
        weights: PyTree[Array],
        memory: PyTree[Array],
        obs: PyTree[Array],
        done: Bool[Array, " steps"],
    ) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        """What is remembered before the next observation, after each, and what `heads` also take.

        Arguments are those of `unroll`.
        """
        apply: Any = functools.partial(self.apply, weights)
        seen = jax.vmap(functools.partial(apply, method="features"))(obs)
        features = self.in_order(apply, memory, seen, done)

        def remember(memory: PyTree[Array], now: tuple[Any, Array]) -> tuple[PyTree, PyTree]:
            features, done = now
            memory = apply(memory, features, method="recall")
            return renewed(memory, self.begin(), done), memory

        last, memories = jax.lax.scan(remember, memory, (features, done))
        return last, memories, features

    def in_order(self, apply: Any, memory: PyTree, seen: PyTree, done: Array) -> PyTree[Array]:
        """What `recall` and `heads` take of successive observations: here their features.

        `apply` calls methods with the weights.
        """
        return seen


@dataclasses.dataclass(frozen=True)
class Separate:
    """Two networks of the same kind that share nothing: an actor for logits, a critic for values.

    Each also has the weights of the other's head, which are never trained.
    """

    network: Any

    @property
    def observation_space(self) -> spaces.Space:
        """Of what it reads."""
        return self.network.observation_space

    @property
    def read(self) -> Callable[[Any], Any]:
        """From an observation to `observation_space`."""
        return self.network.read

    def init(self, key: Array, obs: PyTree[Array]) -> PyTree[Array]:
        """Weights of both, by the name of each in every collection."""
        actor, critic = (self.network.init(key, obs) for key in jax.random.split(key))
        return {kind: {"actor": actor[kind], "critic": critic[kind]} for kind in actor}

    def begin(self) -> tuple[Any, Any]:
        """What both remember before the first observation of an episode."""
        return self.network.begin(), self.network.begin()

    def apply(self, weights: PyTree[Array], obs: PyTree[Array]) -> tuple[Array, Array]:
        """Logits and value, of networks that remember nothing."""
        actor, critic = self._parts(weights)
        return self.network.apply(actor, obs)[0], self.network.apply(critic, obs)[1]

    def think(self, weights: PyTree, memory: Any, obs: PyTree, mask: Mask) -> tuple[Any, ...]:
        """What they remember after one more observation, logits of the legal actions, value."""
        (actor, critic), (of_actor, of_critic) = self._parts(weights), memory
        of_actor, logits, _ = self.network.think(actor, of_actor, obs, mask)
        of_critic, _, value = self.network.think(critic, of_critic, obs, mask)
        return (of_actor, of_critic), logits, value

    def unroll(
        self, weights: PyTree, memory: Any, obs: PyTree[Array], done: Array
    ) -> tuple[Array, Array]:
        """Logits and values of the successive observations of one environment."""
        actor, critic = self._parts(weights)
        logits, _ = self.network.unroll(actor, memory[0], obs, done)
        return logits, self.network.unroll(critic, memory[1], obs, done)[1]

    def _parts(self, weights: PyTree[Array]) -> Iterator[PyTree[Array]]:
        return (
            {kind: part[name] for kind, part in weights.items()} for name in ("actor", "critic")
        )


class Encoder(nn.Module):
    """Float features of one observation of any space.

    In a Dict, the mission is one more part, and decides what is looked for in the cells of a map:
    it scales and shifts the features of all cells alike (FiLM; Perez et al., 2018).

    Each layer of `conv` cuts a map into squares, padding the last ones with zeros, and turns each
    square into features: a convolution whose stride equals its kernel size.
    """

    space: spaces.Space
    embed: int
    dtype: Any = jnp.float32  # of the features
    conv: tuple[int, ...] = ()  # side and features of each layer; () to embed cells instead

    @nn.compact
    def __call__(
        self, obs: PyTree[Array], mission: Float[Array, " sentence"] | None = None
    ) -> Float[Array, " features"]:
        if isinstance(self.space, spaces.Dict):
            rest = dict(sorted(self.space.spaces.items()))
            words = rest.get(MISSION)
            if isinstance(words, spaces.Box):
                del rest[MISSION]
                count = int(words.high.max()) + 1
                mission = Sentence(count, self.dtype, name=MISSION)(obs[MISSION])
            parts = [
                Encoder(space, self.embed, self.dtype, self.conv, name=name)(obs[name], mission)
                for name, space in rest.items()
            ]
            return jnp.concatenate(parts if mission is None else [*parts, mission])
        features = expand(self.space, obs, self.dtype)
        if is_map(self.space, self.embed or len(self.conv)):
            for side, width in zip(self.conv[::2], self.conv[1::2], strict=True):
                features = nn.relu(dense(width, np.sqrt(2), self.dtype)(squares(features, side)))
            if not self.conv:  # the same small embedding for every cell
                features = nn.Dense(self.embed, use_bias=False, dtype=self.dtype)(features)
            if mission is not None:
                tuned = nn.Dense(2 * features.shape[-1], dtype=self.dtype)(mission)
                scale, shift = jnp.split(tuned, 2)
                features = nn.relu(features * (1.0 + scale) + shift)
        return features.reshape(-1)


def squares(
    cells: Float[Array, "height width features"], side: int
) -> Float[Array, "rows columns all"]:
    """The features of all cells of each square of a map, which is padded with zeros."""
    height, width, count = cells.shape
    rows, columns = -(-height // side), -(-width // side)
    room = (0, rows * side - height), (0, columns * side - width), (0, 0)
    parts = jnp.pad(cells, room).reshape(rows, side, columns, side, count)
    return parts.swapaxes(1, 2).reshape(rows, columns, side * side * count)


class Sentence(nn.Module):
    """Features of a mission: each word has a vector, which counts by the word's place."""

    words: int  # word ids are below it
    dtype: Any = jnp.float32  # of the features

    @nn.compact
    def __call__(self, ids: UInt8[Array, " words"]) -> Float[Array, " sentence"]:
        vectors = nn.Embed(self.words, WORD, dtype=self.dtype)(ids.astype(jnp.int32))
        vectors = jnp.where(ids[:, None] == 0, 0.0, vectors)
        return nn.tanh(nn.Dense(SENTENCE, dtype=self.dtype)(vectors.reshape(-1)))


def named(name: str) -> type[Network]:
    """The class `module:name`; `ValueError` unless there is one, a subclass of `Network`."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ValueError(
            f"network={name}: {error}; give module:name of a class in a module that Python can "
            f"import, such as one in this folder"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Network)):
        raise ValueError(
            f"network={name} is {found!r}; give a subclass of jaxenvs.baselines.networks.Network"
        )
    return found


def check_answers(network: Network, env: Any, name: str, recurrent: bool) -> None:
    """Raise `ValueError` unless a user's network returns what learners need."""
    key = jax.random.key(0)
    obs = jax.eval_shape(env.observation_space.sample, key)
    memory = jax.eval_shape(network.begin)
    if jax.tree.leaves(memory) and not recurrent:
        raise ValueError(f"network={name} remembers something: give --algo ppo-rnn")
    weights = jax.eval_shape(network.init, key, obs)
    after, logits, value = jax.eval_shape(
        lambda weights, memory, obs: network.think(weights, memory, obs, None), weights, memory, obs
    )
    for what, got, wanted in (
        ("memory", after, memory),
        ("logits", logits, jax.ShapeDtypeStruct((network.num_actions,), jnp.float32)),
        ("value", value, jax.ShapeDtypeStruct((), jnp.float32)),
    ):
        shapes = [
            jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", tree)
            for tree in (got, wanted)
        ]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"network={name}: for one observation its {what} must be {shapes[1]}, not "
                f"{shapes[0]}"
            )


def is_map(space: spaces.Space, embed: int) -> bool:
    """Whether cells of an observation of a space are embedded."""
    return bool(embed) and isinstance(space, spaces.Box) and len(space.shape) == 3


def leaves(space: spaces.Space, obs: Any = None, path: tuple[str, ...] = ()) -> Iterator[Any]:
    """Paths of the parts of a space in a fixed order, with spaces or parts of an observation."""
    if isinstance(space, spaces.Dict):
        for name, part in sorted(space.spaces.items()):
            yield from leaves(part, None if obs is None else obs[name], (*path, name))
    else:
        yield path, space if obs is None else obs


def embedded(
    space: spaces.Box, obs: Array, embedding: Array, layer: Mapping[str, Array], dtype: Any
) -> Float[Array, " width"]:
    """A layer over the embeddings of all cells of a map, both linear.

    On accelerators they are first multiplied with each other: more arithmetic, but neither
    embeddings nor their gradients are stored. Where cells are categories, one of the first cell's
    is always present, so that the bias can be added to these rows of the table.
    """
    cells = expand(space, obs, dtype)
    present = np.zeros((cells.shape[0] * cells.shape[1], cells.shape[2], 1), np.float32)
    first = cell_categories(space)
    present[0, :first] = 1.0

    def in_turn(cells: Array, embedding: Array, kernel: Array, bias: Array) -> Array:
        features = (cells @ embedding.astype(dtype)).reshape(-1)
        return features @ kernel.astype(dtype) + bias.astype(dtype)

    def at_once(cells: Array, embedding: Array, kernel: Array, bias: Array) -> Array:
        by_cell = kernel.reshape(-1, 1, embedding.shape[1], kernel.shape[1])
        table = (embedding[:, :, None] * by_cell).sum(axis=2) + present * bias
        sums = cells.reshape(-1) @ table.astype(dtype).reshape(-1, kernel.shape[1])
        return sums if first else sums + bias.astype(dtype)

    factors = (cells, embedding, layer["kernel"], layer["bias"])
    return by_platform(*factors, cpu=in_turn, default=at_once)


def cell_categories(space: spaces.Box) -> int:
    """Categories of the first channel of a map's cells; 0 where cells hold numbers or bits."""
    low, high = int(space.low.min()), int(space.high.max())
    if not np.issubdtype(space.dtype, np.integer) or high - low >= PIXELS or (low, high) == (0, 1):
        return 0
    return int(space.high[..., 0].max()) - low + 1


def together(features: Array, *layers: Mapping[str, Any]) -> list[Float32[Array, " width"]]:
    """Results of several linear layers over the same features, on accelerators by one product."""

    def in_turn(features: Array, *kernels: Array) -> Array:
        return jnp.concatenate([product(features, kernel) for kernel in kernels])

    def at_once(features: Array, *kernels: Array) -> Array:
        return product(features, jnp.concatenate(kernels, axis=1))

    kernels = [jnp.asarray(layer["kernel"], features.dtype) for layer in layers]
    results = by_platform(features, *kernels, cpu=in_turn, default=at_once)
    biases = [layer["bias"] for layer in layers]
    ends = np.cumsum([len(bias) for bias in biases])[:-1]
    return jnp.split(results + jnp.concatenate(biases), ends)


def product(features: Array, kernel: Array) -> Float32[Array, " width"]:
    """The product of features and a kernel of their type, summed in float32."""
    return jnp.matmul(features, kernel, preferred_element_type=jnp.float32)


def expand(
    space: spaces.Space, obs: Array, dtype: Any = jnp.float32
) -> Float[Array, "*cells features"]:
    """One-hot vectors for categories, channels of a map side by side; numbers for the rest."""
    if not isinstance(space, spaces.Box):
        raise ValueError(f"no encoding for observations of {space}")
    if not np.issubdtype(space.dtype, np.integer):
        return jnp.atleast_1d(obs.astype(dtype))
    low, high = int(space.low.min()), int(space.high.max())
    if high - low >= PIXELS:
        return ((obs.astype(jnp.float32) - low) / (high - low)).astype(dtype)
    if (low, high) == (0, 1):
        return obs.astype(dtype)
    if len(space.shape) < 3:
        return jax.nn.one_hot(obs.astype(jnp.int32) - low, high - low + 1, dtype=dtype)
    tops = space.high.max(axis=(0, 1))  # per channel, so that no column is always zero
    values = [np.arange(low, top + 1).astype(space.dtype) for top in tops]
    channels = [obs[..., c, None] == codes for c, codes in enumerate(values)]
    return jnp.concatenate(channels, axis=-1).astype(dtype)


def dense(
    width: int,
    scale: float,
    dtype: Any = jnp.float32,
    name: str | None = None,
    dot_general: Any = None,
    initial: Callable[[float], nn.initializers.Initializer] = nn.initializers.orthogonal,
) -> nn.Dense:
    """A layer whose initial weights are orthogonal (Saxe et al., 2014), times `scale`.

    `dot_general` multiplies inputs and weights; None for that of JAX. `initial` makes the
    initialiser for a scale, if it is another.
    """
    weights = initial(scale)
    return nn.Dense(width, kernel_init=weights, dtype=dtype, name=name, dot_general=dot_general)


def orthogonal_if_wide(scale: float) -> nn.initializers.Initializer:
    """Orthogonal weights times `scale`, but LeCun's normal ones where outputs outnumber inputs.

    There orthogonal weights have the variance 1 / outputs instead of 1 / inputs: a few observed
    numbers would hardly move what the layer says.
    """

    def drawn(key: Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> Array:
        inputs, outputs = shape
        initial = nn.initializers
        kind = initial.lecun_normal() if inputs < outputs else initial.orthogonal(scale)
        return kind(key, shape, dtype)

    return drawn


def normal(norm: nn.LayerNorm, features: Float[Array, "*batch features"]) -> Array:
    """Features by a norm, which computes in float32, in their own type."""
    return norm(features.astype(jnp.float32)).astype(features.dtype)
