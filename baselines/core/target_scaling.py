"""Value targets standardised by a moving mean and standard deviation.

Standardised targets let a learner learn from rewards of any size, with the same weight of the value
loss in all environments. Mean and variance are computed from exponential moving averages over
updates, bias-corrected as in Adam. Deliberate difference from PopArt (van Hasselt et al., 2016):
the last layer is not adjusted when the scale changes, because the scale changes slowly.
"""

from typing import Any

import jax.numpy as jnp

from . import forced, value_scales
from .learner import Learner


def scale_targets(learner: Learner[Any], runner: Any, batch: Any) -> tuple[Any, Any]:
    """Update the moving mean and deviation with a batch's value targets; standardise the batch.

    Return the runner, and the batch with standardised values and targets. If the setting
    `target_scaling` is off, the runner and the batch are returned unchanged.
    """
    rollout, advantage, target = batch
    before = value_scales.of(runner.weights).targets
    if not len(before):
        return runner, batch
    weight = getattr(rollout.forced, "value", ())  # forced steps do not count
    sums = [forced.weighted(power, weight).mean() for power in (target, jnp.square(target))]
    moments = [jnp.ones(()), *sums]
    moments = learner.devices.mean(jnp.stack(moments))
    share = learner.settings.target_scaling
    after = (1.0 - share) * before + share * moments
    mean, deviation = value_scales.mean_and_deviation(after)
    rollout = rollout._replace(value=(rollout.value - mean) / deviation)
    batch = rollout, advantage, (target - mean) / deviation
    return value_scales.with_scales(runner, targets=after), batch
