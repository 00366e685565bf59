"""Checks before training with a replay buffer: does it fit in memory, do batches divide evenly."""

import dataclasses
from typing import Any

import jax

from jaxenvs.core.memory import device_memory

from .devices import ALONE
from .learner import Learner

# Fields of `Runner` (the training state) whose size grows with the replay buffer's `capacity`.
STORED = ("replay_buffer", "priorities", "memories", "found")


def check(learner: Learner[Any], seeds: int, episodes: int) -> None:
    """Raise `ValueError` if a batch does not divide among the devices, or memory is too small.

    `seeds` is the number of seeds, each with a separate replay buffer.
    """
    check_divides(learner, "batch_size")
    check_memory(learner, seeds)


def check_divides(learner: Learner[Any], name: str) -> None:
    """Raise `ValueError` if a batch does not divide evenly among the devices.

    The batch size is the setting `name`.
    """
    size, count = getattr(learner.settings, name), learner.devices.count
    if size % count:
        raise ValueError(
            f"{name}={size} does not divide evenly among {count} devices; give "
            f"--{name.replace('_', '-')} {-(-size // count) * count}"
        )


def check_memory(learner: Learner[Any], seeds: int) -> None:
    """Raise `ValueError` if the replay buffers of all seeds do not fit in a device's memory."""
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
