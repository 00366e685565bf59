"""Batch renormalisation (Ioffe, 2017) for networks that are written for one item.

In training, features are normalised by the mean and standard deviation of their batch. At
inference, they are normalised by running statistics, slow moving averages of the batch statistics.
Clipped corrections bring the training result closer to normalisation by the running statistics.

There are no corrections during the first `WARM_UP` gradient steps, while the running statistics lag
behind. This phase is plain batch normalisation (Ioffe and Szegedy, 2015), as in CrossQ (Bhatt et
al., 2024). The statistics of a batch leave out items with weight 0 and cover all devices.

Sums over a batch, including the sums in the gradient, are computed as matrix products. On a CPU, a
reduction over the batch takes up to ten times as long, because XLA fuses it with the computation of
its operand.
"""

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, PyTree

from ..core.devices import DEVICES, Devices

STATISTICS = "batch_stats"  # Flax collection of the running statistics, which get no gradient
MOMENTUM = 0.99  # factor by which running statistics decay in each gradient step
WARM_UP = 100_000  # number of gradient steps before corrections begin
# Limits of the corrections of Ioffe (2017). The factor r is clipped to [1 / 3, 3]. The shift d, in
# units of the running standard deviation, is clipped to [-5, 5].
SCALES, SHIFTS = 3.0, 5.0
SMALLEST = 1e-3  # added to variances before the square root
BATCH = "batch"  # name of the `vmap` axis over the items of a batch


class Whole(NamedTuple):
    """Access to the whole training batch, for a network that is written for one item.

    `vmap` maps the network over the batch. The network calls `mean` with the features of its item,
    and gets the mean over all items.
    """

    weight: Float32[Array, " batch"]  # weights of all items of the batch that are on this device
    total: Float32[Array, ""]  # sum of the weights of all items on all devices
    one: Float32[Array, ""]  # the number 1; an input that `vmap` maps over items, see `given`
    devices: Devices

    def mean(self, features: Float32[Array, " features"]) -> Float32[Array, " features"]:
        """Return the weighted mean over the batch, given the `features` of one item."""
        here = product(self.weight, jax.lax.all_gather(features, BATCH))
        return (jax.lax.psum(here, DEVICES) if self.devices.count > 1 else here) / self.total

    def given(self, shared: Float32[Array, " features"]) -> Float32[Array, " features"]:
        """Return `shared`, an array that is equal for all items, as a matrix product with `one`.

        The gradient with respect to `shared` is a sum over the batch. Because of the product, JAX
        computes this sum as a matrix product too, which is faster on a CPU than a reduction.
        """
        return product(self.one[None], shared[None])


def product(a: Array, b: Array) -> Array:
    """Return a matrix product in full float32 precision, also on accelerators.

    By default, accelerators round the factors of a product to fewer bits.
    """
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


class BatchRenorm(nn.Module):
    """Layer that normalises the features of one item.

    The second input `whole` gives the layer access to the training batch; at inference, it is None.
    """

    dtype: Any = jnp.float32  # dtype of the output
    warm_up: int = WARM_UP

    @nn.compact
    def __call__(
        self, features: Float[Array, " features"], whole: Whole | None = None
    ) -> Float[Array, " features"]:
        width = features.shape[-1:]
        running_mean = self.variable(STATISTICS, "mean", jnp.zeros, width, jnp.float32)
        running_variance = self.variable(STATISTICS, "variance", jnp.ones, width, jnp.float32)
        steps = self.variable(STATISTICS, "steps", jnp.zeros, (), jnp.int32)
        scale = self.param("scale", nn.initializers.ones_init(), width)
        bias = self.param("bias", nn.initializers.zeros_init(), width)
        features = features.astype(jnp.float32)
        running_std = jnp.sqrt(running_variance.value + SMALLEST)
        if whole is None:
            normal = (features - running_mean.value) / running_std
            return (normal * scale + bias).astype(self.dtype)
        mean = whole.mean(features)
        centred = features - whole.given(mean)
        variance = whole.mean(jnp.square(centred))
        std = jnp.sqrt(variance + SMALLEST)
        is_warm = steps.value >= self.warm_up
        factor = jnp.clip(std / running_std, 1.0 / SCALES, SCALES)
        shift = jnp.clip((mean - running_mean.value) / running_std, -SHIFTS, SHIFTS)
        factor = jax.lax.stop_gradient(jnp.where(is_warm, factor, 1.0))
        shift = jax.lax.stop_gradient(jnp.where(is_warm, shift, 0.0))
        running_mean.value = MOMENTUM * running_mean.value + (1.0 - MOMENTUM) * mean
        running_variance.value = MOMENTUM * running_variance.value + (1.0 - MOMENTUM) * variance
        steps.value += 1
        factor, shift = factor * scale / std, shift * scale + bias
        return (centred * whole.given(factor) + whole.given(shift)).astype(self.dtype)


def trained(
    network: Any,  # flax.linen.Module
    devices: Devices,
    weights: PyTree[Array],
    weight: Float32[Array, " batch"],
    *inputs: PyTree[Array],
    rngs: dict[str, Array] | None = None,
) -> tuple[Any, PyTree[Array]]:
    """Apply a network to a training batch; return its outputs and updated running statistics.

    Items with a `weight` of 0 do not count in the statistics. Every item gets separate keys, split
    from `rngs`.
    """
    total = weight.sum()
    total = jnp.maximum(jax.lax.psum(total, DEVICES) if devices.count > 1 else total, 1.0)

    def one(one: Array, rngs: dict[str, Array], *inputs: PyTree[Array]) -> tuple[Any, Any]:
        whole = Whole(weight, total, one, devices)
        return network.apply(weights, *inputs, whole, rngs=rngs, mutable=[STATISTICS])

    keys = {name: jax.random.split(key, len(weight)) for name, key in (rngs or {}).items()}
    over_batch = jax.vmap(one, out_axes=(0, None), axis_name=BATCH)
    # Computed from `weight`: if an outer `vmap` maps `weight` over an ensemble, each network also
    # gets a separate array of ones, which is faster (see `joint_values` in crossq.py). All networks
    # would share the result of `jnp.ones`.
    ones = (weight >= 0.0).astype(weight.dtype)
    answers, after = over_batch(ones, keys, *inputs)
    return answers, jax.lax.stop_gradient(after)
