"""Batch renormalisation (Ioffe, 2017), for networks of one item that are trained on batches.

In training, features are normalised by the mean and the deviation of the batch, corrected towards
running statistics within limits; the running statistics move a little towards those of the batch.
Everywhere else the running statistics take their place. For the first `WARM_UP` gradient steps,
while the running statistics lag behind, it is plain batch normalisation (Ioffe and Szegedy, 2015),
as in CrossQ (Bhatt et al., 2024). Items without weight do not count, and a batch is that of all
devices together.

Sums over a batch, and in the gradient sums over what all items were given, are matrix products: a
sum over rows that XLA fuses with what it sums takes up to ten times as long on a CPU.
"""

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, PyTree

from ..core.devices import DEVICES, Devices

STATISTICS = "batch_stats"  # collection of a network's weights that training does not descend on
MOMENTUM = 0.99  # share of the running statistics that a gradient step keeps
WARM_UP = 100_000  # gradient steps without corrections
SCALES, SHIFTS = 3.0, 5.0  # limits of the corrections: a factor, and running deviations
SMALLEST = 1e-3  # added to variances
BATCH = "batch"  # name of the axis of items


class Whole(NamedTuple):
    """The batch that an item belongs to, as the item sees it."""

    weight: Float32[Array, " batch"]  # of all items on this device
    total: Float32[Array, ""]  # sum of the weights on all devices
    one: Float32[Array, ""]  # 1, an item's own
    devices: Devices

    def mean(self, features: Float32[Array, " features"]) -> Float32[Array, " features"]:
        """Of what is known of each item."""
        here = product(self.weight, jax.lax.all_gather(features, BATCH))
        return (jax.lax.psum(here, DEVICES) if self.devices.count > 1 else here) / self.total

    def given(self, shared: Float32[Array, " features"]) -> Float32[Array, " features"]:
        """What all items share, for this one."""
        return product(self.one[None], shared[None])


def product(a: Array, b: Array) -> Array:
    """A matrix product in float32, which accelerators by default round to fewer digits."""
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


class BatchRenorm(nn.Module):
    """Normalise the features of one item; `whole` is the batch that it is trained in."""

    dtype: Any = jnp.float32  # of the result
    warm_up: int = WARM_UP

    @nn.compact
    def __call__(
        self, features: Float[Array, " features"], whole: Whole | None = None
    ) -> Float[Array, " features"]:
        width = features.shape[-1:]
        usual = self.variable(STATISTICS, "mean", jnp.zeros, width, jnp.float32)
        spread = self.variable(STATISTICS, "variance", jnp.ones, width, jnp.float32)
        steps = self.variable(STATISTICS, "steps", jnp.zeros, (), jnp.int32)
        scale = self.param("scale", nn.initializers.ones_init(), width)
        bias = self.param("bias", nn.initializers.zeros_init(), width)
        features = features.astype(jnp.float32)
        usually = jnp.sqrt(spread.value + SMALLEST)
        if whole is None:
            normal = (features - usual.value) / usually
            return (normal * scale + bias).astype(self.dtype)
        here = whole.mean(features)
        apart = features - whole.given(here)
        variance = whole.mean(jnp.square(apart))
        deviation = jnp.sqrt(variance + SMALLEST)
        is_warm = steps.value >= self.warm_up
        factor = jnp.clip(deviation / usually, 1.0 / SCALES, SCALES)
        shift = jnp.clip((here - usual.value) / usually, -SHIFTS, SHIFTS)
        factor = jax.lax.stop_gradient(jnp.where(is_warm, factor, 1.0))
        shift = jax.lax.stop_gradient(jnp.where(is_warm, shift, 0.0))
        usual.value = MOMENTUM * usual.value + (1.0 - MOMENTUM) * here
        spread.value = MOMENTUM * spread.value + (1.0 - MOMENTUM) * variance
        steps.value += 1
        factor, shift = factor * scale / deviation, shift * scale + bias
        return (apart * whole.given(factor) + whole.given(shift)).astype(self.dtype)


def trained(
    network: nn.Module,
    devices: Devices,
    weights: PyTree[Array],
    weight: Float32[Array, " batch"],
    *inputs: PyTree[Array],
    rngs: dict[str, Array] | None = None,
) -> tuple[Any, PyTree[Array]]:
    """Answers of a network in training for a batch, and its weights' statistics after it.

    `weight` is 0 for items that do not count; `rngs` are keys that all items split.
    """
    total = weight.sum()
    total = jnp.maximum(jax.lax.psum(total, DEVICES) if devices.count > 1 else total, 1.0)

    def one(one: Array, rngs: dict[str, Array], *inputs: PyTree[Array]) -> tuple[Any, Any]:
        whole = Whole(weight, total, one, devices)
        return network.apply(weights, *inputs, whole, rngs=rngs, mutable=[STATISTICS])

    keys = {name: jax.random.split(key, len(weight)) for name, key in (rngs or {}).items()}
    over_batch = jax.vmap(one, out_axes=(0, None), axis_name=BATCH)
    # Made of `weight`: where several networks have one each under `vmap`, they have ones each.
    ones = (weight >= 0.0).astype(weight.dtype)
    answers, after = over_batch(ones, keys, *inputs)
    return answers, jax.lax.stop_gradient(after)
