"""Evaluate a learned cost-to-go: A* or Q* with it, compared with proven shortest solutions.

python -m jaxenvs.baselines.heuristic RUN --boards 1000

Shortest solutions are proven by A* with the puzzle's built-in heuristic, where that search ends:
2x2x2 cube, 8-puzzle, Pyraminx, Skewb. A run with a head per action is searched by Q*. Writes
heuristic.json into the run.
"""

import sys
import time
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PyTree

from jaxenvs import search
from jaxenvs.commands.parser import Parser
from jaxenvs.puzzles.puzzle import Puzzle

from .davi import load_heuristic, load_q
from .runs import Run

BOARDS_KEY = 0xB0A2D5  # the same boards for every run
AT_ONCE = 100  # boards that are searched together


def compare(
    puzzle: Puzzle, heuristic: Any, boards: int, weight: float, budget: int, by_action: bool = False
) -> dict:
    """Search from random boards with a heuristic and, to a proof, with the puzzle's built-in one.

    `by_action`: the heuristic is that of `search.qstar`. `budget` is the node budget for each
    board. A board for which either search ended without a solution counts as not solved, and in no
    mean.
    """
    keys = jax.random.split(jax.random.key(BOARDS_KEY), boards)
    levels = jax.vmap(puzzle.sample_level)(keys)
    settings = {"weight": weight, "batch_size": 1024, "terminate": "first"}
    given = {"q": heuristic} if by_action else {"heuristic": heuristic}
    method = search.qstar if by_action else search.astar
    learned = _all(method, puzzle, levels, boards, budget, **given, **settings)
    exact = _all(search.astar, puzzle, levels, boards, budget, batch_size=4096, terminate="optimal")
    both = learned["solved"] & exact["optimal"]
    if not both.any():
        return {"boards": boards, "solved": float(learned["solved"].mean())}
    length, least = learned["cost"][both], exact["cost"][both]
    return {
        "boards": boards,
        "weight": weight,
        "solved": float(learned["solved"].mean()),
        "proven": float(exact["optimal"].mean()),  # boards whose least cost is known
        "mean_cost": round(float(length.mean()), 4),
        "least_mean_cost": round(float(least.mean()), 4),
        "ratio": round(float(length.mean() / least.mean()), 5),
        "optimal": round(float((length == least).mean()), 4),
        "nodes_per_board": round(learned["nodes"] / boards, 1),  # states generated and kept
        "expanded_per_board": round(learned["expanded"] / boards, 1),
        "expanded_per_board_with_own_bound": round(exact["expanded"] / boards, 1),
        "processor_seconds": round(learned["seconds"], 1),
        "processor_seconds_with_own_bound": round(exact["seconds"], 1),
    }


def main(argv: list[str] | None = None) -> int:
    """Compare, print and write the figures."""
    parser = Parser("python -m jaxenvs.baselines.heuristic", __doc__)
    parser.add_argument("run")
    parser.add_argument("--boards", type=int, default=1000)
    parser.add_argument("--weight", type=float, default=1.0, help="of the learned cost-to-go")
    parser.add_argument("--budget", type=int, default=50_000, help="nodes for each board")
    asked = parser.parse_args(argv)
    try:
        run = Run.open(asked.run)
        by_action = bool(run.config.settings.get("q"))
        heuristic = (load_q if by_action else load_heuristic)(asked.run)
        puzzle = run.config.env
        assert isinstance(puzzle, Puzzle)  # or DAVI would not have been
        found = compare(puzzle, heuristic, asked.boards, asked.weight, asked.budget, by_action)
    except ValueError as error:
        print(f"heuristic: {error}", file=sys.stderr)
        return 2
    run.write_json("heuristic.json", found)
    for name, value in found.items():
        print(f"{name.replace('_', ' ')}: {value}")
    return 0


def _all(
    method: Any, puzzle: Puzzle, levels: PyTree[Array], boards: int, budget: int, **settings: Any
) -> dict:
    """Search from all levels, some at a time; columns of the results, and the time."""
    columns: dict[str, list[np.ndarray]] = {"solved": [], "optimal": [], "cost": []}
    begun, expanded, nodes = time.process_time(), 0, 0
    for start in range(0, boards, AT_ONCE):
        some = jax.tree.map(lambda leaf, i=start: leaf[i : i + AT_ONCE], levels)
        count = min(AT_ONCE, boards - start)
        found = method(puzzle, some, node_budget=budget * count, **settings)
        expanded, nodes = expanded + int(found.expanded), nodes + int(found.nodes)
        for name, parts in columns.items():
            parts.append(np.asarray(getattr(found, name)))
    whole = {name: np.concatenate(parts) for name, parts in columns.items()}
    whole |= {"expanded": expanded, "nodes": nodes}
    return {**whole, "seconds": time.process_time() - begun}


if __name__ == "__main__":
    sys.exit(main())
