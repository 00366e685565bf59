"""Product of a layer's inputs and weights with a gradient that is fast on CPUs.

The gradient with respect to the weights is a product with the transposed inputs. On CPUs, this
product is faster if the inputs are first copied in transposed order, which XLA does not do by
itself. For a batch of 64 with 64 inputs and 64 outputs, the copy reduces the product's time from
7.8 to 6.8 microseconds; with 2 outputs, from 5.5 to 1.8. The copy changes the result only by
rounding.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

from jaxenvs.core.platforms import by_platform

from . import layers


def dense(width: int, scale: float, dtype: Any = jnp.float32, **more: Any) -> nn.Dense:
    """Return a layer like `layers.dense`, whose weight gradient is fast on CPUs."""
    return layers.dense(width, scale, dtype, dot_general=dot_general, **more)


def dot_general(inputs: Array, weights: Array, dimensions: Any, *given: Any, **more: Any) -> Array:
    """Multiply inputs and weights; replaces `jax.lax.dot_general` in a `flax.linen.Dense`.

    The gradient is fast if the layer is applied to one item under a `vmap` over the batch. Inputs
    with an explicit batch axis are multiplied by `jax.lax.dot_general` instead.
    """
    if inputs.ndim > 1:
        return jax.lax.dot_general(inputs, weights, dimensions, *given, **more)
    return of_item(inputs, weights)


@custom_vmap
def of_item(inputs: Float[Array, " inputs"], weights: Float[Array, "inputs outputs"]) -> Array:
    """Return `inputs @ weights` for one item; `vmap` over items calls `of_batch` instead."""
    return inputs @ weights


@of_item.def_vmap
def _of_items(
    size: Any,  # batch size: int, or a symbolic dimension when a policy is exported
    batched: list[bool],
    inputs: Array,
    weights: Array,
) -> tuple[Array, bool]:
    if batched == [True, False]:
        return of_batch(inputs, weights), True
    axes = tuple(0 if each else None for each in batched)
    return jax.vmap(jnp.matmul, in_axes=axes)(inputs, weights), True


@jax.custom_vjp
def of_batch(
    inputs: Float[Array, "batch inputs"], weights: Float[Array, "inputs outputs"]
) -> Float[Array, "batch outputs"]:
    """Return `inputs @ weights` for a batch; `_backward` computes the gradient."""
    return inputs @ weights


def _forward(inputs: Array, weights: Array) -> tuple[Array, tuple[Array, Array]]:
    return inputs @ weights, (inputs, weights)


def _backward(known: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    def copied(inputs: Array, gradient: Array) -> Array:
        return jax.lax.optimization_barrier(inputs.T) @ gradient

    def plain(inputs: Array, gradient: Array) -> Array:
        return inputs.T @ gradient

    inputs, weights = known
    of_weights = by_platform(inputs, gradient, cpu=copied, default=plain)
    return gradient @ weights.T, of_weights


of_batch.defvjp(_forward, _backward)
