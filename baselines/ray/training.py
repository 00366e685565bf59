"""Training loop on Ray: it schedules actors and learners, and replaces processes that die.

The main process writes the run's files. Fragments (pieces of rollouts) and weights move through
Ray's object store; the main process passes only references to them. In `sync` mode, actors sample
all fragments of an update with the current weights, while the learner waits. In `async` mode,
actors sample while the learner learns, but are at most one update ahead of the learner.
"""

import dataclasses
import itertools
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import ray
from jaxtyping import Array, PyTree
from ray.exceptions import GetTimeoutError, RayError

from .. import GYM
from ..core import episodes as evaluation
from ..core import playing, policy_statement
from ..core.devices import EVERYWHERE, Devices
from ..core.learner import Learner
from ..evaluation import final
from ..run.divergence import Divergence
from ..run.interrupt import Interrupt
from ..run.keeping import Keeper
from ..run.loop import begin, progress_line, split
from ..storage import checkpoints
from ..storage.runs import Run, RunError
from .cluster import DEATHS, Made, Pool, reason
from .learners import Learner as LearnerProcess

LEAVING = 15.0  # longest time in seconds for `ray.shutdown()` after a second Ctrl-C
TICK = 0.2  # seconds between two checks for Ctrl-C and for missed deadlines


class LostError(Exception):
    """Raised if a learner process died or does not answer."""


class Learners:
    """Group of learner processes; if one of them dies, `Training` replaces the whole group."""

    def __init__(self, learner: Learner, runners: PyTree[np.ndarray]) -> None:
        """Start the learners with the training state `runners`; raises `LostError` if one dies."""
        settings = learner.settings
        self._count, self._patience = settings.learners, settings.patience
        learner = dataclasses.replace(learner, devices=Devices(self._count))
        gpus = int(ray.cluster_resources().get("GPU", 0) >= self._count)
        kind = ray.remote(LearnerProcess).options(num_cpus=1, num_gpus=gpus)  # type: ignore[attr-defined]
        self._handles: list[Any] = [kind.remote(learner, i, not gpus) for i in range(self._count)]
        self._metrics: list[Any] = []  # references to each learner's metrics of the pending update
        self.weights, self.pending = ray.put(runners.weights), []
        first = self._handles[0]
        address = self._get(first.address.remote()) if self._count > 1 else None
        state = ray.put(runners)
        self._get([h.begin.remote(state, address, self._patience) for h in self._handles])

    def update(self, made: list[Made]) -> None:
        """Divide fragments (pieces of rollouts) among the learners, and begin an update."""
        fragments = [one.result for one in made]
        share = len(fragments) // self._count
        self._begun = time.monotonic()
        calls = [
            handle.update.options(num_returns=2).remote(*fragments[i * share : (i + 1) * share])
            for i, handle in enumerate(self._handles)
        ]
        self._metrics = [metrics for metrics, _ in calls]
        self._next_weights, self.pending = calls[0][1], list(self._metrics)

    def finish(self, reference: Any) -> dict[str, np.ndarray] | None:
        """Record that a learner has finished an update on its fragments.

        Return the metrics of the update once all learners have finished, and None before that.
        """
        self._get(reference)
        self.pending.remove(reference)
        if self.pending:
            return None
        self.weights = self._next_weights
        metrics = self._get(self._metrics[0])
        return {**metrics, "learn_seconds": np.array([time.monotonic() - self._begun])}

    def state(self) -> PyTree[np.ndarray]:
        """Return the training state, for a checkpoint."""
        return self._get(self._handles[0].state.remote())

    def check(self) -> None:
        """Raise `LostError` if the pending update has taken longer than `patience` seconds."""
        if self.pending and time.monotonic() - self._begun > self._patience:
            raise LostError(f"no answer in {self._patience} s (--patience)")

    def end(self) -> None:
        """Kill all learners."""
        for handle in self._handles:
            ray.kill(handle)

    def _get(self, references: Any) -> Any:
        try:
            return ray.get(references, timeout=self._patience)
        except GetTimeoutError as error:
            raise LostError(f"no answer in {self._patience} s (--patience)") from error
        except RayError as error:
            raise LostError(reason(error)) from error


class Parts(NamedTuple):
    """Actor class and functions that a run needs from its algorithm."""

    actor: type  # class of the actors; has `sample`, and `play` for Gymnasium environments
    given: Callable[[Learner, int], Any]  # (learner, index of an actor) -> this actor's settings
    # (learner, training state) -> started learner processes, with the interface of `Learners`
    learners: Callable[[Learner, Any], Any]
    end: Callable[[], None] = lambda: None  # stops processes other than actors and learners


