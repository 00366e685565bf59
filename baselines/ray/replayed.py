"""The learner of Ape-X: one process that learns from what replay shards draw.

This process passes references on: fragments go from actors to shards, batches from shards to the
learner, new errors back to the shards, all through Ray's object store.
"""

import functools
import os
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import ray
from jaxtyping import PyTree
from ray.exceptions import RayError

from ..core.learner import Learner, over_seeds
from ..core.metrics import KNOWN
from ..core.replay_buffer import Batch
from ..run.progress import OLDEST
from .cluster import Made, reason
from .replays import Drawn, Replays, importance, joined
from .training import LostError


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def improve(learner: Learner, runners: Any, batches: Batch) -> tuple[Any, dict]:
    """One update; runners have a first axis of one seed."""
    update = functools.partial(learner.algorithm.load().update, learner)
    return over_seeds(update)(runners, batches)


class ReplayLearner:
    """A Ray actor that holds the weights and their slow copy."""

    def __init__(self, learner: Learner, on_cpu: bool, runners: PyTree) -> None:
        """Take the state."""
        self._learner = learner
        os.environ.pop("XLA_FLAGS", None)  # simulated devices of the process that started this one
        if on_cpu:
            jax.config.update("jax_platforms", "cpu")
        self._runners = jax.device_put(runners)

    def update(self, beta: float, *drawn: Drawn) -> tuple[dict, PyTree, list[np.ndarray]]:
        """Learn from what shards drew; return metrics, weights, and the errors of each share."""
        batches = Batch(**joined(drawn), mask=None, weight=jnp.asarray(importance(drawn, beta)))
        self._runners, metrics = improve(self._learner, self._runners, batches)
        metrics = jax.device_get(metrics)
        ends = np.cumsum([part.chance.shape[1] for part in drawn])[:-1]
        errors = np.split(metrics.pop("error")[0], ends, axis=1)
        return metrics, jax.device_get(self._runners.weights), errors

    def state(self) -> PyTree[np.ndarray]:
        """All that a checkpoint keeps."""
        return jax.device_get(self._runners)


class Replayed:
    """The learner of a run, with the interface of `training.Learners`."""

    def __init__(self, replays: Replays, learner: Learner, runners: PyTree[np.ndarray]) -> None:
        """Start it with a state."""
        self._replays, self._settings = replays, learner.settings
        self._updates = int(runners.updates[0])
        gpus = int(ray.cluster_resources().get("GPU", 0) >= 1)
        kind = ray.remote(ReplayLearner).options(num_cpus=1, num_gpus=gpus)  # type: ignore[attr-defined]
        self._handle: Any = kind.remote(learner, not gpus, ray.put(runners))
        self.weights, self.pending = ray.put(runners.weights), []

    def update(self, made: list[Made]) -> None:
        """Begin an update: store fragments, then learn from what the shards draw."""
        for one in made:
            self._replays.add(one.result, one.about["items"])
        self._sums = jax.tree.map(lambda *sums: sum(sums), *(one.about["sums"] for one in made))
        self._sums[OLDEST] = np.array([max(one.about[OLDEST] for one in made)])
        self._learn()

    def _learn(self) -> None:
        """Ask for gradient steps, or for none before the shards hold enough."""
        settings, self._begun = self._settings, time.monotonic()
        if self._replays.held < settings.warm_up:
            self.pending = [ray.put(None)]
            return
        drawn = self._replays.sample(settings.gradient_steps, settings.batch_size)
        done = settings.progress_at(self._updates)
        beta = settings.importance + (1.0 - settings.importance) * done
        call = self._handle.update.options(num_returns=3).remote(beta, *drawn.values())
        self._drew, self.pending = list(drawn), [call[0]]
        self._next_weights, self._errors = call[1:]

    def finish(self, reference: Any) -> dict[str, np.ndarray] | None:
        """The metrics of an update that has ended; None if it begins again without a dead shard."""
        try:
            metrics = ray.get(reference, timeout=self._settings.patience)
        except RayError as error:
            self._again(reason(error))
            return None
        self.pending = []
        if metrics is None:
            names = ("q_loss", "q")
            metrics = {f"{name}{end}": np.zeros(1) for name in names for end in ("", KNOWN)}
        else:
            self._replays.mark(self._errors, self._drew)
            self.weights = self._next_weights
            self._updates += 1
        more = {
            "learn_seconds": time.monotonic() - self._begun,
            "held": self._replays.held,
            "replays_lost": self._replays.lost,
        }
        return self._sums | metrics | {name: np.array([number]) for name, number in more.items()}

    def check(self) -> None:
        """Raise `LostError` when an update takes too long."""
        if self.pending and time.monotonic() - self._begun > self._settings.patience:
            self._again(f"no answer in {self._settings.patience} s (--patience)")

    def _again(self, why: str) -> None:
        """Begin the update again if shards had died; else the learner has: raise `LostError`."""
        if not self._replays.replaced():
            raise LostError(why)
        self._learn()

    def state(self) -> PyTree[np.ndarray]:
        """What a checkpoint keeps."""
        try:
            return ray.get(self._handle.state.remote(), timeout=self._settings.patience)
        except RayError as error:
            raise LostError(reason(error)) from error

    def end(self) -> None:
        """Kill it."""
        ray.kill(self._handle)


class Shards:
    """The shards of a run, which outlive a learner that dies."""

    _replays: Replays | None = None

    def learners(self, learner: Learner, runners: PyTree[np.ndarray]) -> Replayed:
        """Start a learner; with the first one, the shards."""
        settings = learner.settings
        self._replays = self._replays or Replays(settings, int(runners.key.sum()))
        return Replayed(self._replays, learner, runners)

    def end(self) -> None:
        """Kill them."""
        if self._replays is not None:
            self._replays.end()
