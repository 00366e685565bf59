"""Jobs of the command `card` that learn to solve the 3x3x3 cube and the 24-puzzle.

A learner trains in slices: parts of a run that take a few minutes each, see training.py. Then a
search with the learned policy or heuristic solves random boards. A last record has the share of
solved boards, and the mean length of the solutions in moves.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .results import Records, Work
from .training import sliced


class Task(NamedTuple):
    """A puzzle to learn, and the search that solves its boards afterwards."""

    id: str
    flags: tuple[str, ...]  # the learner, as arguments of `jaxenvs train`
    # Number of boards that a beam search keeps, or that Q* expands together.
    width: int
    budget: int = 0  # number of nodes that Q* may store for each board


LAST_MOVE, Q = ("--algo", "last-move"), ("--algo", "davi", "--q")
# Name of a job -> its task.
TASKS = {
    "cube": Task("Puzzle-Cube-3x3-v0", LAST_MOVE, 2**16),
    "cube-q": Task("Puzzle-Cube-3x3-v0", Q, 10_000, budget=1_000_000),
    "tiles": Task("Puzzle-SlidingTile-5x5-v0", LAST_MOVE, 2**16),
    "tiles-q": Task("Puzzle-SlidingTile-5x5-v0", Q, 10_000, budget=1_000_000),
}
BOARDS = 100
LATER = ("--eval-episodes", "1024", "--checkpoint-every", "64")
TINY = ("--walks", "2", "--scramble", "4", "--gradient-steps", "2", "--width", "8", "--blocks", "0")
TINY += ("--test-boards", "2", "--chunk", "1", "--eval-episodes", "4", "--total-steps", "60")
TINY_BOARDS, TINY_NETWORK = 2, 8  # TINY_NETWORK: width that marks a tiny run
TINY_SIZES = {"width": 16, "budget": 1000}


def job(name: str) -> Callable[[Work], None]:
    """Return the function of the job that learns a task of `TASKS` and then solves boards."""
    task = TASKS[name]
    words = [task.id, *task.flags]
    return sliced([*words, *LATER], LATER, [*words, *TINY], lambda path: judged(task, path))


def judged(task: Task, path: Path) -> Records:
    """Solve random boards with the policy or heuristic of a finished run."""
    import jax

    from jaxenvs.baselines.evaluation import heuristic, planner
    from jaxenvs.baselines.storage.runs import Run

    config = Run.open(path).config
    boards = BOARDS
    if config.settings["width"] == TINY_NETWORK:
        task, boards = task._replace(**TINY_SIZES), TINY_BOARDS
    plan = planner.load(path)
    keys = jax.random.split(jax.random.key(heuristic.BOARDS_KEY), boards)
    levels = jax.jit(jax.vmap(plan.puzzle.sample_level))(keys)
    found = heuristic.solve(
        plan, levels, plan.algorithm, budget=task.budget, batch_size=task.width, at_once=1
    )
    lengths = found["cost"][found["solved"]]
    return [
        {
            **{"part": "judged", "id": task.id, "learner": config.algorithm},
            **{"search": plan.algorithm, "width": task.width, "budget": task.budget},
            **{"boards": boards, "solved": float(found["solved"].mean())},
            "mean_length": round(float(lengths.mean()), 3) if len(lengths) else None,
            "seconds": round(found["seconds"], 2),
        }
    ]