class Training:
    """A run in progress: it owns the actors and learners, and writes the run's directory."""

    def __init__(self, parts: Parts) -> None:
        """Store the classes of actors and learners in `parts`; `train` starts their processes."""
        self._parts = parts
        # Number of groups of learners started so far. Fragments (pieces of rollouts) that actors
        # sampled for earlier groups are dropped.
        self._lives = 0
        self._ready: list[Made] = []
        self._weight_bytes = 0
        self._pool: Pool | None = None
        self._leaving, self._left = threading.Event(), threading.Event()

    def train(self, run: Run, learner: Learner, done: int, runners: Any, keeper: Keeper) -> Any:
        """Train from update `done` to the last update or Ctrl-C; return the final state.

        `learner` is set up for one device, even if there are several learner processes.
        """
        self._run, self._learner = run, learner
        self._settings: Any = learner.settings
        if not checkpoints.saved(self._run.checkpoints):
            # If learners die before the next checkpoint, new learners load this one.
            keeper.save(done, split(runners))
        self._pool = self._pool or self._actors(done)
        promise = "Stopping after this update, then saving; Ctrl-C again stops at once."
        with Interrupt(promise, last=self._leave) as stop:
            try:
                return self._lives_of_learners(done, runners, keeper, stop)
            finally:
                self._check_leaving()

    def _lives_of_learners(self, done: int, runners: Any, keeper: Keeper, stop: Interrupt) -> Any:
        """Train to the last update or Ctrl-C; return the final training state.

        If a learner dies, start a new group of learners from the newest checkpoint.
        """
        deaths = 0
        while True:
            try:
                return self._live(done, jax.device_get(runners), keeper, stop)
            except LostError as lost:
                before = done
                done, runners = begin(self._run, self._learner, resume=True)
                deaths = deaths + 1 if done == before else 1
                if deaths > DEATHS:
                    raise RunError(f"learners died {deaths} times in a row: {lost}") from lost
                print(f"The learner is replaced, from update {done}: {lost}", file=sys.stderr)

    def _actors(self, done: int) -> Pool:
        settings, config = self._settings, self._run.config
        kind = ray.remote(self._parts.actor).options(num_cpus=1)  # type: ignore[attr-defined]

        def make(slot: int, generation: int) -> Any:
            seed = _seed(config.seed, slot, done, generation)
            given = self._parts.given(self._learner, slot)
            return kind.remote(config.id, config.keywords, given, seed)

        return Pool(make, settings.actors, settings.patience)

    def _live(self, done: int, runners: Any, keeper: Keeper, stop: Interrupt) -> Any:
        """Train with one group of learners; return the final training state.

        Raises `LostError` if a learner dies, and `KeyboardInterrupt` after Ctrl-C.
        """
        settings = self._settings
        self._lives += 1
        self._ready.clear()
        self._weight_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves(runners.weights))
        learners = self._parts.learners(self._learner, runners)
        line = progress_line(self._run, self._learner, done)
        divergence = Divergence(self._run)
        try:
            with line:
                while done < settings.updates and (metrics := self._update(learners, done, stop)):
                    columns = {name: value[:, None] for name, value in metrics.items()}
                    records = line.update(columns)
                    keeper.log(records)
                    line.show(self._note(metrics))
                    divergence.look(records)
                    done += 1
                    if keeper.stopped:
                        break
                    if keeper.is_due(done - 1, done) and done < settings.updates:
                        keeper.save(done, split(learners.state()))
            runners = learners.state()
            keeper.save(done, split(runners))
        finally:
            learners.end()
            keeper.wait()  # finish the newest checkpoint, which new learners read
        keeper.end()
        if done < settings.updates and not keeper.stopped:
            raise KeyboardInterrupt
        return self._learner.devices.place(runners, EVERYWHERE)

    def _update(self, learners: Any, done: int, stop: Interrupt) -> dict[str, Any] | None:
        """Pass the actors' rollouts or transitions to the learners until an update is done.

        Return the metrics of the update, or None if Ctrl-C stopped training.
        """
        assert self._pool is not None
        settings, batch = self._settings, []
        while learners.pending or not stop.asked:
            idle = not learners.pending
            room = settings.actors * (2 if settings.mode == "async" else idle)
            while self._pool.idle and len(self._pool.busy) + len(self._ready) < room:
                self._pool.ask("sample", learners.weights, (self._lives, done))
            if idle and len(self._ready) >= settings.actors:
                batch = sorted(self._ready[: settings.actors], key=lambda made: made.slot)
                del self._ready[: settings.actors]
                learners.update(batch)
            metrics = self._wait(learners)
            if metrics is not None:
                return metrics | self._exchanged(batch, done)
        return None

    def _wait(self, learners: Any) -> dict[str, np.ndarray] | None:
        """Wait at most `TICK` seconds for remote calls to finish, and process their results.

        A remote call collects experience on an actor or makes an update on a learner. Return the
        metrics of the update if all learners have finished, else None.
        """
        assert self._pool is not None
        metrics = None
        references = [*self._pool.busy, *learners.pending]
        for reference in ray.wait(references, timeout=TICK)[0]:
            if reference in learners.pending:
                metrics = learners.finish(reference)
            elif (made := self._pool.finish(reference)) and made.about["version"][0] == self._lives:
                # Keep only fragments sampled for the current group of learners; `version[0]` is the
                # number of the group.
                self._ready.append(made)
        self._pool.check()
        learners.check()
        self._check_leaving()
        return metrics

    def _leave(self) -> None:
        """After the second Ctrl-C, let the training thread end Ray, and wait until it has."""
        self._leaving.set()
        self._left.wait(timeout=LEAVING)

    def _check_leaving(self) -> None:
        if self._leaving.is_set():
            ray.shutdown()
            self._left.set()
            time.sleep(LEAVING)  # wait here, because the interrupt thread now ends the process

    def _exchanged(self, batch: list[Made], done: int) -> dict[str, np.ndarray]:
        """Return those metrics of an update, by name, that do not come from the learners.

        They are the sums of the measures of the episodes that ended (`Env.measure`), the age of the
        actors' weights, and the bytes of experience and of weights. They also contain the numbers
        of actors and of groups of learners that have died so far.
        """
        assert self._pool is not None
        lags = [done - made.about["version"][1] for made in batch]
        numbers = {
            # mean age, in updates, of the weights with which actors sampled
            "lag": float(np.mean(lags)),
            "lag_max": max(lags),
            "fragment_bytes": sum(made.about["bytes"] for made in batch),
            "weight_bytes": self._weight_bytes,
            "actors_lost": self._pool.lost,
            "learners_lost": self._lives - 1,
        }
        measured = jax.tree.map(lambda *parts: sum(parts), *(m.about["measured"] for m in batch))
        return measured | {name: np.array([number]) for name, number in numbers.items()}

    def _note(self, metrics: dict[str, np.ndarray]) -> str:
        if self._settings.mode == "sync":
            return ""
        return f"lag {metrics['lag'][0]:.1f} (at most {metrics['lag_max'][0]})"

    def report(self, run: Run, learner: Learner, weights: PyTree[Array], count: int) -> None:
        """Evaluate over `count` episodes; in Gymnasium environments, the actors play them."""
        if not run.config.id.startswith(GYM):
            return final.report(run, learner, weights, count)
        epsilon = getattr(learner.network, "evaluation_epsilon", 0.0)
        result = {
            "policy": policy_statement.describe_network(learner.env, epsilon, greedy=False),
            **evaluation.summary(self.play(jax.device_get(weights), count), run.config.labels),
        }
        run.write_json("eval.json", result)
        print(evaluation.as_text(result))

    def play(self, weights: PyTree[np.ndarray], count: int) -> playing.Episodes:
        """Play at least `count` episodes of a Gymnasium environment with the actors; return them.

        All environments play equally many episodes. If the first `count` finished episodes were
        taken instead, short episodes would be too frequent.
        """
        pool, settings = self._pool, self._settings
        assert pool is not None
        weights, episodes = ray.put(weights), -(-count // settings.num_envs)
        first = _seed(self._run.config.seed, evaluation.EVALUATION)
        seeds = itertools.count(first, settings.num_envs)
        found: list[np.ndarray] = []
        while len(found) < settings.actors:
            while pool.idle and len(pool.busy) + len(found) < settings.actors:
                pool.ask("play", weights, episodes, next(seeds))
            for reference in ray.wait(list(pool.busy), timeout=TICK)[0]:
                if (made := pool.finish(reference)) and "episodes" in made.about:
                    found.append(made.about["episodes"])
            pool.check()
        returns, lengths, terminated = np.concatenate(found, axis=1)[:, None]
        return playing.Episodes(returns, lengths.astype(np.int32), terminated.astype(bool))

    def end(self) -> None:
        """Kill the actors and the processes that `Parts.end` stops."""
        self._parts.end()
        if self._pool is not None:
            self._pool.end()


def _seed(*numbers: int) -> int:
    """Return a 31-bit seed that is a hash of all arguments."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0]) >> 1
