"""Exact solutions of levels: the fewest steps to success, with a plan and a proof.

The search is A* over the states of the environment, with the environment's own step function. One
compiled program solves a batch of levels.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...core import param_values
from ...core.env import Env
from ...levels.files import name_of
from ...levels.solving import Solution
from ..dynamicobstacles import DynamicObstacles
from ..env import GridEnv
from ..state import GridState
from . import bounds, nodes, sides
from .searching import SIZES, Found, Searcher

TOGETHER = 64  # largest number of levels that one search solves
# Memory for the distances of the levels of one search (see `distances.py`). A level needs about
# BYTES_PER_PAIR bytes for each pair of cells while they are computed: 5 MB for 22 x 22 cells, and
# 2.3 GB for 101 x 101.
TABLE_BYTES = 1 << 31
BYTES_PER_PAIR = 22


def solve(
    env: Env,
    levels: Any,
    *,
    node_budget: int = 1_000_000,
    batch_size: int = 256,
    shared: bool = False,
) -> list[Solution]:
    """Find the shortest plan of each level, for a Grid or BabyAI environment.

    levels: a level of `env.sample_level`, or levels with a leading axis. A state, or states with a
        leading axis, are also allowed; their plans start in these states.
    node_budget: largest number of states that a search stores. A search solves up to 64 levels,
        fewer if the grid is large (see `together`).
    batch_size: number of states that the search expands together.
    shared: whether levels with different numbers of objects share a compiled program, see
        `jaxenvs.levels.solve`.

    The plan ignores the time limit; `Solution.optimal_return` respects it. Raises `TypeError` for
    an environment without an optimum, such as one with moving obstacles.
    """
    world = checked(env)
    if np.ndim(levels.grid) == 2:
        levels = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], levels)
    count = levels.grid.shape[0]
    found: list[Solution] = []
    size = max(1, min(together(world), count))
    for at in range(0, count, size):
        rows = np.minimum(np.arange(at, at + size), count - 1)
        group = _rows(levels, rows)
        found += _solve_together(world, group, node_budget, batch_size, shared)[: count - at]
    return found


solve_levels = solve  # alias that `jaxenvs.levels.solve` calls
TAKES_STATES = True  # whether `solve_levels` accepts states as well as levels


def check(env: Env) -> None:
    """Raise `TypeError` unless `env` is a Grid or BabyAI environment with optimal plans.

    Environments with random steps or without a mission have no optimal plans.
    """
    checked(env)


def together(env: GridEnv) -> int:
    """Return the largest number of levels of an environment that one search solves: 1 to 64."""
    height, width = env.state_shape.grid.shape
    return max(1, min(TOGETHER, TABLE_BYTES // (BYTES_PER_PAIR * (height * width) ** 2)))


def _rows(levels: Any, rows: np.ndarray) -> Any:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[rows], levels)


def checked(env: Env) -> GridEnv:
    """Check an environment as `check` does, and return it without its wrappers."""
    world = getattr(env, "unwrapped", env)
    if not isinstance(world, GridEnv):
        raise TypeError(
            f"solve: {name_of(env)} is no Grid or BabyAI environment; puzzles are solved by "
            "jaxenvs.search, tasks of XLand by jaxenvs.xland.solve"
        )
    if isinstance(world, DynamicObstacles):
        raise TypeError(f"solve: obstacles of {name_of(env)} move at random, so no plan is optimal")
    if jax.eval_shape(world.aims, world.state_shape) is None:
        raise TypeError(f"solve: {name_of(env)} has no mission, so nothing is optimal")
    return world


def _solve_together(
    env: GridEnv, levels: Any, node_budget: int, batch_size: int, shared: bool
) -> list[Solution]:
    """Solve levels in one search; then try to prove the unproven results with `sides.prove`."""
    first, clocks = _starts(env, levels)
    env = _searched(env)
    sizes, most = bounds.sizes_of(first, shared), nodes.most_changed(first)
    if shared:  # round the size up, so that few different programs are compiled
        most = next((size for size in SIZES if size >= most), -(-most // SIZES[0]) * SIZES[0])
    searcher = Searcher(env, sizes, most, node_budget, batch_size)
    found = searcher.answers(first, np.ones(len(clocks), bool))
    found = sides.prove(searcher, first, found)
    return [_solution(found, i, *clocks[i].tolist()) for i in range(len(clocks))]


def _starts(env: GridEnv, levels: Any) -> tuple[Any, np.ndarray]:
    """Return the first states of the searches, and their (time, time limit), int (states, 2).

    The array has the original times; in the returned states, the time is set to 0.
    """
    if not isinstance(levels, GridState):
        levels = _first_states(env)(levels)
    spent = np.asarray(levels.time)
    limits = np.broadcast_to(jax.device_get(_limits(env)(levels)), spent.shape)
    first = jax.vmap(lambda state: state.replace(time=jnp.int32(0)))(levels)
    return first, np.stack([spent, limits], axis=1)


def _searched(env: GridEnv) -> GridEnv:
    """Return the environment with its default time limit.

    Searches ignore the time limit. Environments that differ only in the limit can therefore share
    one compiled program.
    """
    given = tuple(pair for pair in env.given_params if pair[0] != param_values.LIMIT)
    return dataclasses.replace(env, **{param_values.FIELD: given})


def _solution(found: Found, row: int, time: int, limit: int) -> Solution:
    """Convert one level's entries in the results of a search to a `Solution`.

    row: index of the level in the results.
    time: number of steps taken before the search.
    limit: time limit of the episode, in steps.
    """
    solved, proven = bool(found.solved[row]), bool(found.proven[row])
    steps = int(found.length[row]) if solved else None
    lower = max(1, int(found.lower[row]))
    bound = 1 - 0.9 * (time + lower) / limit if time + lower <= limit else 0.0
    bound = 0.0 if found.unsolvable[row] else bound
    return Solution(
        steps=steps,
        plan=tuple(found.actions[row, :steps].tolist()) if solved else (),
        lower=lower,
        proven=proven,
        unsolvable=bool(found.unsolvable[row]),
        optimal_return=bound if proven or bound == 0 else None,
        return_bound=bound,
    )


@functools.lru_cache(maxsize=64)
def _first_states(env: GridEnv) -> Any:
    key, params = jax.random.key(0), env.default_params
    return jax.jit(jax.vmap(lambda level: env.reset_state(key, level, params)))


@functools.lru_cache(maxsize=64)
def _limits(env: GridEnv) -> Any:
    return jax.jit(jax.vmap(lambda state: jnp.asarray(env.time_limit(state, env.default_params))))
