"""Recurrent networks with MinGRU layers (Feng et al., 2024) instead of a GRU.

The gates of a MinGRU do not read the recurrent state, so a window of steps is a linear recurrence
h_t = a_t h_{t-1} + b_t. It is computed by `jax.lax.associative_scan`, whose depth is the logarithm
of the window's length. A GRU needs one iteration of a loop for each step.

A layer with the input x computes c, z and p = split(W x), and then:

    candidate   n = c + 0.5 if c >= 0 else sigmoid(c)
    state       h = (1 - sigmoid(z)) h + sigmoid(z) n
    output      y = sigmoid(p) h + (1 - sigmoid(p)) x

The output has a highway connection (Srivastava et al., 2015) from the input. W has no bias. The
recurrent state is float32, also if activations are bfloat16. A linear layer without bias maps the
features to the input of the first layer.
"""

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, PyTree

from ..core.recurrence import reset_memory
from .layers import dense
from .policies import Recurrent
from .q_network import RecurrentQ
from .spatial import Seen, Spatial, SpatialQ


class Recalled(NamedTuple):
    """Recurrent state of a stack of MinGRU layers, and the stack's latest output."""

    state: Float32[Array, "*steps layers size"]  # h of each layer
    output: Float32[Array, "*steps size"]  # y of the last layer, which the heads read


class Stack(nn.Module):
    """A stack of `depth` MinGRU layers of width `size`."""

    depth: int
    size: int
    dtype: Any = jnp.float32  # dtype of the matrix products

    def setup(self) -> None:
        """Create the layers. Flax needs this because several methods apply layers."""
        self.entry = nn.Dense(
            self.size, use_bias=False, kernel_init=_orthogonal(np.sqrt(2)), dtype=self.dtype
        )
        self.gates = [
            nn.Dense(3 * self.size, use_bias=False, kernel_init=_orthogonal(1.0), dtype=self.dtype)
            for _ in range(self.depth)
        ]

    def enter(self, features: Float[Array, "*steps features"]) -> Float[Array, "*steps size"]:
        """Return the input of the first layer."""
        return self.entry(features)

    def __call__(self, memory: Recalled, entered: Float[Array, " size"]) -> Recalled:
        """Return the recurrent state after one more step; `entered` is the result of `enter`."""
        states, x = [], entered.astype(jnp.float32)
        for layer, before in zip(self.gates, memory.state, strict=True):
            keep, new, pass_on = _gates(layer(x))
            states.append(keep * before + new)
            x = pass_on * states[-1] + (1.0 - pass_on) * x
        return Recalled(jnp.stack(states), x)

    def window(
        self,
        memory: Recalled,
        entered: Float[Array, "steps size"],
        done: Bool[Array, " steps"],
    ) -> Recalled:
        """Return the recurrent states after each step of a window.

        `memory` is the recurrent state before the window. It is reset after each step that is
        `done`: the returned state of this step is the one before the reset.
        """
        begins = jnp.pad(done[:-1], (1, 0))[:, None]  # whether an episode begins at the step
        states, x = [], entered.astype(jnp.float32)
        for layer, before in zip(self.gates, memory.state, strict=True):
            keep, new, pass_on = _gates(layer(x))
            keep = jnp.where(begins, 0.0, keep)
            new = new.at[0].add(keep[0] * before)
            states.append(jax.lax.associative_scan(_joined, (keep, new))[1])
            x = pass_on * states[-1] + (1.0 - pass_on) * x
        return Recalled(jnp.stack(states, axis=1), x)


