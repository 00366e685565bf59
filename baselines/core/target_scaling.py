"""Value targets standardised by a moving mean and standard deviation.

With standardised targets, rewards need not be near 1, and one weight of the value loss suits all
environments. Mean and variance are exponential moving averages over updates, bias-corrected as in
Adam. Deliberate difference from PopArt (van Hasselt et al., 2016): the last layer is not adjusted
when the scale changes, because the scale changes slowly.
"""

from typing import Any

import jax.numpy as jnp

from . import value_scales
from .learner import Learner


def scale_targets(learner: Learner[Any], runner: Any, batch: Any) -> tuple[Any, Any]:
    """Update the scale with a batch's targets.

    Return the runner, and the batch with scaled values and targets.
    """
    rollout, advantage, target = batch
    before = value_scales.of(runner.weights).targets
    if not len(before):
        return runner, batch
    moments = [jnp.ones(()), target.mean(), jnp.square(target).mean()]
    moments = learner.devices.mean(jnp.stack(moments))
    share = learner.settings.target_scaling
    after = (1.0 - share) * before + share * moments
    mean, deviation = value_scales.mean_and_deviation(after)
    rollout = rollout._replace(value=(rollout.value - mean) / deviation)
    batch = rollout, advantage, (target - mean) / deviation
    return value_scales.with_scales(runner, targets=after), batch
