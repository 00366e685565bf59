"""Load the learned cost-to-go of a DAVI run, as a heuristic for a search."""

import functools
import os
from collections.abc import Callable

from jaxtyping import Array, Float32, PyTree

from .. import registry
from ..core.learner import Learner
from ..puzzles import davi
from .checkpoints import RunError
from .runs import Run

ALGORITHM = "davi"


def load_heuristic(
    run_dir: str | os.PathLike[str], seed: int = 0
) -> Callable[[PyTree[Array], PyTree[Array]], Float32[Array, ""]]:
    """Load a run's learned cost-to-go as a function of (instance, board); seeds count from 0.

    Raises `RunError`, which says how to fix the run.
    """
    return functools.partial(davi.cost_to_go, *_loaded(run_dir, seed))


def load_q(
    run_dir: str | os.PathLike[str], seed: int = 0
) -> Callable[[PyTree[Array], PyTree[Array]], Float32[Array, " actions"]]:
    """Load the learned costs of all actions (run with `--q`) as a function of (instance, board).

    Raises `RunError`, which says how to fix the run.
    """
    learner, weights = _loaded(run_dir, seed)
    if not learner.settings.q:
        raise RunError(f"{run_dir} has no head per action: train it with --q, or search by astar")
    return functools.partial(davi.action_costs, learner, weights)


def _loaded(
    run_dir: str | os.PathLike[str], seed: int
) -> tuple[Learner[davi.Settings], PyTree[Array]]:
    """Return the learner of a run, and the weights of a seed."""
    run = Run.open(run_dir)
    config = run.config
    if config.algorithm != ALGORITHM:
        raise RunError(f"{run.path} was trained by {config.algorithm} and holds no cost-to-go")
    learner = registry.build(ALGORITHM, config.env, davi.Settings(**config.settings))
    return learner, run.weights(learner, seed)