class Stacked(Recurrent):
    """Base class of the networks with a `Stack`: how they act, and how they read a window."""

    depth: int = 1  # number of MinGRU layers

    def entered(self, features: Any) -> Float[Array, "*steps size"]:
        """Return the part of the features that the stack reads."""
        return features

    def begin(self) -> Recalled:
        """Return the recurrent state at the start of an episode, which is zero."""
        zeros = jnp.zeros((self.depth, self.memory), jnp.float32)
        return Recalled(zeros, zeros[0])

    def recall(self, memory: Recalled, features: Any) -> Recalled:
        """Return the recurrent state after one more observation."""
        return self.stack(memory, self.entered(features))

    def window(self, memory: Recalled, features: Any, done: Bool[Array, " steps"]) -> Recalled:
        """Return the recurrent states after each observation of a window, see `Stack.window`."""
        return self.stack.window(memory, self.entered(features), done)

    def recall_window(
        self, apply: Any, memory: Recalled, features: Any, done: Bool[Array, " steps"]
    ) -> tuple[PyTree[Array], PyTree[Array]]:
        """Return the recurrent state after a window, and the states after each of its steps."""
        memories = apply(memory, features, done, method="window")
        last = jax.tree.map(lambda leaf: leaf[-1], memories)
        return reset_memory(last, self.begin(), done[-1]), memories


class MinGRU(Stacked):
    """Recurrent actor-critic: an MLP, MinGRU layers, and policy and value heads."""

    def setup(self) -> None:
        """Create all layers. Flax needs this because several methods apply layers."""
        self.encoder = self.encoder_of(self.observation_space)
        self.layers = [dense(width, np.sqrt(2), self.dtype) for width in self.hidden]
        self.stack = Stack(self.depth, self.memory, self.dtype)
        self.policy, self.critic = dense(self.num_actions, 0.01), dense(1, 1.0)

    def features(self, obs: PyTree[Array]) -> Float[Array, " size"]:
        """Return the input of the first MinGRU layer."""
        return self.stack.enter(super().features(obs))

    def heads(self, memory: Recalled, seen: Any, *given: Any) -> tuple[Any, ...]:
        """Return logits and value, from the output of the last MinGRU layer."""
        return super().heads(memory.output, seen, *given)


class MinGRUQ(MinGRU, RecurrentQ):
    """Recurrent Q-network: dense layers with LayerNorm, MinGRU layers, and a head of values."""

    def setup(self) -> None:
        """Create all layers. The GRU of `RecurrentQ` has no weights, because nothing applies it."""
        RecurrentQ.setup(self)
        self.stack = Stack(self.depth, self.memory, self.dtype)


class SpatialMinGRU(Stacked, Spatial):
    """`Spatial` with MinGRU layers: its heads read the features and the last layer's output."""

    def name_memory(self) -> None:
        """Create the layers before the heads, including the MinGRU. `setup` calls this method."""
        self.name_layers()
        self.stack = Stack(self.depth, self.memory, self.dtype)
        self.recalled = nn.LayerNorm()

    def features(self, obs: PyTree[Array]) -> Seen:
        """Return features of one observation, and the input of the first MinGRU layer."""
        features = self.look(obs)
        return Seen(features, self.stack.enter(features))

    def entered(self, features: Seen) -> Float[Array, "*steps size"]:
        """Return the input of the first MinGRU layer."""
        return features.gates

    def known(self, memory: Recalled, seen: Seen) -> Float[Array, " features"]:
        """Return the input of the heads: current features, and the normalised output."""
        return super().known(memory.output, seen)


class SpatialMinGRUQ(SpatialMinGRU, SpatialQ):
    """`SpatialQ` with MinGRU layers instead of the GRU."""

    activation: str = "relu"


def _gates(product: Array) -> tuple[Array, Array, Array]:
    """Return 1 - z, z c and sigmoid(p) for a layer's product W x, in float32."""
    c, z, p = jnp.split(product.astype(jnp.float32), 3, axis=-1)
    update = nn.sigmoid(z)
    candidate = jnp.where(c >= 0.0, c + 0.5, nn.sigmoid(c))
    return 1.0 - update, update * candidate, nn.sigmoid(p)


def _joined(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    """Compose two steps (a, b) of the recurrence h -> a h + b."""
    return first[0] * second[0], second[0] * first[1] + second[1]


def _orthogonal(scale: float) -> nn.initializers.Initializer:
    return nn.initializers.orthogonal(scale)
