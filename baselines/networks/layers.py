"""Layers, initial weights and matrix products that several networks use."""

from collections.abc import Callable, Mapping
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32

from jaxenvs.core.platforms import by_platform


def dense(
    width: int,
    scale: float,
    dtype: Any = jnp.float32,
    name: str | None = None,
    dot_general: Any = None,
    initial: Callable[[float], nn.initializers.Initializer] = nn.initializers.orthogonal,
) -> nn.Dense:
    """Return a dense layer; by default, its initial weights are orthogonal (Saxe et al., 2014).

    `initial(scale)` returns the initialiser; the default one multiplies orthogonal weights by
    `scale`. If not None, `dot_general` replaces the function with which Flax multiplies inputs and
    weights.
    """
    weights = initial(scale)
    return nn.Dense(width, kernel_init=weights, dtype=dtype, name=name, dot_general=dot_general)


def orthogonal_if_wide(scale: float) -> nn.initializers.Initializer:
    """Return an initialiser: orthogonal, or LeCun normal if a layer has more outputs than inputs.

    Orthogonal weights are multiplied by `scale`. In a layer with more outputs than inputs, they
    would have the variance 1 / outputs instead of 1 / inputs, and the few inputs would hardly
    change the outputs.
    """

    def drawn(key: Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> Array:
        inputs, outputs = shape
        initial = nn.initializers
        kind = initial.lecun_normal() if inputs < outputs else initial.orthogonal(scale)
        return kind(key, shape, dtype)

    return drawn


def normalise(norm: nn.LayerNorm, features: Float[Array, "*batch features"]) -> Array:
    """Apply a LayerNorm in float32 and return the features in their original dtype."""
    return norm(features.astype(jnp.float32)).astype(features.dtype)


def joint_linear(features: Array, *layers: Mapping[str, Any]) -> list[Float32[Array, " width"]]:
    """Apply several linear layers to the same features; return the output of each layer.

    On accelerators, a single product with the concatenated kernels replaces one product per layer.
    """

    def in_turn(features: Array, *kernels: Array) -> Array:
        return jnp.concatenate([product(features, kernel) for kernel in kernels])

    def at_once(features: Array, *kernels: Array) -> Array:
        return product(features, jnp.concatenate(kernels, axis=1))

    kernels = [jnp.asarray(layer["kernel"], features.dtype) for layer in layers]
    results = by_platform(features, *kernels, cpu=in_turn, default=at_once)
    biases = [layer["bias"] for layer in layers]
    ends = np.cumsum([len(bias) for bias in biases])[:-1]
    # For a GPU, XLA of jax 0.10.2 fails to compile the sum of `results` and the concatenated biases
    # in some programs, such as PPO's for the 15-puzzle.
    return [part + bias for part, bias in zip(jnp.split(results, ends), biases, strict=True)]


def product(features: Array, kernel: Array) -> Float32[Array, " width"]:
    """Return features @ kernel in float32, even if both are bfloat16; sums are float32 too."""
    return jnp.matmul(features, kernel, preferred_element_type=jnp.float32)
