"""Timing: compile all programs first, then let the contestants run in turns, several times.

Contestants are the environments that a benchmark compares. Neighbouring turns see the same load on
the machine, so the ratio of their times is stable. As in a learner's rollout, every observation and
reward is stored, and the time of a run includes waiting until all of them are written.
"""

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from . import device_lock
from .contestants import Contestant, Game, silence

# Target for the number of bytes that one rollout stores as observations and rewards. On a CPU the
# target is small, so that these bytes stay in the caches. On an accelerator it is large, so that
# the time to launch a program (tens of microseconds) is divided among many steps.
ROLLOUT_BYTES = {"cpu": 16 << 20, "accelerator": 1 << 30}
ROLLOUT_STEPS = (8, 1024)  # smallest and largest number of steps of a rollout
# Limit on the bytes that a rollout stores. It takes precedence over the smallest number of steps.
LARGEST = 9 << 30
# The warm-up ends after this many steps or this many seconds, whichever is reached first.
AGE_STEPS, AGE_SECONDS = 512, 3.0


@dataclasses.dataclass
class Record:
    """Measured figures of one contestant on one environment id at one batch size."""

    contestant: str
    id: str
    num_envs: int
    reset_source: str
    obs: str
    length: int  # number of steps of a rollout
    rollouts: int  # number of rollouts per repeat
    compile_seconds: float
    seconds: list[float] = dataclasses.field(default_factory=list)  # wall seconds of each repeat
    processor_seconds: list[float] = dataclasses.field(default_factory=list)
    """Processor time of each repeat over all threads; empty on an accelerator."""

    @property
    def steps(self) -> int:
        """Number of steps of one repeat, summed over the environments."""
        return self.num_envs * self.length * self.rollouts

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, which include the raw times, and speeds from the median time."""
        speed = self.steps / statistics.median(self.seconds)
        return dataclasses.asdict(self) | {
            "steps": self.steps,
            "steps_per_second": round(speed),
            # Microseconds per step of the whole batch.
            "microseconds": round(1e6 * self.num_envs / speed, 2),
        }


class Runner:
    """Base class of timed contestants: `run` makes a fixed number of steps and times them."""

    record: Record

    def run(self) -> float:
        """Make `record.steps` environment steps; return the wall seconds that they took."""
        raise NotImplementedError

    def age(self) -> None:
        """Warm up: step until the episodes, which all start together, end at different times."""
        start, steps = time.perf_counter(), 0
        while steps < AGE_STEPS and (not steps or time.perf_counter() - start < AGE_SECONDS):
            self.run()
            steps += self.record.length


class Programs(NamedTuple):
    """Compiled programs of a batch of environments: one resets the batch, one makes a rollout."""

    reset: Callable
    rollout: Callable
    length: int  # number of steps of a rollout
    compile_seconds: float  # seconds of tracing and compiling the rollout


def lower(contestant: Contestant) -> Callable[[], Programs]:
    """Trace the reset and the rollout of a contestant; return a function that compiles both.

    A contestant is a batch of environments to measure. To compile several contestants in parallel,
    call their functions in threads: compiling, unlike tracing, releases Python's global interpreter
    lock.
    """
    key = jax.random.key(0)
    reset = jax.jit(contestant.reset).lower(key)
    state = jax.eval_shape(contestant.reset, key)
    length = rollout_length(contestant, state)
    start = time.perf_counter()
    rollout = jax.jit(contestant.rollout(length), donate_argnums=1).lower(key, state)
    traced = time.perf_counter() - start

    def compile() -> Programs:
        start = time.perf_counter()
        compiled = rollout.compile()
        seconds = traced + time.perf_counter() - start
        return Programs(reset.compile(), compiled, length, seconds)

    return compile


class BatchRunner(Runner):
    """Timed runs of a `Contestant`, a batch in JAX; the constructor compiles and warms up."""

    def __init__(
        self, contestant: Contestant, seconds: float, programs: Programs | None = None
    ) -> None:
        self.key, key_reset = jax.random.split(jax.random.key(0))
        reset, self.rollout, length, compiled = programs or lower(contestant)()
        self.record = Record(
            contestant.name,
            contestant.env_id,
            contestant.num_envs,
            contestant.reset_source,
            contestant.obs,
            length,
            rollouts=1,
            compile_seconds=round(compiled, 2),
        )
        with device_lock.held():
            self.state = jax.block_until_ready(reset(key_reset))
            self.age()
            self.record.rollouts = math.ceil(seconds / min(self.run() for _ in range(2)))

    def run(self) -> float:
        self.key, key = jax.random.split(self.key)
        keys = list(jax.block_until_ready(jax.random.split(key, self.record.rollouts)))
        start = time.perf_counter()
        for key in keys:
            self.state, stored = self.rollout(key, self.state)
            jax.block_until_ready(stored)
        jax.block_until_ready(self.state)
        return time.perf_counter() - start


class GameRunner(Runner):
    """Timed runs of a `Game`, stepped from Python; actions are drawn before timing starts."""

    def __init__(self, game: Game, env_id: str, seconds: float) -> None:
        self.game, self.rng = game, np.random.default_rng(0)
        self.record = Record(game.name, env_id, game.num_envs, "own", game.obs, game.turn, 1, 0.0)
        self.age()
        self.record.rollouts = math.ceil(seconds / self.run())

    def run(self) -> float:
        actions = drawn(self.rng, self.game, self.record.length * self.record.rollouts)
        start = time.perf_counter()
        with silence():
            for action in actions:
                self.game.step(action)
        return time.perf_counter() - start


def drawn(rng: np.random.Generator, game: Game, steps: int) -> Any:
    """Draw uniform random actions of shape [steps, num_envs], or [steps] for one environment."""
    shape, space = (steps, game.num_envs), game.actions
    if isinstance(space, int):
        actions: Any = rng.integers(0, space, shape, dtype=np.int32)
        return actions[:, 0].tolist() if game.num_envs == 1 else actions
    actions = rng.uniform(space.low, space.high, (*shape, *space.shape)).astype(space.dtype)
    return list(actions[:, 0]) if game.num_envs == 1 else actions


def rollout_length(contestant: Contestant, state: Any) -> int:
    """Return the number of steps with which a rollout stores about `ROLLOUT_BYTES`."""
    fewest, most = ROLLOUT_STEPS
    budget = ROLLOUT_BYTES["cpu" if jax.default_backend() == "cpu" else "accelerator"]
    length = min(most, max(fewest, budget // _stored(contestant, state)))
    return steps_that_fit(contestant, state, length)


def steps_that_fit(contestant: Contestant, state: Any, length: int) -> int:
    """Return `length`, or fewer steps if a rollout would store more than `LARGEST`."""
    return max(1, min(length, LARGEST // _stored(contestant, state)))


def _stored(contestant: Contestant, state: Any) -> int:
    """Return the number of bytes of observations and rewards that a step stores."""
    key = jax.eval_shape(jax.random.key, 0)
    _, stored = jax.eval_shape(contestant.rollout(1), key, state)
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(stored))


def take_turns(runners: Sequence[Runner], repeats: int) -> list[dict[str, Any]]:
    """Time every runner `repeats` times, in turns; return a record of figures for each runner.

    In each repeat, the runners run one after another.
    """
    on_cpu = jax.default_backend() == "cpu"
    with device_lock.held():
        for _ in range(repeats):
            for runner in runners:
                before = time.process_time()
                runner.record.seconds.append(runner.run())
                if on_cpu:
                    runner.record.processor_seconds.append(time.process_time() - before)
    return [runner.record.as_dict() for runner in runners]
