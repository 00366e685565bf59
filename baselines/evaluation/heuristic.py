"""Evaluate a puzzle run: the heuristic or policy of `davi`, `last-move` or `world`.

The program searches from random boards (states of the puzzle) with the learned heuristic or policy,
and compares the costs of the plans with the optimal costs. Run it with

python -m jaxenvs.baselines.evaluation.heuristic RUN --boards 1000

For Lights Out, mazes and Hanoi (three pegs), optimal costs are computed without a search. For other
puzzles, such as the 2x2x2 cube, 8-puzzle, Pyraminx and Skewb, A* with the puzzle's built-in
heuristic computes them. If A* does not finish within the node budget, a board's optimal cost is
unknown.

A run of `last-move` has a policy for beam search, whose width is --batch-size. With a heuristic,
the search is Q* by default if the run's network has an output per action, otherwise A*. With a run
of `world`, this search simulates moves in the model of the puzzle that the run learned. A board
then counts as solved if the plan solves it in the puzzle itself. The program writes heuristic.json
into the run's directory; with several seeds, it has a list `per_seed`.
"""

import contextlib
import functools
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxenvs import search
from jaxenvs.commands.parser import Parser
from jaxenvs.puzzles.puzzle import Puzzle, PuzzleLevel

from ..storage.runs import Run
from . import planner
from .planner import Planner

BOARDS_KEY = 0xB0A2D5  # seed of the test boards, which are the same for every run
AT_ONCE = 100  # largest number of boards that one call of a search solves together
# Number of boards that beam searches expand together: with wide beams, a call solves fewer boards.
BEAMS = 131_072
LONGEST = 512  # largest number of actions in a plan
LONGEST_BEAM = 200  # largest number of actions in a plan of a beam search


def compare(
    plan: Planner,
    levels: PuzzleLevel,
    weight: float = 1.0,
    budget: int = 50_000,
    algorithm: str = "astar",
    batch_size: int = 1024,
) -> dict[str, Any]:
    """Search from `levels` with a learned heuristic or policy; compare with the optimum.

    The arrays of `levels` are (boards, ...). A search may store `budget` nodes per board. Returns
    the content of heuristic.json: settings, fractions of boards, mean costs, node counts and times.
    Mean costs are over the boards that the search solved and whose optimal cost is known.
    """
    boards = len(jax.tree.leaves(levels.board)[0])
    learned = solve(plan, levels, algorithm, weight, budget, batch_size)
    found, solved = learned["found"], learned["solved"]
    least, proven, own = _optimum(plan.puzzle, levels, boards, budget)
    result = {"boards": boards, "algorithm": algorithm}
    if algorithm == "beam":
        result |= {"width": batch_size}
    else:
        result |= {"weight": weight, "budget": budget}
    if plan.in_model:
        result["plans"] = float(found.mean())  # fraction of boards for which a plan was found
    result |= {
        "solved": float(solved.mean()),
        "proven": float(proven.mean()),  # fraction of boards whose optimal cost is known
    }
    if (both := solved & proven).any():
        cost, least = learned["cost"][both], least[both]
        result |= {
            "mean_cost": round(float(cost.mean()), 4),
            "least_mean_cost": round(float(least.mean()), 4),
            "ratio": round(float(cost.mean() / least.mean()), 5),
            "optimal": round(float((cost <= least + 1e-3).mean()), 4),
        }
    return {**result, **_effort("", learned, boards), **_effort("_with_own_bound", own, boards)}


