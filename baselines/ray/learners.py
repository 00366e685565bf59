"""Learner processes on Ray, which learn from the actors' fragments.

Several learners form one `jax.distributed` group: each has all weights and a part of the fragments,
and gradients are averaged as over the devices of `--devices` (devices.py).
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

BATCH = (DIVIDED, PartitionSpec(DEVICES))  # sharding of a fragment's two parts, by environment


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def improve(
    learner: core.Learner, runners: Runner, batch: tuple[dict[str, Any], Any]
) -> tuple[Runner, dict[str, Array]]:
    """Make one update on all devices; `runners` has a first axis of seeds, of size 1."""

    def step(runner: Runner, batch: Any) -> tuple[Runner, dict[str, Array]]:
        return learner.algorithm.load().update(learner, runner, Rollout(**batch[0]), batch[1])

    step = over_seeds(step)
    return learner.devices.program(step, (EVERYWHERE, BATCH), EVERYWHERE)(runners, batch)


def use_device(on_cpu: bool) -> None:
    """Ignore the parent process's XLA_FLAGS (simulated devices), and use the CPU if `on_cpu`."""
    os.environ.pop("XLA_FLAGS", None)
    if on_cpu:
        jax.config.update("jax_platforms", "cpu")


class Learner:
    """Ray actor that learns; `index` is its index among the learners."""

    def __init__(self, learner: core.Learner, index: int, on_cpu: bool) -> None:
        """Choose the device; JAX initialises its devices only in `begin`."""
        self._learner, self._index = learner, index
        use_device(on_cpu)

    def address(self) -> str:
        """Return a free HOST:PORT of this machine, for the group's coordinator."""
        import ray

        with socket.socket() as found:
            found.bind(("", 0))
            return f"{ray.util.get_node_ip_address()}:{found.getsockname()[1]}"

    def begin(self, runners: PyTree[np.ndarray], coordinator: str | None, timeout: int) -> None:
        """Join the group, if there is one, and set the training state to `runners`."""
        from ..core import processes

        devices = self._learner.devices
        place = (devices.count, self._index) if coordinator else (None, None)
        processes.join(coordinator or processes.BY_ITSELF, *place, timeout)
        self._runners = devices.place(runners, EVERYWHERE)

    def update(self, *fragments: Fragment) -> tuple[dict[str, Any], PyTree[np.ndarray]]:
        """Learn from fragments; return metrics and, from learner 0 only, the new weights."""
        rollouts, last_obs = zip(*fragments, strict=True)
        batch = (
            jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *rollouts),
            jax.tree.map(lambda *parts: np.concatenate(parts), *last_obs),
        )
        self._runners, metrics = improve(self._learner, self._runners, self._divided(batch))
        return _whole(metrics), _whole(self._runners.weights) if self._index == 0 else ()

    def _divided(self, batch: Any) -> Any:
        """Return global arrays whose part on this process is this learner's batch."""
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
    """Return replicated arrays as NumPy arrays of this process."""
    return jax.tree.map(lambda leaf: np.array(leaf.addressable_data(0)), tree)
