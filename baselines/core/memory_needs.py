"""Memory that training needs on each device, known before any array is allocated.

The figure is a lower bound. It includes the training state (environments, levels of a stock,
weights, optimiser). For learners that train on rollouts, it also includes the rollout, a copy of a
minibatch, and the copied states of truncated episodes (see `truncations`). It leaves out
activations and XLA's temporary arrays.
"""

import functools
from typing import Any

import jax

from jaxenvs.core.memory import device_memory
from jaxenvs.core.starts import tree_bytes

from . import rollouts, truncations
from .devices import DIVIDED
from .learner import Learner
from .settings import Learning

GIB = 2**30
# Bytes that a rollout stores for each step, besides observation, action and mask: six numbers of
# four bytes (such as reward and value) and two flags.
OTHER_FIELDS = 6 * 4 + 2


def needed(learner: Learner[Any], runners: Any, where: Any) -> int:
    """Return the least number of bytes that training needs on each device.

    `runners` are the shapes of the training states of all seeds; `where` has the `PartitionSpec` of
    each field.
    """
    count = learner.devices.count
    total = sum(
        tree_bytes(getattr(runners, name)) // (count if getattr(where, name) == DIVIDED else 1)
        for name in where._fields
    )
    settings = learner.settings
    if not isinstance(settings, Learning):
        return total
    one_seed = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), runners.world.env
    )
    mask = jax.eval_shape(functools.partial(rollouts.legal_now, learner), one_seed)
    seeds, envs = runners.lengths.shape
    action = jax.eval_shape(learner.env.env.action_space.sample, jax.random.key(0))
    of_step = tree_bytes(runners.obs) + seeds * tree_bytes(mask)
    of_step += seeds * envs * (OTHER_FIELDS + tree_bytes(action))
    rollout = of_step * settings.rollout_steps // count
    final = tree_bytes((runners.world.env, runners.memory)) // count
    copies = truncations.slots(learner, final // seeds)
    return total + rollout + rollout // settings.minibatches + copies * final


def check(learner: Learner[Any], runners: Any, where: Any) -> str:
    """Return a sentence about the needed memory; "" if it is less than 1 GiB.

    Raises `ValueError` if a device has less memory. `needed` describes the arguments.
    """
    need, device = needed(learner, runners, where), jax.local_devices()[0]
    available = device_memory(device)
    if available is not None and need > available:
        raise ValueError(
            f"training needs at least {need / GIB:,.1f} GiB of each device, and {device.platform} "
            f"has {available / GIB:,.1f} GiB; give a smaller num_envs or rollout_steps, or fewer "
            f"seeds"
        )
    if need < GIB:
        return ""
    there = "" if available is None else f" of {available / GIB:,.1f} GiB"
    return f"Training needs at least {need / GIB:,.1f} GiB{there} of device memory."
