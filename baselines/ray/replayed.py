"""Learner of Ape-X: a process that learns from batches of the replay shards.

A replay shard is a process that stores a part of the transitions (replays.py). Data moves through
Ray's object store: new transitions from actors to shards, batches from shards to the learner, and
new TD errors from the learner to the shards. The main process passes only references to this data.
"""

import functools
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
from .learners import use_device
from .replays import Drawn, Replays, importance, joined
from .training import LostError


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def improve(learner: Learner, runners: Any, batches: Batch) -> tuple[Any, dict]:
    """Make one update on the device; return the new training state and metrics.

    `runners` has a first axis of seeds, of size 1.
    """
    update = functools.partial(learner.algorithm.load().update, learner)
    return over_seeds(update)(runners, batches)


class ReplayLearner:
    """Ray actor that learns; it holds the weights, the target network and the optimiser state."""

    def __init__(self, learner: Learner, on_cpu: bool, runners: PyTree) -> None:
        """Start with the training state `runners`."""
        self._learner = learner
        use_device(on_cpu)
        self._runners = jax.device_put(runners)

    def update(self, beta: float, *drawn: Drawn) -> tuple[dict, PyTree, list[np.ndarray]]:
        """Learn from the samples of all shards.

        Return metrics, the new weights, and a list with the TD errors of each shard's sample.
        """
        batches = Batch(**joined(drawn), mask=None, weight=jnp.asarray(importance(drawn, beta)))
        self._runners, metrics = improve(self._learner, self._runners, batches)
        metrics = jax.device_get(metrics)
        ends = np.cumsum([part.chance.shape[1] for part in drawn])[:-1]
        errors = np.split(metrics.pop("error")[0], ends, axis=1)
        return metrics, jax.device_get(self._runners.weights), errors

    def state(self) -> PyTree[np.ndarray]:
        """Return the training state, for a checkpoint."""
        return jax.device_get(self._runners)


class Replayed:
    """Handle of a run's learner process, with the methods of `training.Learners`."""

    def __init__(self, replays: Replays, learner: Learner, runners: PyTree[np.ndarray]) -> None:
        """Start the learner process with the training state `runners`."""
        self._replays, self._settings = replays, learner.settings
        self._updates = int(runners.updates[0])
        gpus = int(ray.cluster_resources().get("GPU", 0) >= 1)
        kind = ray.remote(ReplayLearner).options(num_cpus=1, num_gpus=gpus)  # type: ignore[attr-defined]
        self._handle: Any = kind.remote(learner, not gpus, ray.put(runners))
        self.weights, self.pending = ray.put(runners.weights), []

    def update(self, made: list[Made]) -> None:
        """Begin an update: send the new transitions to the shards, then request gradient steps."""
        for one in made:
            self._replays.add(one.result, one.about["items"])
        self._sums = jax.tree.map(lambda *sums: sum(sums), *(one.about["sums"] for one in made))
        self._sums[OLDEST] = np.array([max(one.about[OLDEST] for one in made)])
        shares = [one.about["decisions"] for one in made if "decisions" in one.about]
        if shares:  # forced steps are skipped
            self._sums["decisions"] = np.array([np.mean(shares)])
        self._learn()

    def _learn(self) -> None:
        """Sample batches from the replay shards, and start the gradient steps on these batches.

        While the shards hold fewer than `warm_up` steps, do neither; the update then has no
        gradient steps.
        """
        settings, self._begun = self._settings, time.monotonic()
        if self._replays.held < settings.warm_up:
            self.pending = [ray.put(None)]
            return
        drawn = self._replays.sample(settings.gradient_steps, settings.batch_size)
        done = settings.progress_at(settings.cold_updates + self._updates)
        beta = settings.importance + (1.0 - settings.importance) * done
        call = self._handle.update.options(num_returns=3).remote(beta, *drawn.values())
        self._drew, self.pending = list(drawn), [call[0]]
        self._next_weights, self._errors = call[1:]

    def finish(self, reference: Any) -> dict[str, np.ndarray] | None:
        """Return the metrics of a finished update, or None if the update failed.

        If a replay shard has died, replace it and begin the update again. If the learner process
        has died, raise `LostError`.
        """
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
        """If the update takes too long, replace dead shards and begin the update again.

        If no shard is dead, the learner process must be dead, and the method raises `LostError`.
        """
        if self.pending and time.monotonic() - self._begun > self._settings.patience:
            self._again(f"no answer in {self._settings.patience} s (--patience)")

    def _again(self, why: str) -> None:
        """Replace dead replay shards, and start the gradient steps of the current update again.

        If no shard is dead, the learner process must be dead, and the method raises
        `LostError(why)`.
        """
        if not self._replays.replaced():
            raise LostError(why)
        self._learn()

    def state(self) -> PyTree[np.ndarray]:
        """Return the training state, for a checkpoint."""
        try:
            return ray.get(self._handle.state.remote(), timeout=self._settings.patience)
        except RayError as error:
            raise LostError(reason(error)) from error

    def end(self) -> None:
        """Kill the learner process."""
        ray.kill(self._handle)


class Shards:
    """Replay shards of a run, which continue to run if the learner process is replaced."""

    _replays: Replays | None = None

    def learners(self, learner: Learner, runners: PyTree[np.ndarray]) -> Replayed:
        """Start a learner process. The first call also starts the shards."""
        settings = learner.settings
        self._replays = self._replays or Replays(settings, int(runners.key.sum()))
        return Replayed(self._replays, learner, runners)

    def end(self) -> None:
        """Kill the shards."""
        if self._replays is not None:
            self._replays.end()
