"""Exact solver of XLand for `jaxenvs.levels.solve`: the shortest plan of each level's task."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core.env import Env
from ..levels.files import name_of
from ..levels.solving import Solution
from .rulesets import Ruleset
from .solver import solve
from .state import Level


def solve_levels(
    env: Env, levels: Any, *, node_budget: int, batch_size: int, shared: bool = False
) -> list[Solution]:
    """Find the shortest plan of each level for the task of the environment's default params.

    See `jaxenvs.levels.solve`. Raises `TypeError` for states, because a state has no task.
    """
    if not isinstance(levels, Level):
        raise TypeError(
            f"levels.solve: {name_of(env)} solves levels of env.sample_level, got "
            f"{type(levels).__name__}"
        )
    params: Any = env.default_params
    task = params.ruleset.unpacked()
    limit = int(np.min(params.max_steps_in_episode))
    if np.ndim(levels.grid) == 2:
        levels = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], levels)
    rows = [jax.tree.map(lambda leaf, i=i: leaf[i], levels) for i in range(len(levels.grid))]
    return [_solution(task, row, limit, node_budget, batch_size) for row in rows]


def _solution(task: Ruleset, level: Any, limit: int, node_budget: int, batch_size: int) -> Solution:
    """Return the solution of `task` in one level, where episodes end after `limit` steps."""
    found = solve(task, level, shortest=True, node_budget=node_budget, batch_size=batch_size)
    unsolvable, steps = found.winnable is False, found.steps
    best = None
    if found.shortest and steps is not None:
        best = 1 - 0.9 * steps / limit if steps <= limit else 0.0
    elif unsolvable or found.at_least > limit:
        best = 0.0
    return Solution(
        steps=steps,
        plan=found.actions,
        lower=found.at_least if steps is None or not found.shortest else steps,
        proven=found.shortest,
        unsolvable=unsolvable,
        optimal_return=best,
        return_bound=max(0.0, 1 - 0.9 * found.at_least / limit) if best is None else best,
    )
