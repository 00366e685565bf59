"""GTrXL: a transformer over the steps of an episode, with gates (Parisotto et al., 2020).

In each layer, a step attends to itself and to the `memory` steps before it, with the relative
position encodings of Transformer-XL (Dai et al., 2019). A layer has two sublayers: attention, and
two dense layers. Each sublayer reads normalised features. Its output passes a ReLU, and then a
GRU-type gate, which is initialised near the identity.

The recurrent state stores the inputs of each layer at the latest steps. Gradients do not flow into
the recurrent state, which is cleared at the end of an episode. `unroll` computes all steps of a
sequence at once, with the same results as one call of the network per step.
"""

import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int32, PyTree

from .layers import dense
from .policies import Recurrent
from .spatial import Sight

NEVER = -1e30  # attention score of a masked step, so that softmax gives it the weight 0
LONGEST = 10_000.0  # ratio of the longest to the shortest wavelength of the position encodings
KEEP = 2.0  # initial bias of each gate towards its first input, the residual stream
# Width of the first dense layer in a transformer layer, divided by the width of the second.
EXPANSION = 2


class GTrXL(Recurrent):
    """Actor-critic with an MLP for each observation and a transformer over the steps."""

    memory: int = 64  # number of earlier steps that each layer attends to
    width: int = 64  # number of features of a step in the transformer
    num_heads: int = 4  # number of attention heads
    depth: int = 2  # number of transformer layers

    def setup(self) -> None:
        """Create all layers. Flax needs this because several methods apply layers."""
        self.encoder = self.encoder_of(self.observation_space)
        self.layers = [dense(width, np.sqrt(2), self.dtype) for width in self.hidden]
        self.name_transformer()

    def name_transformer(self) -> None:
        """Create the layers of the transformer and the heads. `setup` calls this method."""
        self.enter = dense(self.width, 1.0, self.dtype)
        self.stack = [Layer(self.width, self.num_heads, self.dtype) for _ in range(self.depth)]
        self.policy, self.critic = dense(self.num_actions, 0.01), dense(1, 1.0)

    def __call__(
        self, obs: PyTree[Array], memory: dict[str, Array] | None = None
    ) -> tuple[Any, ...]:
        memory = self.begin() if memory is None else memory
        alone = jnp.zeros(1, jnp.bool_)
        found, inputs = self.attend(memory, self.features(obs)[None], alone)
        kept = jnp.concatenate([memory["inputs"], inputs.astype(jnp.float32)], axis=1)[:, 1:]
        length = jnp.minimum(memory["length"] + jnp.int32(1), jnp.int32(self.memory))
        return {"inputs": kept, "length": length}, *self.heads(found[0], ())

    def features(self, obs: PyTree[Array]) -> Float[Array, " width"]:
        """Return features of one observation, the input of the first transformer layer."""
        return self.enter(super().features(obs))

    def attend(
        self,
        memory: dict[str, Array],
        features: Float[Array, "steps width"],
        done: Bool[Array, " steps"],
    ) -> tuple[Float[Array, "steps width"], Float[Array, "depth steps width"]]:
        """Return the output of the last layer at successive steps, and the inputs of every layer.

        `memory` is the recurrent state before the first step. `done` is True for the last step of
        an episode. Steps of the next episode do not attend to steps of earlier episodes or to
        `memory`.
        """
        memory = jax.lax.stop_gradient(memory)
        seen, inputs = visible(memory["length"], done, self.memory), []
        for layer, cached in zip(self.stack, memory["inputs"], strict=True):
            inputs.append(features)
            features = layer(cached.astype(self.dtype), features, seen)
        return features, jnp.stack(inputs)

    def begin(self) -> dict[str, Array]:
        """Return the recurrent state at the start of an episode.

        `inputs` will hold each layer's inputs at the latest steps. `length` is the number of these
        steps that belong to the current episode.
        """
        shape = (self.depth, self.memory, self.width)
        return {"inputs": jnp.zeros(shape, jnp.float32), "length": jnp.int32(0)}

    def unroll(
        self,
        weights: PyTree[Array],
        memory: dict[str, Array],
        obs: PyTree[Array],
        done: Bool[Array, " steps"],
        *given: PyTree[Array],
    ) -> tuple[Float32[Array, "steps actions"], Float32[Array, " steps"]]:
        """Return logits and values for successive observations, as `Recurrent.unroll` does.

        All steps are computed at once, without a scan.
        """
        apply: Any = functools.partial(self.apply, weights)
        features = jax.vmap(functools.partial(apply, method="features"))(obs)
        found, _ = apply(memory, features, done, method="attend")
        return jax.vmap(functools.partial(apply, method="heads"))(found, ())


class SpatialGTrXL(GTrXL, Sight):
    """GTrXL whose observations are encoded by a convolution over the cells of a map."""

    def setup(self) -> None:
        """Create all layers of the network."""
        self.name_layers()
        self.name_transformer()

    def features(self, obs: PyTree[Array]) -> Float[Array, " width"]:
        """Return features of one observation, the input of the first transformer layer."""
        return self.enter(self.look(obs))


