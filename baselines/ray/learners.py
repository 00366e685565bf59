"""Learner processes of PPO on Ray, which learn from the actors' fragments (pieces of rollouts).

Several learners form one `jax.distributed` group. Each learner has all weights and a part of the
fragments. The learners average their gradients, in the same way as the devices of `--devices` do
(devices.py).
"""

import functools
import os
import socket
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree

from ..core import learner as core
from ..core.devices import DEVICES, DIVIDED, EVERYWHERE
from ..core.learner import over_seeds
from ..core.rollouts import Rollout, Runner
from .actors import Fragment

BATCH = (DIVIDED, PartitionSpec(DEVICES))  # shardings of rollout and last observations


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def improve(
    learner: core.Learner, runners: Runner, batch: tuple[dict[str, Any], Any]
) -> tuple[Runner, dict[str, Array]]:
    """Make one update on the devices of all learners; return the new training state and metrics.

    `runners` is the training state, with a first axis of size 1 for the seed.
    """

    def step(runner: Runner, batch: Any) -> tuple[Runner, dict[str, Array]]:
        return learner.algorithm.load().update(learner, runner, Rollout(**batch[0]), batch[1])

    step = over_seeds(step)
    return learner.devices.program(step, (EVERYWHERE, BATCH), EVERYWHERE)(runners, batch)


def use_device(on_cpu: bool) -> None:
    """Choose the device of this process: the CPU if `on_cpu`, else JAX's default device.

    Also ignore the parent process's XLA_FLAGS, which may ask for simulated devices.
    """
    os.environ.pop("XLA_FLAGS", None)
    if on_cpu:
        jax.config.update("jax_platforms", "cpu")


class Learner:
    """Ray actor that updates the weights; `index` is its index among the learners."""

    def __init__(self, learner: core.Learner, index: int, on_cpu: bool) -> None:
        """Store the arguments and choose the device.

        JAX must not be initialised yet: `begin` first joins the group of learners.
        """
        self._learner, self._index = learner, index
        use_device(on_cpu)

    def address(self) -> str:
        """Return HOST:PORT, with this machine's address and a free port.

        At the address of learner 0, the coordinator of the `jax.distributed` group listens.
        """
        import ray

        with socket.socket() as found:
            found.bind(("", 0))
            return f"{ray.util.get_node_ip_address()}:{found.getsockname()[1]}"

    def begin(self, runners: PyTree[np.ndarray], coordinator: str | None, timeout: int) -> None:
        """Join the group of learners, if `coordinator` is given, and load the training state."""
        from ..core import processes

        devices = self._learner.devices
        place = (devices.count, self._index) if coordinator else (None, None)
        processes.join(coordinator or processes.BY_ITSELF, *place, timeout)
        self._runners = devices.place(runners, EVERYWHERE)

    def update(self, *fragments: Fragment) -> tuple[dict[str, Any], PyTree[np.ndarray]]:
        """Learn from pieces of rollouts; return metrics and, from learner 0 only, new weights."""
        rollouts, last_obs = zip(*fragments, strict=True)
        batch = (
            jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *rollouts),
            jax.tree.map(lambda *parts: np.concatenate(parts), *last_obs),
        )
        self._runners, metrics = improve(self._learner, self._runners, self._divided(batch))
        return _whole(metrics), _whole(self._runners.weights) if self._index == 0 else ()

    def _divided(self, batch: Any) -> Any:
        """Return arrays sharded over all learners; `batch` is the shard of this learner."""
        devices = self._learner.devices
        if devices.count == 1:
            return batch

        def place(spec: PartitionSpec, tree: Any) -> Any:
            sharding = NamedSharding(devices.mesh, spec)
            make = jax.make_array_from_process_local_data
            return jax.tree.map(lambda leaf: make(sharding, leaf), tree)

        return tuple(place(spec, tree) for spec, tree in zip(BATCH, batch, strict=True))

    def state(self) -> PyTree[np.ndarray]:
        """Return the training state, for a checkpoint."""
        return _whole(self._runners)


def _whole(tree: PyTree[Array]) -> PyTree[np.ndarray]:
    """Copy arrays that are replicated over all learners to NumPy arrays of this process."""
    return jax.tree.map(lambda leaf: np.array(leaf.addressable_data(0)), tree)
