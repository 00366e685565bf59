"""Functions that load the learned heuristic or policy of a puzzle run, for a search."""

import functools
import os
from collections.abc import Callable, Collection
from typing import Any

from jaxtyping import Array, Float32, PyTree

from .. import registry
from ..core.learner import Learner
from ..puzzles import davi, last_move
from .checkpoints import RunError
from .runs import Run


def load_heuristic(
    run_dir: str | os.PathLike[str], seed: int = 0
) -> Callable[[PyTree[Array], PyTree[Array]], Float32[Array, ""]]:
    """Load the heuristic, a cost-to-go function, that a run of DAVI (davi.py) has learned.

    The result is a function that returns the cost-to-go of a board in a puzzle instance, given
    (instance, board). `seed` is the index of one of the run's seeds, from 0. Raises `RunError` with
    a message that tells the user how to fix the run.
    """
    return functools.partial(davi.cost_to_go, *trained(run_dir, seed, ("davi",)))


def load_q(
    run_dir: str | os.PathLike[str], seed: int = 0
) -> Callable[[PyTree[Array], PyTree[Array]], Float32[Array, " actions"]]:
    """Load the action costs that a DAVI run with `--q` has learned.

    The result is a function that returns, given (instance, board), the predicted cost of each
    action on the board of the puzzle instance. This cost includes the cost-to-go after the action,
    and is inf for illegal actions. `seed` is the index of one of the run's seeds, from 0. Raises
    `RunError` with a message that tells the user how to fix the run.
    """
    learner, weights = trained(run_dir, seed, ("davi",))
    if not learner.settings.q:
        raise RunError(f"{run_dir} has no head per action: train it with --q, or search by astar")
    return functools.partial(davi.action_costs, learner, weights)


def load_move_policy(
    run_dir: str | os.PathLike[str], seed: int = 0
) -> Callable[[PyTree[Array], PyTree[Array]], Float32[Array, " actions"]]:
    """Load the policy that a run of the learner `last-move` has learned, for `search.beam`.

    The result is a function that returns the log-probability of each action, given (instance,
    board). `seed` is the index of one of the run's seeds, from 0. Raises `RunError` with a message
    that tells the user how to fix the run.
    """
    return functools.partial(last_move.log_probs, *trained(run_dir, seed, ("last-move",)))


def trained(
    run_dir: str | os.PathLike[str], seed: int, algorithms: Collection[str]
) -> tuple[Learner[Any, Any], PyTree[Array]]:
    """Return a run's learner and the weights of one seed.

    Raises `RunError` unless one of `algorithms` trained the run.
    """
    run = Run.open(run_dir)
    name = run.config.algorithm
    if name not in algorithms:
        raise RunError(
            f"{run.path} was trained by {name}, which does not fit this search; give a "
            f"run of {' or '.join(algorithms)}"
        )
    settings = registry.ALGORITHMS[name].load().Settings(**run.config.settings)
    learner = registry.build(name, run.config.env, settings)
    return learner, run.weights(learner, seed)
