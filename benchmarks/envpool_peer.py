"""EnvPool, a C++ engine of MiniGrid's and BabyAI's levels: one process, threads as it chooses.

It is stepped as its authors ship it (envpool 1.2.5): all environments in one synchronous call, its
own auto-reset, in which the step after an episode's end starts the next one, and its own
observation, the dict of image, direction and mission. BabyAI's missions set its time limit there as
they do here. Nothing is stored of its steps, to its advantage.
"""

import importlib
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import jaxenvs

from .timing import Row, Runner

NAME = "EnvPool"
LENGTH = 100  # steps of the batch in what counts as a rollout


class Pool(NamedTuple):
    """A batch of environments that is stepped from Python."""

    actions: int
    step: Callable[[np.ndarray], Any]  # takes actions of shape (environments,)


class PoolRunner(Runner):
    """A batch of EnvPool, with actions drawn before the clock starts."""

    def __init__(self, env_id: str, num_envs: int, seconds: float) -> None:
        self.pool = build(env_id, num_envs)
        self.rng = np.random.default_rng(0)
        self.row = Row(NAME, env_id, num_envs, "own", "dict", LENGTH, 1, compile_seconds=0.0)
        self.age()
        self.row.rollouts = math.ceil(seconds / self.run())

    def run(self) -> float:
        """Make `row.steps` steps; return the seconds."""
        shape = (self.row.length * self.row.rollouts, self.row.num_envs)
        actions = self.rng.integers(0, self.pool.actions, shape, dtype=np.int32)
        start = time.perf_counter()
        for action in actions:
            self.pool.step(action)
        return time.perf_counter() - start


def build(env_id: str, num_envs: int) -> Pool:
    """EnvPool's batch of the same level.

    Raises `ImportError` when the package is missing, `LookupError` when it has no such level.
    """
    envpool = importlib.import_module("envpool")
    name = jaxenvs.spec(env_id).upstream
    if name not in envpool.list_all_envs():
        raise LookupError(f"{NAME} has no level like {env_id}")
    env = envpool.make_gymnasium(name, num_envs=num_envs, seed=0)
    env.reset()
    return Pool(int(env.action_space.n), env.step)
