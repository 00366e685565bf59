"""Make a run with two small checkpoints, for tests that damage it."""

import dataclasses

import numpy as np

from jaxenvs.baselines.on_policy import ppo
from jaxenvs.baselines.storage.runs import Config, Run

ID = "Grid-Empty-Random-5x5-v0"
TREES = {
    "weights": {"a": np.arange(6, dtype=np.float32).reshape(2, 3)},
    "learner": {"key": np.array([1, 2], np.uint32)},
}
ROW = {"update": 1, "steps": 8, "episodes": [1], "return": [0.5]}


def trees(update: int) -> dict:
    """Return the pytrees of a checkpoint; their values depend on the number `update`."""
    return TREES | {"weights": {"a": TREES["weights"]["a"] + update}}


def names(run: Run) -> list[str]:
    """Return the names of the files and folders in a run's directory of checkpoints."""
    return sorted(path.name for path in run.checkpoints.iterdir())


def saved_run(path) -> Run:
    """Return a run with checkpoints of updates 1 and 2."""
    settings = dataclasses.asdict(ppo.Settings(hidden=(8,)))
    run = Run.create(path / "run", Config(ID, {}, 0, 1, settings))
    for update in (1, 2):
        run.save(update, trees(update))
    return run
