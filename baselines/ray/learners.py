"""The processes that learn under Ray, from fragments of the actors.

Several learners are one `jax.distributed` group: each holds the weights and takes its share of the
fragments, and gradients are averaged as over the devices of `--devices` (devices.py).
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

BATCH = (DIVIDED, PartitionSpec(DEVICES))  # where a fragment's two parts have environments


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def improve(
    learner: core.Learner, runners: Runner, batch: tuple[dict[str, Any], Any]
) -> tuple[Runner, dict[str, Array]]:
    """One update on all devices; as everywhere, runners have a first axis of (here one) seed."""

    def step(runner: Runner, batch: Any) -> tuple[Runner, dict[str, Array]]:
        return learner.algorithm.load().update(learner, runner, Rollout(**batch[0]), batch[1])

    step = over_seeds(step)
    return learner.devices.program(step, (EVERYWHERE, BATCH), EVERYWHERE)(runners, batch)


class Learner:
    """A Ray actor that holds the weights; `index` of those that learn together."""

    def __init__(self, learner: core.Learner, index: int, on_cpu: bool) -> None:
        """Ready to join; JAX is not asked for its devices yet."""
        self._learner, self._index = learner, index
        os.environ.pop("XLA_FLAGS", None)  # simulated devices of the process that started this one
        if on_cpu:
            jax.config.update("jax_platforms", "cpu")

    def address(self) -> str:
        """Where the group can meet, if this is its first."""
        import ray

        with socket.socket() as found:
            found.bind(("", 0))
            return f"{ray.util.get_node_ip_address()}:{found.getsockname()[1]}"

    def begin(self, runners: PyTree[np.ndarray], coordinator: str | None, timeout: int) -> None:
        """Join the group, if there is one, and take the state."""
        from ..core import processes

        devices = self._learner.devices
        place = (devices.count, self._index) if coordinator else (None, None)
        processes.join(coordinator or processes.BY_ITSELF, *place, timeout)
        self._runners = devices.place(runners, EVERYWHERE)

    def update(self, *fragments: Fragment) -> tuple[dict[str, Any], PyTree[np.ndarray]]:
        """Learn from this learner's share; return metrics, and the weights to act with next."""
        rollouts, last_obs = zip(*fragments, strict=True)
        batch = (
            jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *rollouts),
            jax.tree.map(lambda *parts: np.concatenate(parts), *last_obs),
        )
        self._runners, metrics = improve(self._learner, self._runners, self._divided(batch))
        return _whole(metrics), _whole(self._runners.weights) if self._index == 0 else ()

    def _divided(self, batch: Any) -> Any:
        """Its share of the batch, as part of what all learners hold."""
        devices = self._learner.devices
        if devices.count == 1:
            return batch

        def place(spec: PartitionSpec, tree: Any) -> Any:
            sharding = NamedSharding(devices.mesh, spec)
            make = jax.make_array_from_process_local_data
            return jax.tree.map(lambda leaf: make(sharding, leaf), tree)

        return tuple(place(spec, tree) for spec, tree in zip(BATCH, batch, strict=True))

    def state(self) -> PyTree[np.ndarray]:
        """All that a checkpoint keeps."""
        return _whole(self._runners)


def _whole(tree: PyTree[Array]) -> PyTree[np.ndarray]:
    """Arrays that every learner has, in memory of this process alone."""
    return jax.tree.map(lambda leaf: np.array(leaf.addressable_data(0)), tree)
