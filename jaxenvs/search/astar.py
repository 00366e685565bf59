"""Batched A* and Q* on an accelerator, in a fixed amount of memory.

One call searches one level, or many levels that share one hash table. A* expands many nodes at a
time (batch weighted A* search, BWAS; Agostinelli et al. 2019, "Solving the Rubik's cube with deep
reinforcement learning and search"). In Q*, an entry of the open list is one action of a board, and
one evaluation gives the priorities of all actions of a board (Agostinelli et al. 2024, "Q*
Search").
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float32

from ..core import checks
from ..puzzles.puzzle import PuzzleLevel
from .domain import as_levels, checked_domain
from .engine import Engine, Settings, keys_of, rows_for
from .memory import check_memory
from .result import Result

TERMINATES = ("first", "optimal")
# Limits of the arguments `weight` (at most MOST) and `bucket_width` (LEAST to MOST).
# Beyond them, float32 priorities could become infinite, and bucket widths could become 0.
MOST, LEAST = 1e30, 1e-30


def astar(
    domain: Any,
    level: Any,
    *,
    heuristic: Callable[[Any, Any], Array] | None = None,
    weight: float = 1.0,
    batch_size: int = 1024,
    node_budget: int = 1_000_000,
    terminate: str = "first",
    max_length: int = 512,
    admissible: bool | None = None,
    bucket_width: float | None = None,
) -> Result:
    """Search for the cheapest sequence of actions from a level to a goal.

    domain: a `Puzzle`, or a `Domain` of functions.
    level: a `PuzzleLevel`, a state of the puzzle, or a board. Arrays with a leading axis are
        several levels, which are searched together.
    heuristic: (instance, board) -> estimate of the cost to a goal; by default `domain.heuristic`.
    weight: factor of the heuristic. Nodes are expanded in order of cost so far + weight *
        heuristic. With a weight above 1, a solution is found sooner and may cost more.
    batch_size: number of nodes that one iteration expands.
    node_budget: maximum number of stored nodes, for all levels together.
    terminate: "first" ends when no open node has a lower priority than the cheapest goal found; if
        the heuristic is admissible, that goal costs at most max(1, weight) times the optimum.
        "optimal" ends when no open node can lead to a cheaper goal, which proves the optimum if the
        heuristic is admissible. With weight 1, "first" and "optimal" are equivalent.
    max_length: length of the returned array of actions. If a solution is longer, only its cost and
        length are returned.
    admissible: whether the heuristic never exceeds the true cost; by default true for
        `domain.heuristic` only. If false, only unsolvability can be proven, by examining every
        reachable board.
    bucket_width: difference in priority below which the order of nodes does not matter. The default
        is a quarter of the cheapest action's cost, times the weight if the weight is above 1. It is
        1 if all costs are 1, the heuristic is `domain.heuristic`, and the weight is 0 or 1.

    Costs must not be negative. They are added in float32, so proofs hold up to rounding: integers
    are exact up to 2**24.

    If the budget runs out before a goal is found, `solved` is False and the actions lead to the
    stored board with the lowest heuristic. Works inside `jit`. Raises `TypeError` for a domain or
    level that cannot be searched, and `ValueError` for settings out of range or a budget that
    exceeds the memory.
    """
    is_default = heuristic is None
    settings = checked_settings(
        "astar", domain, weight, batch_size, node_budget, terminate, max_length,
        is_default if admissible is None else admissible, False, bucket_width,
    )  # fmt: skip
    bound = domain.heuristic if is_default else heuristic
    return _run("astar", domain, level, bound, is_default, settings)


def qstar(
    domain: Any,
    level: Any,
    *,
    q: Callable[[Any, Any], Array] | None = None,
    weight: float = 1.0,
    batch_size: int = 1024,
    node_budget: int = 1_000_000,
    terminate: str = "first",
    max_length: int = 512,
    admissible: bool | None = None,
    bucket_width: float | None = None,
) -> Result:
    """Search like `astar`, but an entry of the open list is one action of a board, not a board.

    q: (instance, board) -> float32 (actions,), a lower bound on the cost to a goal through each
        action. The default is the cost of the action plus the heuristic of the next board. Q* is
        meant for a network that evaluates all actions of a board in one pass.

    For the other arguments, the result and the errors see `astar`.
    """
    is_default = q is None
    checked_domain(domain, "qstar")
    settings = checked_settings(
        "qstar", domain, weight, batch_size, node_budget, terminate, max_length,
        is_default if admissible is None else admissible, True, bucket_width,
    )  # fmt: skip
    q = _Costs(domain) if q is None else q
    return _run("qstar", domain, level, q, is_default, settings)


class _Costs(NamedTuple):
    """Default `q` of Q*: for each action, its cost plus the heuristic of the next board.

    As a `NamedTuple`, instances with equal domains are equal. This lets `jit`, for which `q` is a
    static argument, reuse the compiled search.
    """

    domain: Any

    def __call__(self, instance: Any, board: Any) -> Float32[Array, " actions"]:
        moves = self.domain.neighbours(instance, board)
        return moves.cost + jax.vmap(lambda b: self.domain.heuristic(instance, b))(moves.board)


def checked_settings(
    where: str, domain: Any, weight: Any, batch_size: Any, node_budget: Any, terminate: Any,
    longest: Any, admissible: bool, by_action: bool, bucket_width: Any,
) -> Settings:  # fmt: skip
    """Check the arguments of a search, and return them as static settings.

    Raises `ValueError` or `TypeError` for the first invalid argument.
    """
    checked_domain(domain, where)
    checks.one_of(where, "terminate", terminate, TERMINATES)
    checks.integer_field(where, "batch_size", batch_size, 1)
    checks.integer_field(where, "node_budget", node_budget, 1, 2**31 - 1)
    checks.integer_field(where, "max_length", longest, 1)
    if not 0 <= float(weight) <= MOST:
        raise ValueError(f"{where}: weight={weight!r} must be a number from 0 to {MOST:g}")
    if bucket_width is not None and not LEAST <= float(bucket_width) <= MOST:
        wanted = f"a number from {LEAST:g} to {MOST:g}"
        raise ValueError(f"{where}: bucket_width={bucket_width!r} must be {wanted}")
    return Settings(
        float(weight), batch_size, node_budget, terminate, longest, admissible, by_action,
        None if bucket_width is None else float(bucket_width),
    )  # fmt: skip


def _run(
    where: str, domain: Any, level: Any, bound: Any, is_default: bool, settings: Settings
) -> Result:
    levels, many = as_levels(domain, level, where)
    rows = rows_for(domain, settings, jax.tree.leaves(levels.board)[0].shape[0])
    key_words = jax.eval_shape(lambda board: keys_of(domain, board, many), levels.board).shape[1]
    check_memory(where, rows, settings, domain.num_actions, key_words)
    coarse = is_default and domain.unit_cost and settings.weight in (0.0, 1.0)
    result = _search(domain, bound, settings, coarse, many, levels)
    return result if many else result.single()


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _search(
    domain: Any, bound: Any, settings: Settings, coarse: bool, many: bool, levels: PuzzleLevel
) -> Result:
    return Engine(domain, bound, settings, coarse, many, levels).result()
