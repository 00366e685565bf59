"""Exact solutions of levels: the fewest steps to success, with a plan and a proof.

The search is A* over the states of the environment, with its own step function, so it has the rules
of the environment by construction. One program solves a batch of levels.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, UInt32

from ...core import param_values
from ...core.env import Env
from ...levels.solving import Solution
from ...puzzles.puzzle import Move, PuzzleLevel
from ...search.astar import astar
from ...search.domain import Domain
from .. import tiles
from ..dynamicobstacles import DynamicObstacles
from ..env import GridEnv
from ..state import Action, GridState
from . import bounds, nodes

TOGETHER = 64  # number of levels that one search solves
LONG = 512  # number of actions of a plan that the first search can return
SHORT = 8  # number of changed cells that a node can hold in the first search
DOORS = 2  # number of locked doors for which a shared program has room at least


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
        leading axis, are solved from there.
    node_budget: largest number of states that a search of up to 64 levels stores.
    batch_size: number of states that the search expands together.
    shared: whether levels with other numbers of objects share a compiled program, see
        `jaxenvs.levels.solve`.

    The plan ignores the time limit; `optimal_return` takes it into account. Raises `TypeError` for
    an environment without an optimum, such as one with moving obstacles.
    """
    world = _checked(env)
    if np.ndim(levels.grid) == 2:
        levels = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], levels)
    count = levels.grid.shape[0]
    found: list[Solution] = []
    for at in range(0, count, TOGETHER):
        rows = np.minimum(np.arange(at, at + min(TOGETHER, count)), count - 1)
        group = _rows(levels, rows)
        found += _solve_together(world, group, node_budget, batch_size, shared)[: count - at]
    return found


solve_levels = solve  # the name that `jaxenvs.levels.solve` calls
TAKES_STATES = True  # whether `solve_levels` also takes states


def check(env: Env) -> None:
    """Raise `TypeError` if the environment has no optimum."""
    _checked(env)


def _rows(levels: Any, rows: np.ndarray) -> Any:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[rows], levels)


def _checked(env: Env) -> GridEnv:
    """Return the environment without wrappers; raise `TypeError` if it has no optimum."""
    world = getattr(env, "unwrapped", env)
    if not isinstance(world, GridEnv):
        raise TypeError(
            f"solve: {env.name} is no Grid or BabyAI environment; puzzles are solved by "
            "jaxenvs.search, tasks of XLand by jaxenvs.xland.solve"
        )
    if isinstance(world, DynamicObstacles):
        raise TypeError(f"solve: obstacles of {env.name} move at random, so no plan is optimal")
    if jax.eval_shape(world.aims, world.state_shape) is None:
        raise TypeError(f"solve: {env.name} has no mission, so nothing is optimal")
    return world


class _Found(NamedTuple):
    """Results of a search, one row per level."""

    solved: np.ndarray
    cut: np.ndarray  # bool: the search ended at a state that its nodes could not hold
    length: np.ndarray
    actions: np.ndarray
    lower: np.ndarray
    proven: np.ndarray
    unsolvable: np.ndarray


