"""Value targets standardised by a moving mean and standard deviation.

Rewards then need not be near 1, and the weight of the value loss means the same everywhere. The
moments are exponential moving averages over updates, bias-corrected as in Adam. Deliberate
difference to PopArt (van Hasselt et al., 2016): the last layer is not adjusted when the scale
changes, which is slow.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float32

from .algorithms import Learner

TINY = 1e-4  # least deviation


def begin(learner: Learner[Any]) -> dict[str, Any]:
    """Fields of a runner that scaled targets need; none if the settings ask for none."""
    if not getattr(learner.settings, "target_scaling", 0.0):
        return {}
    return {"scale": jnp.zeros(3, jnp.float32)}  # weight, sum, sum of squares


def mean_and_deviation(scale: Float32[Array, "3"]) -> tuple[Array, Array]:
    """Of the targets so far; 0 and 1 before there are any."""
    weight, total, squares = scale
    mean, square = jnp.where(weight > 0, jnp.stack([total, squares]) / weight, jnp.float32([0, 1]))
    return mean, jnp.sqrt(jnp.maximum(square - jnp.square(mean), TINY**2))


def unscaled(runner: Any, value: Array) -> Array:
    """Predicted values in units of the reward."""
    if not len(runner.scale):
        return value
    mean, deviation = mean_and_deviation(runner.scale)
    return mean + deviation * value


def scaled(learner: Learner[Any], runner: Any, batch: Any) -> tuple[Any, Any]:
    """Take a batch's targets into the scale; return the batch with values and targets in it."""
    rollout, advantage, target = batch
    if not len(runner.scale):
        return runner, batch
    moments = [jnp.ones(()), target.mean(), jnp.square(target).mean()]
    moments = learner.devices.mean(jnp.stack(moments))
    share = learner.settings.target_scaling
    scale = (1.0 - share) * runner.scale + share * moments
    mean, deviation = mean_and_deviation(scale)
    rollout = rollout._replace(value=(rollout.value - mean) / deviation)
    return runner._replace(scale=scale), (rollout, advantage, (target - mean) / deviation)
