"""Exact solver of puzzles for `jaxenvs.levels.solve`: A* with the puzzle's own heuristic."""

import functools
from typing import Any

import jax
import numpy as np

from ..core.env import Env
from ..levels.files import name_of
from ..levels.solving import Solution
from ..puzzles.puzzle import Puzzle, PuzzleLevel
from .astar import astar

TOGETHER = 64  # maximum number of levels that one search solves
LONG = 4096  # maximum number of actions of a plan that a search returns
TAKES_STATES = True  # whether `solve_levels` accepts states as well as levels


def check(env: Env) -> None:
    """Raise `TypeError` for a puzzle whose actions differ in cost."""
    puzzle: Any = getattr(env, "unwrapped", env)
    if not puzzle.unit_cost:
        raise TypeError(
            f"levels.solve: actions of {name_of(env)} differ in cost, so the fewest steps are "
            "not the cheapest; use jaxenvs.search.astar"
        )


def solve_levels(
    env: Env, levels: Any, *, node_budget: int, batch_size: int, shared: bool = False
) -> list[Solution]:
    """Find the shortest plan of each level of a puzzle, see `jaxenvs.levels.solve`.

    `shared`, which asks for one compiled program for levels of different sizes, has no effect: all
    levels of a puzzle share a compiled program in any case. Raises `TypeError` for a puzzle that
    cannot be searched, or whose actions differ in cost.
    """
    puzzle: Any = getattr(env, "unwrapped", env)
    check(env)
    spent = np.atleast_1d(getattr(levels, "time", 0))  # steps before each state; 0 for a level
    levels = PuzzleLevel(board=levels.board, instance=levels.instance)
    wanted = jax.tree.leaves(puzzle.level_shape)
    if np.ndim(jax.tree.leaves(levels)[0]) == len(wanted[0].shape):
        levels = jax.tree.map(lambda leaf: np.asarray(leaf)[None], levels)
    count, found = len(jax.tree.leaves(levels)[0]), []
    for at in range(0, count, TOGETHER):
        group = jax.tree.map(lambda leaf, at=at: leaf[at : at + TOGETHER], levels)
        search = functools.partial(
            astar, puzzle, group, node_budget=node_budget, batch_size=batch_size
        )
        result = jax.device_get(search(max_length=LONG))
        longest = int(np.max(result.length, where=result.solved, initial=0))
        if longest > LONG:  # the result has no plan that is longer than `max_length`
            result = jax.device_get(search(max_length=longest))
        limit = int(np.min(env.default_params.max_steps_in_episode))
        left = limit - np.broadcast_to(spent, count)[at : at + TOGETHER]
        rows = range(len(result.solved))
        found += [_solution(puzzle, result, row, int(left[row])) for row in rows]
    return found


def _solution(puzzle: Puzzle, result: Any, row: int, limit: int) -> Solution:
    """Return the solution of the level at index `row` of a search's results.

    limit: number of steps that are left in the episode.
    """
    unsolvable, solved = bool(result.unsolvable[row]), bool(result.solved[row])
    bound, length = float(result.lower_bound[row]), int(result.length[row])
    proven = bool(result.optimal[row])
    lower = length if proven else int(np.ceil(bound)) if np.isfinite(bound) else 0
    best, plain = None, type(puzzle).step_reward is Puzzle.step_reward
    if plain:
        best = 1.0 if solved and length <= limit else None
        best = 0.0 if unsolvable or lower > limit else best
    return Solution(
        steps=length if solved else None,
        plan=tuple(result.actions[row, :length].tolist()) if solved else (),
        lower=max(lower, 0),
        proven=proven,
        unsolvable=unsolvable,
        optimal_return=best,
        return_bound=1.0 if plain and best is None else best,
    )