class Layer(nn.Module):
    """Transformer layer: attention and a gate, then two dense layers and another gate.

    There are three inputs: stored features of earlier steps (`cached`), features of the new steps
    (`features`), and the mask `seen`, True where a new step (row) attends to a step (column).
    """

    width: int
    num_heads: int
    dtype: Any

    @nn.compact
    def __call__(
        self,
        cached: Float[Array, "memory width"],
        features: Float[Array, "steps width"],
        seen: Bool[Array, "steps memory+steps"],
    ) -> Float[Array, "steps width"]:
        known = self.normal("norm_attention", jnp.concatenate([cached, features]))
        attention = Attention(self.width, self.num_heads, self.dtype, name="attention")
        features = self.gate("gate_attention")(features, nn.relu(attention(known, seen)))
        inner = self.normal("norm_dense", features)
        inner = nn.relu(self.dense("dense_in", EXPANSION * self.width)(inner))
        return self.gate("gate_dense")(features, nn.relu(self.dense("dense_out")(inner)))

    def normal(self, name: str, features: Array) -> Array:
        """Apply a LayerNorm in float32, whatever the dtype of the activations."""
        return nn.LayerNorm(name=name)(features.astype(jnp.float32)).astype(self.dtype)

    def dense(self, name: str, width: int | None = None) -> nn.Dense:
        """Return a dense layer; by default, it is as wide as the transformer."""
        return nn.Dense(width or self.width, dtype=self.dtype, name=name)

    def gate(self, name: str) -> "Gate":
        """Return a gate of the transformer's width."""
        return Gate(self.width, self.dtype, name=name)


class Attention(nn.Module):
    """Multi-head attention whose scores are the sum of content and relative-position scores.

    There are two inputs: `known`, the features of the earlier steps and then of the new steps; and
    the mask `seen`, True where a new step (row) attends to a step (column).
    """

    width: int
    num_heads: int
    dtype: Any

    @nn.compact
    def __call__(
        self,
        known: Float[Array, "known width"],
        seen: Bool[Array, "steps known"],
    ) -> Float[Array, "steps width"]:
        steps, size = len(seen), self.width // self.num_heads
        reach = len(known) - steps

        def by_head(name: str, inputs: Array) -> Array:
            layer = nn.Dense(self.width, use_bias=False, dtype=self.dtype, name=name)
            return layer(inputs).reshape(-1, self.num_heads, size)

        def bias(name: str) -> Array:
            shape = (self.num_heads, size)
            return self.param(name, nn.initializers.zeros_init(), shape).astype(self.dtype)

        query = by_head("query", known[reach:])
        key, value = by_head("key", known), by_head("value", known)
        places = by_head("place", jnp.asarray(positions(reach, self.width), self.dtype))
        what = jnp.einsum("thd,khd->htk", query + bias("what"), key)
        where = jnp.einsum("thd,chd->htc", query + bias("where"), places)
        scores = (what + jax.vmap(shifted)(where)).astype(jnp.float32) / np.float32(np.sqrt(size))
        shares = nn.softmax(jnp.where(seen, scores, NEVER)).astype(self.dtype)
        found = jnp.einsum("htk,khd->thd", shares, value).reshape(steps, self.width)
        return nn.Dense(self.width, dtype=self.dtype, name="out")(found)


class Gate(nn.Module):
    """GRU-type gate that replaces a residual connection.

    The gate combines the residual stream `had` with a layer's output `new`. At initialisation, the
    result is nearly `had`.
    """

    width: int
    dtype: Any

    @nn.compact
    def __call__(
        self, had: Float[Array, "*steps width"], new: Float[Array, "*steps width"]
    ) -> Float[Array, "*steps width"]:
        def dense(name: str, width: int) -> nn.Dense:
            return nn.Dense(width, use_bias=False, dtype=self.dtype, name=name)

        keep = self.param("keep", nn.initializers.constant(KEEP), (self.width,))
        reset, update, candidate = jnp.split(dense("new", 3 * self.width)(new), 3, axis=-1)
        reset_had, update_had = jnp.split(dense("had", 2 * self.width)(had), 2, axis=-1)
        reset = nn.sigmoid(reset + reset_had)
        update = nn.sigmoid(update + update_had - keep.astype(self.dtype))
        candidate = nn.tanh(candidate + dense("candidate", self.width)(reset * had))
        return (1 - update) * had + update * candidate


def visible(
    length: Int32[Array, ""], done: Bool[Array, " steps"], reach: int
) -> Bool[Array, "steps {reach}+steps"]:
    """Return the attention mask, which is True where a new step (row) attends to a step (column).

    The first `reach` columns are stored steps, of which only the last `length` belong to the
    current episode. The remaining columns are the new steps. A new step attends to itself and to
    the `reach` steps before it, if they belong to its episode.
    """
    ends = jnp.cumsum(done, dtype=jnp.int32)
    episode = jnp.concatenate([jnp.zeros(1, jnp.int32), ends[:-1]])
    is_kept = jnp.arange(reach, dtype=jnp.int32) >= reach - length
    episodes = jnp.concatenate([jnp.where(is_kept, 0, -1).astype(jnp.int32), episode])
    column, row = np.arange(reach + len(done)), np.arange(len(done))[:, None]
    is_near = (row <= column) & (column <= row + reach)
    return (episode[:, None] == episodes) & is_near


def shifted(
    scores: Float[Array, "steps distances"],
) -> Float[Array, "steps distances+steps-1"]:
    """Convert scores indexed by (step, distance) to scores indexed by (step, attended step).

    Distances are in descending order, so row t must move t columns to the right. Padding and one
    reshape do this for all rows at once (Dai et al., 2019).
    """
    steps, distances = scores.shape
    padded = jnp.pad(scores, ((0, 0), (0, steps))).reshape(-1)
    columns = distances + steps - 1
    return padded[: steps * columns].reshape(steps, columns)


def positions(reach: int, width: int) -> Float32[np.ndarray, "{reach}+1 {width}"]:
    """Return sinusoidal encodings of the distances from `reach` down to 0."""
    waves = LONGEST ** -np.linspace(0.0, 1.0, width // 2, endpoint=False)
    angles = np.arange(reach, -1, -1)[:, None] * waves
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