def _solve_together(
    env: GridEnv, levels: Any, node_budget: int, batch_size: int, shared: bool
) -> list[Solution]:
    """Solve levels in one search, and those that need more changed cells in a second one."""
    first, clocks = _starts(env, levels)
    env = _searched(env)
    most = nodes.most_changed(first)
    kinds = first.grid & jnp.uint8(15)
    doors = int((kinds == tiles.Kind.LOCKED_DOOR).sum((1, 2)).max())
    if shared:  # round the sizes up, so that few different programs are compiled
        most, doors = -(-most // SHORT) * SHORT, max(doors, DOORS)
    tables = _tables(doors)(first)
    short = min(most, SHORT)
    found = _search(env, tables, short, short < most, node_budget, batch_size)
    if found.cut.any():
        whole = _search(env, tables, most, False, node_budget, batch_size)
        whole = whole._replace(lower=np.maximum(whole.lower, found.lower))
        pairs = zip(whole, found, strict=True)
        found = _Found(*(np.where(_like(found.cut, x), x, y) for x, y in pairs))
    return [_solution(found, i, *clocks[i].tolist()) for i in range(len(found.cut))]


def _starts(env: GridEnv, levels: Any) -> tuple[Any, np.ndarray]:
    """Return the states in which levels begin, with time 0, and rows of (time, time limit)."""
    if not isinstance(levels, GridState):
        levels = _first_states(env)(levels)
    spent = np.asarray(levels.time)
    limits = np.broadcast_to(jax.device_get(_limits(env)(levels)), spent.shape)
    first = jax.vmap(lambda state: state.replace(time=jnp.int32(0)))(levels)
    return first, np.stack([spent, limits], axis=1)


def _searched(env: GridEnv) -> GridEnv:
    """Return the environment with its default time limit, which no search reads.

    So levels with different limits are searched by the same compiled program.
    """
    given = tuple(pair for pair in env.given_params if pair[0] != param_values.LIMIT)
    return dataclasses.replace(env, **{param_values.FIELD: given})


def _like(rows: np.ndarray, array: np.ndarray) -> np.ndarray:
    return rows.reshape(-1, *[1] * (array.ndim - 1))


def _search(
    env: GridEnv, tables: bounds.Level, most: int, is_short: bool, node_budget: int, batch: int
) -> _Found:
    """Search all levels with nodes that hold `most` changed cells.

    is_short: whether states exist that have more changed cells.
    """
    begin = jax.vmap(lambda state: nodes.start(state, most).words)(tables.first)
    domain, levels = _domain(env, most, is_short), PuzzleLevel(board=begin, instance=tables)
    search = functools.partial(astar, domain, levels, node_budget=node_budget, batch_size=batch)
    found = jax.device_get(search(max_length=LONG))
    longest = int(found.length.max())
    if longest > LONG:
        found = jax.device_get(search(max_length=longest))
    cut = found.solved & (found.board[:, 0] & nodes.CUT != 0)
    bound = np.where(np.isfinite(found.lower_bound), found.lower_bound, 0)
    return _Found(
        solved=found.solved & ~cut,
        cut=cut,
        length=found.length,
        actions=found.actions,
        lower=np.ceil(np.where(found.solved & found.optimal, found.cost, bound)).astype(int),
        proven=found.optimal & ~cut,
        unsolvable=found.unsolvable,
    )


def _solution(found: _Found, row: int, time: int, limit: int) -> Solution:
    """Return the solution of a level that begins at this time, given the results of a search."""
    solved, proven = bool(found.solved[row]), bool(found.proven[row])
    steps = int(found.length[row]) if solved else None
    best = None
    if proven and steps is not None:
        end = time + steps
        best = 1 - 0.9 * end / limit if end <= limit else 0.0
    elif found.unsolvable[row] or time + found.lower[row] > limit:
        best = 0.0
    return Solution(
        steps=steps,
        plan=tuple(found.actions[row, :steps].tolist()) if solved else (),
        lower=max(1, int(found.lower[row])),
        proven=proven,
        unsolvable=bool(found.unsolvable[row]),
        optimal_return=best,
    )


@functools.lru_cache(maxsize=64)
def _first_states(env: GridEnv) -> Any:
    key, params = jax.random.key(0), env.default_params
    return jax.jit(jax.vmap(lambda level: env.reset_state(key, level, params)))


@functools.lru_cache(maxsize=64)
def _limits(env: GridEnv) -> Any:
    return jax.jit(jax.vmap(lambda state: jnp.asarray(env.time_limit(state, env.default_params))))


@functools.lru_cache(maxsize=64)
def _tables(doors: int) -> Any:
    return jax.jit(jax.vmap(lambda first: bounds.level_of(first, doors)))


@functools.lru_cache(maxsize=64)
def _domain(env: GridEnv, most: int, is_short: bool) -> Domain:
    """Return the search problem whose nodes hold `most` changed cells.

    is_short: whether a state may have more changed cells. Such a state becomes a goal; its cost is
        the lower bound on the steps from there. So a cheaper goal is optimal, and if there is none,
        the cost is a lower bound.
    """
    key, params = jax.random.key(0), env.default_params

    def bound(level: bounds.Level, words: UInt32[Array, " words"]) -> Float32[Array, ""]:
        is_over = words[0] & (nodes.WON | nodes.CUT) != 0
        state = nodes.state_of(nodes.Node.of(words), level.first)
        return jnp.where(is_over, jnp.float32(0), bounds.lower_bound(env, level, state))

    def move(level: bounds.Level, words: UInt32[Array, " words"], action: Array) -> Move:
        node = nodes.Node.of(words)
        state = nodes.state_of(node, level.first)
        after, reward, terminated, _ = env.step_state(key, state, action, params)
        won = terminated & (reward > 0)
        made, fits = nodes.after(node, level.first, after, bounds.front_cell(state), action)
        made = made._replace(agent=made.agent | jnp.where(won, nodes.WON, np.uint32(0)))
        new, cost = made.words, jnp.float32(1)
        if is_short:
            rest = jnp.where(won, jnp.float32(0), bounds.lower_bound(env, level, after))
            sink = jnp.zeros_like(new).at[0].set(nodes.CUT)
            new, cost = jnp.where(fits, new, sink), jnp.where(fits, cost, 1 + rest)
        valid = (won | ~terminated) & (new != words).any() & jnp.isfinite(cost)
        cost = jnp.where(valid, cost, jnp.float32(1))
        return Move(board=jnp.where(valid, new, words), cost=cost, valid=valid)

    def neighbours(level: bounds.Level, words: UInt32[Array, " words"]) -> Move:
        actions = jnp.arange(len(Action), dtype=jnp.int32)
        return jax.vmap(move, (None, None, 0))(level, words, actions)

    def is_goal(level: bounds.Level, words: UInt32[Array, " words"]) -> Bool[Array, ""]:
        return words[0] & (nodes.WON | nodes.CUT) != 0

    return Domain(
        neighbours=neighbours,
        is_goal=is_goal,
        pack=lambda words: words,
        unpack=lambda words: words,
        num_actions=len(Action),
        num_words=most + 2,
        heuristic=bound,
        unit_cost=not is_short,
    )
