"""Job `cube` of the command `card`: a policy for the 3x3x3 cube, and beam search with it.

The learner `last-move` trains in slices: parts of a run that take a few minutes each, see
training.py. Then beam search solves random cubes. A last record has the share of solved cubes, and
the mean length of the solutions in quarter turns.
"""

from pathlib import Path

from .results import Records
from .training import sliced

ID, CUBES, WIDTH = "Puzzle-Cube-3x3-v0", 100, 2**16
LATER = ("--eval-episodes", "1024", "--checkpoint-every", "64")
FLAGS = (ID, "--algo", "last-move")
TINY = ("--walks", "2", "--scramble", "4", "--gradient-steps", "2", "--width", "8", "--blocks", "0")
TINY += ("--test-boards", "2", "--chunk", "1", "--eval-episodes", "4", "--total-steps", "60")
TINY_CUBES, TINY_WIDTH, TINY_NETWORK = 2, 16, 8  # TINY_NETWORK: width that marks a tiny run


def judged(path: Path) -> Records:
    """Solve random cubes with the policy of a finished run, by beam search."""
    import jax

    from jaxenvs.baselines.evaluation import heuristic, planner
    from jaxenvs.baselines.storage.runs import Run

    is_tiny = Run.open(path).config.settings["width"] == TINY_NETWORK
    plan, count = planner.load(path), TINY_CUBES if is_tiny else CUBES
    keys = jax.random.split(jax.random.key(heuristic.BOARDS_KEY), count)
    levels = jax.jit(jax.vmap(plan.puzzle.sample_level))(keys)
    found = heuristic.solve(plan, levels, "beam", batch_size=TINY_WIDTH if is_tiny else WIDTH)
    lengths = found["cost"][found["solved"]]
    figures = {"solved": float(found["solved"].mean()), "seconds": round(found["seconds"], 2)}
    figures["mean_length"] = round(float(lengths.mean()), 3) if len(lengths) else None
    case = {"part": "judged", "id": ID, "width": TINY_WIDTH if is_tiny else WIDTH, "boards": count}
    return [{**case, **figures}]


job = sliced([*FLAGS, *LATER], LATER, [*FLAGS, *TINY], judged)
