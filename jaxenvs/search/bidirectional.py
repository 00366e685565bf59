"""Bidirectional A* that meets in the middle (MM; Holte et al. 2016).

An open node has the priority max(cost + heuristic, 2 * cost). Because of the term 2 * cost, neither
search expands nodes that cost more than half of a cheapest path. With a weak heuristic, the two
searches together expand far fewer boards than A* from one end.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32

from ..puzzles.puzzle import Move, Puzzle, PuzzleLevel
from . import open_list, store
from .astar import checked_settings
from .domain import as_levels, checked_domain
from .engine import Engine, Search, Settings, keys_of, rows_for
from .memory import check_memory
from .result import Result


class Backward(NamedTuple):
    """A puzzle that is searched from its goal: action i leads to predecessor i of a board."""

    puzzle: Puzzle
    num_actions: int

    @property
    def unit_cost(self) -> bool:
        """True if every action costs 1."""
        return self.puzzle.unit_cost

    @property
    def inverse(self) -> np.ndarray | None:
        """The puzzle's `inverse`: for each action, the index of the action that undoes it.

        This array is also valid for the backward search, in which action i leads to predecessor i:
        if actions have inverses, predecessor i results from the inverse of the puzzle's action i.
        """
        return self.puzzle.inverse

    def neighbours(self, instance: Any, board: Any) -> Move:
        """Return the predecessors of a board in the format of `Puzzle.neighbours`."""
        before = self.puzzle.predecessors(instance, board)
        return Move(before.board, before.cost, before.valid)

    def is_goal(self, instance: Any, board: Any) -> Bool[Array, ""]:
        """Return False: the backward search has no goal, and ends when the two searches meet."""
        return jnp.zeros((), jnp.bool_)

    def pack(self, board: Any) -> Array:
        """Encode a board as uint32 words, as in the forward search."""
        return self.puzzle.pack(board)

    def unpack(self, words: Array) -> Any:
        """Decode a board from its uint32 words, as in the forward search."""
        return self.puzzle.unpack(words)


class _Meeting(NamedTuple):
    """The cheapest meeting in each level. A meeting is a board that both searches have stored.

    `cost` is the cost of the path through the board; infinite before the searches meet. `forward`
    and `backward` are the rows of the board's nodes in the two stores; -1 before the searches meet.
    """

    cost: Float32[Array, " levels"]
    forward: Int32[Array, " levels"]
    backward: Int32[Array, " levels"]


class _Ends(NamedTuple):
    forward: Search
    backward: Search
    meeting: _Meeting


def bidirectional(
    puzzle: Any,
    level: Any,
    *,
    heuristic: Callable[[Any, Any], Array] | None = None,
    batch_size: int = 1024,
    node_budget: int = 1_000_000,
    terminate: str = "optimal",
    max_length: int = 512,
    admissible: bool = True,
    bucket_width: float | None = None,
) -> Result:
    """Search from a level and from its goal at the same time.

    puzzle: a puzzle that defines `goal` and `predecessors`.
    level: a `PuzzleLevel`, a state of the puzzle, or a board. Arrays with a leading axis are
        several levels, which are searched together.
    heuristic: (instance, board) -> estimate of the cost to the goal; by default `puzzle.heuristic`.
        The backward search uses no heuristic.
    admissible: whether the heuristic never exceeds the true cost, as proofs require. The heuristic
        may be inconsistent.
    node_budget: maximum number of nodes that both searches store together.
    terminate: "optimal" ends when the solution is proven to be the cheapest; "first" ends where the
        two searches first meet, without any guarantee on the solution's cost.

    For the other arguments, the result and the errors see `astar`. Also raises `TypeError` if the
    puzzle does not define `goal` or `predecessors`; a puzzle with several goals defines no `goal`.
    If unsolved, the result's `board` is the board of the forward search with the lowest heuristic.
    """
    checked_domain(puzzle, "bidirectional")
    levels, many = as_levels(puzzle, level, "bidirectional")
    places = _places(puzzle, levels)
    settings = checked_settings(
        "bidirectional", puzzle, 1.0, batch_size, node_budget, terminate, max_length, admissible,
        False, bucket_width,
    )._replace(to_middle=True)  # fmt: skip
    count = jax.tree.leaves(levels.board)[0].shape[0]
    words = jax.eval_shape(lambda board: keys_of(puzzle, board, many), levels.board).shape[1]
    half = settings._replace(node_budget=-(-node_budget // 2))
    rows = max(rows_for(puzzle, half, count), rows_for(Backward(puzzle, places), half, count))
    check_memory("bidirectional", 2 * rows, settings, puzzle.num_actions, words)
    bound = puzzle.heuristic if heuristic is None else heuristic
    result = _search(puzzle, places, bound, half, heuristic is None, many, levels)
    return result if many else result.single()


def _places(puzzle: Any, levels: PuzzleLevel) -> int:
    """Return the number of predecessors per board; raise `TypeError` if none are defined."""
    one = jax.tree.map(lambda leaf: leaf[0], levels)
    try:
        board = jax.eval_shape(puzzle.goal, one.instance)
        before = jax.eval_shape(puzzle.predecessors, one.instance, board)
    except (AttributeError, NotImplementedError) as error:
        name = getattr(puzzle, "name", type(puzzle).__name__)
        raise TypeError(
            f"bidirectional: {name} cannot be searched from its end ({error}); use astar"
        ) from error
    return before.action.shape[0]


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3, 4, 5))
def _search(
    puzzle: Any, places: int, bound: Any, settings: Settings, is_default: bool,
    many: bool, levels: PuzzleLevel,
) -> Result:  # fmt: skip
    coarse = is_default and puzzle.unit_cost
    count = jax.tree.leaves(levels.board)[0].shape[0]
    ends = jax.vmap(puzzle.goal, axis_size=count)(levels.instance)
    goals = PuzzleLevel(board=ends, instance=levels.instance)
    forward = Engine(puzzle, bound, settings, coarse, many, levels)
    back = Engine(Backward(puzzle, places), _nothing, settings, coarse, many, goals)
    return _Both(forward, back).result()


def _nothing(instance: Any, board: Any) -> Float32[Array, ""]:
    return jnp.zeros((), jnp.float32)


class _Both:
    """The forward and the backward search.

    Each iteration continues the search whose open list has the smaller lower bound on its
    priorities (`open_list.edge`).
    """

    def __init__(self, forward: Engine, back: Engine) -> None:
        self.forward, self.back, self.settings = forward, back, forward.settings

    def result(self) -> Result:
        """Run both searches until they end, and join the two paths."""
        fresh = jnp.full(self.forward.count, -1, jnp.int32)
        meeting = _Meeting(jnp.full(fresh.shape, jnp.inf, jnp.float32), fresh, fresh)
        first = jnp.int32(0)
        ends = _Ends(self.forward.start(), self.back.start(), meeting)
        ends = self._met(ends, first, True)
        end = jax.lax.while_loop(self._goes_on, self._iterate, ends)
        return self._read(end)

    def _goes_on(self, ends: _Ends) -> Array:
        going = ~ends.forward.done.all()
        for side in (ends.forward, ends.backward):
            going &= side.store.used < self.settings.node_budget
        return going

    def _iterate(self, ends: _Ends) -> _Ends:
        turn = open_list.edge(ends.forward.todo) <= open_list.edge(ends.backward.todo)

        def ahead(_: Array, ends: _Ends) -> _Ends:
            first = ends.forward.store.used
            return self._met(ends._replace(forward=self.forward.iterate(ends.forward)), first, True)

        def behind(_: Array, ends: _Ends) -> _Ends:
            first = ends.backward.store.used
            return self._met(ends._replace(backward=self.back.iterate(ends.backward)), first, False)

        # Run either `ahead` or `behind`, each in a loop of 0 or 1 iterations. `lax.cond` would copy
        # both stores.
        trips = turn.astype(jnp.int32)
        return jax.lax.fori_loop(0, 1 - trips, behind, jax.lax.fori_loop(0, trips, ahead, ends))

    def _met(self, ends: _Ends, first: Array, ahead: bool) -> _Ends:
        """Record the cheapest meeting of each level after one search has added boards to its store.

        A meeting is an added board that the other search has stored, too. The added boards are in
        the rows from `first` on. `ahead` is True if the forward search added them.
        """
        engine = self.forward if ahead else self.back
        here, there = (ends.forward, ends.backward) if ahead else (ends.backward, ends.forward)

        def look(i: Array, meeting: _Meeting) -> _Meeting:
            begin = first + i * engine.lanes
            nodes = store.rows_of(here.store.nodes, begin, engine.lanes)
            row = begin + jnp.arange(engine.lanes, dtype=jnp.int32)
            other = store.find(there.store, nodes.key)
            valid = (row < here.store.used) & (other >= 0)
            cost = nodes.cost + there.store.nodes.cost[jnp.maximum(other, 0)]
            pair = (row, other) if ahead else (other, row)
            return _better(meeting, cost, pair, engine.level_of(nodes.key), valid)

        blocks = -(-(here.store.used - first) // engine.lanes)
        return self._concluded(
            ends._replace(meeting=jax.lax.fori_loop(0, blocks, look, ends.meeting))
        )

    def _concluded(self, ends: _Ends) -> _Ends:
        """Raise the lower bounds on the cost of a solution, and mark finished levels as done.

        Both searches get the same bounds and the same mask of finished levels.
        """
        forward, back, cost = ends.forward, ends.backward, ends.meeting.cost
        # The smaller bound of the two searches is a lower bound on the cost of every solution that
        # is cheaper than the meeting: such a solution has an open node in one of the searches, and
        # the priority of this node is at most the cost of the solution.
        lower = jnp.minimum(
            self.forward.least_cost(open_list.edge(forward.todo)),
            self.back.least_cost(open_list.edge(back.todo)),
        )
        lower = jnp.minimum(jnp.maximum(forward.lower, lower), cost)
        # If one open list is empty before the searches meet, no solution exists: this search has
        # expanded every board that it can reach. (Nodes are skipped only after a meeting.)
        empty = (open_list.length(forward.todo) == 0) | (open_list.length(back.todo) == 0)
        lower = jnp.where(empty & ~jnp.isfinite(cost), jnp.inf, lower)
        lower = jnp.where(forward.done, forward.lower, lower)
        done = forward.done | (lower >= cost)
        if self.settings.terminate == "first":
            done |= jnp.isfinite(cost)
        forward, back = (
            side._replace(cost=cost, done=done, lower=lower) for side in (forward, back)
        )
        return _Ends(forward, back, ends.meeting)

    def _read(self, ends: _Ends) -> Result:
        meeting, longest = ends.meeting, self.settings.longest
        solved = meeting.forward >= 0
        forward, back = ends.forward, ends.backward
        known = jnp.bool_(self.settings.admissible)
        # Whether an empty open list proves that a level is unsolvable. An empty list of the
        # backward search always proves it. An empty list of the forward search proves it unless a
        # board was discarded because an inadmissible heuristic was infinite.
        sound = ~forward.lost | (open_list.length(back.todo) == 0)
        row = jnp.where(solved, meeting.forward, forward.nearest_row)
        nodes = forward.store.nodes
        actions, length = jax.vmap(lambda r: store.path(nodes, r, longest))(row)
        instance = self.forward.levels.instance
        actions, length = jax.vmap(lambda i, a, n, r: self._rest(back, i, a, n, r))(
            instance, actions, length, meeting.backward
        )
        actions = jnp.where((length > longest)[:, None], jnp.asarray(-1, actions.dtype), actions)
        goal = self.back.levels.board
        nearest = self.forward.boards(nodes.key[row])
        board = jax.tree.map(
            lambda a, b: jnp.where(solved.reshape(-1, *([1] * (a.ndim - 1))), a, b), goal, nearest
        )
        return Result(
            solved=solved,
            cost=meeting.cost,
            actions=actions,
            length=length,
            optimal=solved & known & (forward.lower >= meeting.cost),
            unsolvable=~solved & sound & (forward.lower == jnp.inf),
            lower_bound=jnp.where(known, forward.lower, -jnp.inf),
            board=board,
            nodes=forward.store.used + back.store.used,
            expanded=forward.expanded + back.expanded,
            iterations=forward.iterations + back.iterations,
        )

    def _rest(
        self, back: Search, instance: Any, actions: Array, length: Array, row: Array
    ) -> tuple[Array, Array]:
        """Complete a solution: append the actions that lead from the meeting board to the goal.

        The two searches meet at this board. `actions` contains the `length` actions from the start
        to the board, and `row` is the row of the board's node in the store of the backward search.
        Returns the actions and the length of the whole solution.
        """
        nodes = back.store.nodes

        def on(walk: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            row, actions, length = walk
            parent = nodes.parent[row]
            board = jax.tree.map(lambda leaf: leaf[0], self.back.boards(nodes.key[parent][None]))
            before = self.forward.domain.predecessors(instance, board)
            action = before.action[nodes.action[row].astype(jnp.int32)]
            return parent, actions.at[length].set(action, mode="drop"), length + 1

        start = (row, actions, length)
        return jax.lax.while_loop(
            lambda walk: (walk[0] >= 0) & (nodes.parent[jnp.maximum(walk[0], 0)] >= 0), on, start
        )[1:]


def _better(
    meeting: _Meeting, cost: Array, pair: tuple[Array, Array], level: Array, valid: Array
) -> _Meeting:
    """Return `meeting`, updated in the levels in which a new meeting is cheaper.

    Entry i of the arrays describes new meeting i: `pair` contains the rows of its forward and its
    backward node, and `cost` is the sum of both nodes' costs. Of equally cheap new meetings in a
    level, the first is recorded.
    """
    level = jnp.where(valid, level, 0)
    cost = jnp.where(valid, cost, jnp.inf)
    least = meeting.cost.at[level].min(cost)
    lowest = valid & (cost == least[level]) & (cost < meeting.cost[level])
    lanes, levels = cost.shape[0], meeting.cost.shape[0]
    lane = jnp.arange(lanes, dtype=jnp.int32)
    at = jnp.where(lowest, level, levels)
    first = jnp.full(levels, lanes, jnp.int32).at[at].min(lane, mode="drop")
    found, first = first < lanes, jnp.minimum(first, lanes - 1)
    forward, backward = (
        jnp.where(found, new[first], old)
        for new, old in zip(pair, (meeting.forward, meeting.backward), strict=True)
    )
    return _Meeting(least, forward, backward)
