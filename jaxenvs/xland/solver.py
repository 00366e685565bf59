"""Solver: find out whether a task can be won in a level, and in how many steps.

First, an analysis without positions (`inventory.py`) detects provably unwinnable tasks, for which a
search might never finish. Then A* searches with the environment's step function. The nodes of the
search are boards: the grid and the agent, without the time.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt8, UInt32

from ..puzzles.puzzle import Move, PuzzleLevel
from ..search.astar import astar
from ..search.domain import Domain
from . import inventory, tiles, validation
from .engine import advance
from .rulesets import BESIDE_AGENT, BESIDE_TILE, HELD, PackedRuleset, Ruleset
from .state import Action, Level, XLandState
from .tiles import Kind

# Number of rules to which rulesets are padded, so that most rulesets use the same compiled program.
NUM_RULES = 18
# The heuristic follows chains of at most this many rules; in a chain, each rule makes an input of
# the next rule.
LEVELS_OF_RULES = 4
WEIGHT = 2.0  # weight of the heuristic in weighted A*
# Numbers of steps in the heuristic: `_PAIR` for a goal or rule with two tiles if one or both are
# missing; `_ALONE` for a goal or rule with one tile if this tile is missing; `_CARRY` to pick up a
# tile and put it next to the other tile.
_PAIR, _ALONE, _CARRY = 8.0, 4.0, 2.0
_WON = 1 << 18  # flag in `_Board.agent` for a won task; `XLandState.agent` does not use this bit


class Solution(NamedTuple):
    """Result of `solve`: the solution that was found, if any, and proven facts about the task."""

    winnable: bool | None  # True: solved; False: proven unsolvable; None: unknown
    steps: int | None  # length of `actions`; None if no solution was found
    actions: tuple[int, ...]  # actions that win from the start of the level; see `Action`
    shortest: bool  # whether `steps` is proven to be the minimum
    at_least: int  # proven lower bound on the number of steps to the goal
    # Changes of objects, as sentences, after which winning is impossible; see `Analysis.dead_end`.
    dead_end: tuple[str, ...]
    nodes: int  # number of boards (a board is the grid and the agent) that the search stored


class _Board(NamedTuple):
    grid: UInt8[Array, "height width"]
    agent: Int32[Array, ""]  # `XLandState.agent`, with the bit `_WON` set once the goal is reached


def solve(
    ruleset: Ruleset,
    level: Level,
    *,
    shortest: bool = False,
    node_budget: int = 200_000,
    batch_size: int = 256,
) -> Solution:
    """Search for actions that win a task in a level, such as one from `env.sample_level`.

    shortest: whether to find a provably shortest solution, which is feasible for small tasks only.
        If False, the search is faster, but its solution may be longer: it is weighted A* with an
        inadmissible heuristic.
    node_budget: largest number of nodes that the search stores; a node is a grid with the agent.
    batch_size: number of nodes that the search expands together.

    The search ignores the time limit of episodes. Raises `ValueError` for a ruleset that
    `XLand.params_for` would refuse for a grid of this size.
    """
    validation.check(ruleset, level.grid.shape[0])
    analysis = inventory.analyse(ruleset, _beside(level), _walled(level))
    if analysis.winnable is False:
        return Solution(False, None, (), False, 1, (), 0)
    count = max(NUM_RULES, np.asarray(ruleset.rules).any(axis=-1).sum())
    packed = ruleset.sized(int(count), ruleset.init_tiles.shape[0]).packed()
    goal, rules = jnp.asarray(packed.goal), jnp.asarray(packed.rules)
    instance = PackedRuleset(goal=goal, rules=rules, init_tiles=jnp.zeros(0, jnp.uint8))
    board = _Board(jnp.asarray(level.grid), XLandState.of(level).agent)
    found = jax.device_get(
        astar(
            _domain(level.grid.shape),
            PuzzleLevel(board=board, instance=instance),
            heuristic=_bound if shortest else _estimate,
            weight=1.0 if shortest else WEIGHT,
            admissible=shortest,
            node_budget=node_budget,
            batch_size=batch_size,
        )
    )
    length, solved = int(found.length), bool(found.solved)
    return Solution(
        winnable=True if solved else False if found.unsolvable else None,
        steps=length if solved else None,
        actions=tuple(found.actions[:length].tolist()) if solved else (),
        shortest=bool(found.optimal),
        at_least=max(int(found.lower_bound), 1) if np.isfinite(found.lower_bound) else 1,
        dead_end=analysis.dead_end,
        nodes=int(found.nodes),
    )


def _beside(level: Level) -> frozenset[int]:
    """Return the set of the tile bytes in the four cells next to the agent."""
    grid, (row, column, _) = np.asarray(level.grid), np.asarray(level.pose).tolist()
    places = ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1))
    return frozenset(int(grid[place]) for place in places)


def _walled(level: Level) -> dict[int, frozenset[int]]:
    """Return a dict from the byte of a goal tile to the sides on which the tile has a wall.

    The sides are 0 up, 1 right, 2 down and 3 left. If several tiles have the same byte, a side is
    included only if all of them have a wall there.
    """
    grid, found = np.asarray(level.grid), {}
    for row, column in np.argwhere(grid & 15 == Kind.GOAL).tolist():
        around = [(row - 1, column), (row, column + 1), (row + 1, column), (row, column - 1)]
        sides = {side for side, place in enumerate(around) if grid[place] == tiles.WALL}
        code = int(grid[row, column])
        found[code] = found.get(code, frozenset(range(4))) & sides
    return found


@functools.lru_cache(maxsize=64)
def _domain(shape: tuple[int, int]) -> Domain:
    height, width = shape
    spare = -height * width % 4

    def pack(board: _Board) -> UInt32[Array, " words"]:
        cells = jnp.pad(board.grid.reshape(-1), (0, spare)).reshape(-1, 4)
        words = jax.lax.bitcast_convert_type(cells, jnp.uint32)
        return jnp.append(words, board.agent.astype(jnp.uint32))

    def unpack(words: UInt32[Array, " words"]) -> _Board:
        cells = jax.lax.bitcast_convert_type(words[:-1], jnp.uint8).reshape(-1)
        grid = cells[: height * width].reshape(height, width)
        return _Board(grid, words[-1].astype(jnp.int32))

    return Domain(
        neighbours=_neighbours,
        is_goal=_is_won,
        pack=pack,
        unpack=unpack,
        num_actions=len(Action),
        num_words=(height * width + spare) // 4 + 1,
        unit_cost=True,
    )


def _is_won(ruleset: PackedRuleset, board: _Board) -> Bool[Array, ""]:
    return board.agent & _WON != 0


def _neighbours(ruleset: PackedRuleset, board: _Board) -> Move:
    state = XLandState(time=jnp.int32(0), grid=board.grid, agent=board.agent)

    def act(action: Array) -> _Board:
        after, reached = advance(state, action, ruleset)
        return _Board(after.grid, jnp.where(reached, after.agent | _WON, after.agent))

    after = jax.vmap(act)(jnp.arange(len(Action), dtype=jnp.int32))
    differs = (after.grid != board.grid).any(axis=(1, 2)) | (after.agent != board.agent)
    goes_on = ~_is_won(ruleset, board)
    board = jax.tree.map(
        lambda new, old: jnp.where(goes_on, new, jnp.broadcast_to(old, new.shape)), after, board
    )
    return Move(board, jnp.ones(len(Action), jnp.float32), differs & goes_on)


class _Facts(NamedTuple):
    """Goal (index 0) and rules (from index 1), and the distances of their tiles on a board."""

    flags: UInt32[Array, " facts"]
    made: UInt32[Array, " facts"]
    # Tile bytes in the conditions of the goal and of each rule; padded with 0 if a condition names
    # fewer than two tiles.
    tiles: UInt32[Array, "facts 2"]
    # For each entry of `tiles`, Manhattan distance from the agent to the nearest tile of this byte.
    # 0 if the agent carries such a tile, infinite if the board has no such tile.
    away: Float32[Array, "facts 2"]
    # Manhattan distance between the two tiles of each condition. If the board has several tiles
    # with a byte, the one nearest to the agent counts.
    apart: Float32[Array, " facts"]


def _facts(ruleset: PackedRuleset, board: _Board) -> _Facts:
    words = jnp.append(ruleset.goal, ruleset.rules)
    named = jnp.stack([words & 255, (words >> 8) & 255], axis=1)
    height, width = board.grid.shape
    rows, columns = np.divmod(np.arange(height * width, dtype=np.int32), np.int32(width))
    row, column = board.agent & 0xFF, (board.agent >> 8) & 0xFF
    far = (jnp.abs(rows - row) + jnp.abs(columns - column)).astype(jnp.float32)
    there = board.grid.reshape(-1).astype(jnp.uint32) == named[..., None]
    steps = jnp.where(there, far, jnp.inf)
    at_row, at_column = jnp.divmod(steps.argmin(axis=-1).astype(jnp.int32), jnp.int32(width))
    apart = jnp.abs(at_row[:, 0] - at_row[:, 1]) + jnp.abs(at_column[:, 0] - at_column[:, 1])
    pocket = (board.agent >> 24).astype(jnp.uint32) & 255
    away = jnp.where(named == pocket, 0.0, steps.min(axis=-1))
    return _Facts(words >> 24, (words >> 16) & 255, named, away, apart.astype(jnp.float32))


def _bound(ruleset: PackedRuleset, board: _Board) -> Float32[Array, ""]:
    """Return a lower bound on the number of steps to the goal, at least 1 unless the task is won.

    The agent has to come within two cells of each tile of the goal that no rule makes, and then act
    once more. The bound is the largest Manhattan distance to such a tile, minus 1.
    """
    facts = _facts(ruleset, board)
    is_made = (facts.made[1:] == facts.tiles[0][:, None]).any(axis=1)
    counts = (facts.tiles[0] != 0) & ~is_made & (facts.flags[0] >= BESIDE_AGENT)
    steps = jnp.where(counts, facts.away[0] - 1, 1.0).max()
    return jnp.where(_is_won(ruleset, board), 0.0, jnp.maximum(steps, 1.0))


def _estimate(ruleset: PackedRuleset, board: _Board) -> Float32[Array, ""]:
    """Estimate the number of steps to the goal, as a sum over the rules that the goal needs.

    The estimate is not admissible. It is infinite if a missing tile cannot be made.
    """
    facts = _facts(ruleset, board)
    pair = (facts.flags & BESIDE_TILE) != 0
    first, second = facts.away[:, 0], jnp.where(pair, facts.away[:, 1], 0.0)
    carried = jnp.minimum(first, second) == 0
    apart = jnp.where(carried, jnp.maximum(first, second), jnp.minimum(first, second) + facts.apart)
    ready = jnp.where(pair, apart + jnp.where(carried, 0.0, _CARRY), first)
    lacks = jnp.isinf(facts.away) & (facts.tiles != 0)
    later = jnp.where(pair, _PAIR, _ALONE)
    # `makes`, bool (facts, 2, rules): whether a rule makes a tile that the goal or a rule tests.
    # The cost of a missing tile is the cost of the cheapest rule that makes it. Each iteration
    # below follows the rules one level deeper.
    makes = (facts.tiles[..., None] == facts.made[1:]) & (facts.flags[1:] != 0)
    costs = jnp.where(lacks.any(axis=1), jnp.inf, ready)
    for _ in range(LEVELS_OF_RULES):
        cheapest = jnp.where(makes, costs[1:], jnp.inf).min(axis=-1)
        made = jnp.where(lacks, cheapest, 0.0).sum(axis=1)
        costs = jnp.where(lacks.any(axis=1), made + later, ready)
    steps = jnp.maximum(costs[0], 1.0)
    stated = (facts.flags[0] & (BESIDE_AGENT | BESIDE_TILE | HELD)) != 0
    return jnp.where(_is_won(ruleset, board), 0.0, jnp.where(stated, steps, 1.0))