def solve(
    plan: Planner,
    levels: PuzzleLevel,
    algorithm: str,
    weight: float = 1.0,
    budget: int = 50_000,
    batch_size: int = 1024,
    at_once: int = AT_ONCE,
) -> dict[str, Any]:
    """Search from `levels` with a learned heuristic or policy; play the plans in the puzzle.

    A call of the compiled search solves at most `at_once` boards.
    Returns a dict of arrays with an entry for each board: `found` (whether the search found a
    plan), `solved` (whether this plan solves the puzzle), `cost` and `actions`; and of the total
    node counts and seconds. A beam search has width `batch_size`, but no weight and no budget.
    """
    boards, settings, limit = len(jax.tree.leaves(levels.board)[0]), dict[str, Any](), None
    if algorithm == "beam":
        settings = {"width": batch_size, "max_length": LONGEST_BEAM}
        at_once = max(1, min(at_once, BEAMS // batch_size))
    else:
        settings = {"weight": weight, "batch_size": batch_size, "max_length": LONGEST}
        limit = budget
    method = functools.partial(
        getattr(search, algorithm), plan.domain, **plan.guide(algorithm), **settings
    )
    seen = plan.levels(levels, jax.random.key(BOARDS_KEY))
    learned = _all(method, seen, boards, limit, at_once)
    _, right = planner.played(plan.puzzle, levels, learned["actions"])
    found = learned.pop("solved")
    return {**learned, "found": found, "solved": found & np.asarray(right)}


def _effort(suffix: str, found: dict[str, Any], boards: int) -> dict[str, float]:
    """Return the node counts and times of a search, without compilation; {} if `found` is empty."""
    if not found:
        return {}
    return {
        f"expanded_per_board{suffix}": round(found["expanded"] / boards, 1),
        # mean number of states that the search stores for a board
        f"nodes_per_board{suffix}": round(found["nodes"] / boards, 1),
        f"processor_seconds{suffix}": round(found["processor"], 1),
        f"nodes_per_second{suffix}": round(found["nodes"] / max(found["seconds"], 1e-9)),
        f"nodes_per_processor_second{suffix}": round(
            found["nodes"] / max(found["processor"], 1e-9)
        ),
    }


def _optimum(
    puzzle: Puzzle, levels: PuzzleLevel, boards: int, budget: int
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Return the optimal cost of each board, whether it is known, and the result of an A* search.

    If the puzzle implements `Puzzle.oracle`, this method computes optimal costs without a search,
    and the result is {}. Otherwise A* computes the costs, and the result is the dict that
    `_all` returns.
    """
    with contextlib.suppress(NotImplementedError):  # raised by Hanoi with more than three pegs
        least = jax.jit(jax.vmap(puzzle.oracle))(levels.instance, levels.board)
        return np.asarray(least, np.float32), np.ones(boards, np.bool_), {}
    method = functools.partial(search.astar, puzzle, batch_size=4096, terminate="optimal")
    found = _all(method, levels, boards, budget)
    return found["cost"], found["optimal"], found


def main(argv: list[str] | None = None) -> int:
    """Compare the run's heuristic with the optimum; print and write the results."""
    parser = Parser("python -m jaxenvs.baselines.evaluation.heuristic", __doc__)
    parser.add_argument("run")
    parser.add_argument("--boards", type=int, default=1000)
    parser.add_argument("--weight", type=float, default=1.0, help="of the learned cost-to-go")
    parser.add_argument("--budget", type=int, default=50_000, help="nodes for each board")
    choices = ("astar", "qstar", "beam")
    parser.add_argument("--algorithm", choices=choices, help="(default: see above)")
    parser.add_argument("--batch-size", type=int, default=1024, help="nodes expanded together")
    args = parser.parse_args(argv)
    try:
        run, found = Run.open(args.run), list[dict[str, Any]]()
        for i in range(run.config.seeds):
            plan = planner.load(args.run, i)
            algorithm = args.algorithm or plan.algorithm
            keys = jax.random.split(jax.random.key(BOARDS_KEY), args.boards)
            levels = jax.jit(jax.vmap(plan.puzzle.sample_level))(keys)
            judged = compare(plan, levels, args.weight, args.budget, algorithm, args.batch_size)
            seed = {"seed": run.config.seed + i} if run.config.seeds > 1 else {}
            found.append({**seed, **judged})
            print_figures(found[-1])
    except ValueError as error:
        print(f"heuristic: {error}", file=sys.stderr)
        return 2
    run.write_json("heuristic.json", {"per_seed": found} if len(found) > 1 else found[0])
    return 0


def print_figures(found: dict[str, Any]) -> None:
    """Print each result of `compare` on a line."""
    for name, value in found.items():
        print(f"{name.replace('_', ' ')}: {value}")


def _all(
    method: Callable[..., search.Result],
    levels: PuzzleLevel,
    boards: int,
    budget: int | None,
    at_once: int = AT_ONCE,
) -> dict[str, Any]:
    """Search from all levels, `at_once` levels at a time.

    `budget` is the number of nodes that a search may store per board, None for a beam search.

    Return a dict of arrays with an entry for each board (whether it is solved, whether its plan is
    proven to be optimal, and the plan's cost and actions) and of the total node counts and seconds.
    """
    columns: dict[str, list[np.ndarray]] = {"solved": [], "optimal": [], "cost": [], "actions": []}
    counts = {"expanded": 0, "nodes": 0, "seconds": 0.0, "processor": 0.0}
    programs: dict[int, Any] = {}
    for start in range(0, boards, at_once):
        some = jax.tree.map(lambda leaf, i=start: leaf[i : i + at_once], levels)
        count = min(at_once, boards - start)
        if count not in programs:
            limits = {} if budget is None else {"node_budget": budget * count}
            searched = functools.partial(method, **limits)
            programs[count] = jax.jit(searched).lower(some).compile()
        begun = time.perf_counter(), time.process_time()
        found = jax.block_until_ready(programs[count](some))
        counts["seconds"] += time.perf_counter() - begun[0]
        counts["processor"] += time.process_time() - begun[1]
        counts["expanded"] += int(found.expanded)
        counts["nodes"] += int(found.nodes)
        for name, parts in columns.items():
            parts.append(np.asarray(getattr(found, name)))
    return {**{name: np.concatenate(parts) for name, parts in columns.items()}, **counts}


if __name__ == "__main__":
    sys.exit(main())
