"""Beam search: each step expands all boards of the beam, and keeps the best of the new boards.

The best boards have the lowest score. The score is cost + heuristic or, with a policy, the negative
logarithm of the probability that the policy takes the actions on the path to the board.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int16, Int32

from ..core import checks
from ..puzzles.puzzle import PuzzleLevel
from .domain import as_levels, checked_domain
from .result import Result
from .store import hash_of


class _Beam(NamedTuple):
    """State of the search of a single level: the boards of the beam, and the path to each board."""

    board: Any  # boards of the beam; each array has a leading axis of length `width`
    cost: Float32[Array, " width"]
    # With a policy: negative log-probability of the path to each board. (): no policy.
    surprisal: Any
    alive: Bool[Array, " width"]
    action: Int16[Array, " width"]
    parents: Int32[Array, "steps width"]
    actions: Int16[Array, "steps width"]
    steps: Int32[Array, ""]
    goal: Int32[Array, ""]  # index of a goal in the beam, or -1 if the beam contains no goal
    nodes: Int32[Array, ""]


def beam(
    domain: Any,
    level: Any,
    *,
    heuristic: Callable[[Any, Any], Array] | None = None,
    policy: Callable[[Any, Any], Array] | None = None,
    width: int = 1024,
    max_length: int = 200,
) -> Result:
    """Search with a beam of `width` boards for at most `max_length` actions.

    heuristic: (instance, board) -> float32, the cost to a goal. The default is `domain.heuristic`.
        Each step keeps the boards with the lowest cost + heuristic.
    policy: (instance, board) -> float32 (actions,), log-probabilities of the actions. With a policy
        there is no heuristic: each step keeps the boards whose paths are the most probable (Takano,
        2023, EfficientCube). A policy evaluates the boards of the beam, a heuristic all boards
        after their actions.

    The search ends at the first step that reaches a goal, and returns the cheapest goal of this
    step. Beam search is fast but proves nothing: `optimal` is always False. Several levels are
    searched in parallel until the slowest search ends. Works inside `jit`. Raises the same errors
    as `astar`, and `ValueError` if both `heuristic` and `policy` are given.
    """
    checked_domain(domain, "beam")
    if heuristic is not None and policy is not None:
        raise ValueError("beam: heuristic and policy both score boards; give one of them")
    checks.integer_field("beam", "width", width, 1)
    checks.integer_field("beam", "max_length", max_length, 1)
    levels, many = as_levels(domain, level, "beam")
    bound = domain.heuristic if heuristic is None else heuristic
    result = _search(domain, policy or bound, policy is not None, width, max_length, levels)
    return result if many else result.single()


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _search(
    domain: Any, guide: Any, by_policy: bool, width: int, longest: int, levels: PuzzleLevel
) -> Result:
    search = functools.partial(_search_one, domain, guide, by_policy, width, longest)
    result, nodes, steps = jax.vmap(search)(levels.instance, levels.board)
    total = nodes.sum(dtype=jnp.int32)
    return result.replace(nodes=total, expanded=total, iterations=steps.max())


def _search_one(
    domain: Any, guide: Any, by_policy: bool, width: int, longest: int, instance: Any, board: Any
) -> tuple[Result, Array, Array]:
    """Search a single level; return the result, the number of nodes and the number of steps.

    `guide` is the policy if `by_policy`, otherwise the heuristic.
    """
    first = jnp.arange(width) == 0
    start = _Beam(
        board=jax.tree.map(lambda leaf: jnp.stack([leaf] * width), board),
        cost=jnp.zeros(width, jnp.float32),
        surprisal=jnp.zeros(width, jnp.float32) if by_policy else (),
        alive=first,
        action=jnp.full(width, -1, jnp.int16),
        parents=jnp.full((longest, width), -1, jnp.int32),
        actions=jnp.full((longest, width), -1, jnp.int16),
        steps=jnp.int32(0),
        goal=jnp.where(domain.is_goal(instance, board), 0, -1).astype(jnp.int32),
        nodes=jnp.int32(1),
    )
    end = jax.lax.while_loop(
        lambda at: (at.goal < 0) & (at.steps < longest) & at.alive.any(),
        functools.partial(_step, domain, guide, instance),
        start,
    )
    solved = end.goal >= 0
    # Index of the board to return: the goal's, or else 0, because board 0 has the lowest cost +
    # heuristic in the beam.
    place = jnp.maximum(end.goal, 0)
    result = Result(
        solved=solved,
        cost=jnp.where(solved, end.cost[place], jnp.inf),
        actions=_path(end, place),
        length=end.steps,
        optimal=jnp.zeros((), jnp.bool_),
        unsolvable=jnp.zeros((), jnp.bool_),
        lower_bound=jnp.float32(-jnp.inf),
        board=jax.tree.map(lambda leaf: leaf[place], end.board),
        nodes=jnp.int32(0),
        expanded=jnp.int32(0),
        iterations=jnp.int32(0),
    )
    return result, end.nodes, end.steps


def _chosen(width: int, score: Array, cost: Array, goal: Array) -> tuple[Array, Array]:
    """Return the indices of the new boards that the beam keeps, and which of its places they fill.

    If a goal was reached, the cheapest goal is the first; the search then ends.
    """
    keep = min(width, score.shape[0])
    least, order = jax.lax.top_k(-score, keep)
    order = jnp.pad(order, (0, width - keep))
    alive = jnp.pad(jnp.isfinite(least), (0, width - keep))
    least_cost = jnp.where(goal, cost, jnp.inf).min()
    first = jnp.argmax(goal & (cost == least_cost)).astype(jnp.int32)
    order = order.at[0].set(jnp.where(goal.any(), first, order[0]))
    return order, alive.at[0].set(alive[0] | goal.any())


def _step(domain: Any, guide: Any, instance: Any, at: _Beam) -> _Beam:
    """Expand all boards of the beam; keep the distinct new boards with the lowest scores."""
    width, actions = at.cost.shape[0], domain.num_actions
    moves = jax.vmap(lambda board: domain.neighbours(instance, board))(at.board)
    moves = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), moves)
    action = jnp.tile(jnp.arange(actions, dtype=jnp.int32), width)
    parent = jnp.repeat(jnp.arange(width, dtype=jnp.int32), actions)
    valid = moves.valid & at.alive[parent]
    inverse = getattr(domain, "inverse", None)
    if inverse is not None:
        last = at.action[parent].astype(jnp.int32)
        valid &= (last < 0) | (jnp.asarray(inverse)[jnp.maximum(last, 0)] != action)
    cost = at.cost[parent] + moves.cost
    guided = functools.partial(guide, instance)
    if isinstance(at.surprisal, tuple):
        valid &= ~_repeated(jax.vmap(domain.pack)(moves.board), cost, valid)
        score, surprisal = cost + jax.vmap(guided)(moves.board).astype(jnp.float32), ()
    else:
        taken = -jax.vmap(guided)(at.board).astype(jnp.float32)
        score = surprisal = (at.surprisal[:, None] + taken).reshape(-1)
        valid &= ~_repeated(jax.vmap(domain.pack)(moves.board), score, valid)
    goal = valid & jax.vmap(lambda board: domain.is_goal(instance, board))(moves.board)
    score = jnp.where(valid & jnp.isfinite(score), score, jnp.inf)
    order, alive = _chosen(width, score, cost, goal)
    last = action[order].astype(jnp.int16)
    # Without a new board, the search ends with the boards that it has.
    ends = ~alive.any()

    def new(old: Array, candidates: Array) -> Array:
        return jnp.where(ends, old, candidates[order])

    return _Beam(
        board=jax.tree.map(new, at.board, moves.board),
        cost=new(at.cost, cost),
        surprisal=jax.tree.map(new, at.surprisal, surprisal),
        alive=alive,
        action=jnp.where(ends, at.action, last),
        parents=at.parents.at[at.steps].set(parent[order]),
        actions=at.actions.at[at.steps].set(last),
        steps=at.steps + (~ends).astype(jnp.int32),
        goal=jnp.where(goal.any(), 0, -1).astype(jnp.int32),
        nodes=at.nodes + valid.sum(dtype=jnp.int32),
    )


def _repeated(key: Array, cost: Array, valid: Array) -> Bool[Array, " lanes"]:
    """Return a mask of the duplicates among the candidates for the next beam.

    Of several valid candidates with equal boards, all but the one of the lowest `cost` are
    duplicates. If several have the lowest cost, only the first of them is not a duplicate.
    """
    lanes = key.shape[0]
    lane = jnp.arange(lanes, dtype=jnp.int32)
    # Sort the candidates so that equal boards are next to each other, the cheapest first, and
    # invalid candidates come last. The sort compares two hashes of each board, not all its words.
    second = hash_of(key[:, ::-1] ^ np.uint32(0x5BD1E995))
    dead = (~valid).astype(jnp.uint32)
    *_, order = jax.lax.sort((dead, hash_of(key), second, cost, lane), num_keys=5)
    ordered = key[order]
    same = (ordered[1:] == ordered[:-1]).all(axis=1)
    return jnp.zeros(lanes, jnp.bool_).at[order].set(jnp.pad(same, (1, 0)))


def _path(end: _Beam, place: Int32[Array, ""]) -> Int32[Array, " steps"]:
    """Return the actions that lead to the board at index `place` of the last beam.

    The loop goes from the last step to the first, from each board to its parent.
    """

    def back(i: Array, walk: tuple[Array, Array]) -> tuple[Array, Array]:
        place, path = walk
        step = end.steps - 1 - i
        path = path.at[step].set(end.actions[step, place].astype(jnp.int32))
        return end.parents[step, place], path

    longest = end.parents.shape[0]
    start = (place, jnp.full(longest, -1, jnp.int32))
    return jax.lax.fori_loop(0, end.steps, back, start)[1]
