"""Checks shared by learners with a replay buffer on the device."""

import dataclasses
from typing import Any

import jax

from jaxenvs.core.memory import device_memory

from .devices import ALONE
from .learner import Learner

STORED = ("replay_buffer", "priorities", "memories", "found")  # fields that grow with `capacity`


def check(learner: Learner[Any], seeds: int, episodes: int) -> None:
    """Raise `ValueError` if the devices cannot share a batch, or cannot hold the replay buffer."""
    check_divides(learner, "batch_size")
    check_memory(learner, seeds)


def check_divides(learner: Learner[Any], name: str) -> None:
    """Raise `ValueError` if the batch size `name` does not divide evenly among the devices."""
    size, count = getattr(learner.settings, name), learner.devices.count
    if size % count:
        raise ValueError(
            f"{name}={size} does not divide evenly among {count} devices; give "
            f"--{name.replace('_', '-')} {-(-size // count) * count}"
        )


def check_memory(learner: Learner[Any], seeds: int) -> None:
    """Raise `ValueError` if the replay buffers of all seeds do not fit on the device."""
    alone = dataclasses.replace(learner, devices=ALONE)
    runner = jax.eval_shape(alone.init, jax.random.key(0))
    shapes = [getattr(runner, name, ()) for name in STORED]
    need = seeds * sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    device = jax.local_devices()[0]
    available = device_memory(device)
    if available is not None and need > available:
        fits = int(learner.settings.capacity * available / need / 2)
        raise ValueError(
            f"a replay buffer of capacity={learner.settings.capacity} takes {need:,} bytes of a "
            f"device ({seeds} seeds), {device.platform} has {available:,}; try --capacity {fits}, "
            f"or fewer --seeds"
        )
