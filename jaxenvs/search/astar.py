"""Batched A* and Q* on an accelerator, in fixed memory, for one level or many in one table.

Many nodes are expanded at a time (BWAS; Agostinelli et al. 2019, "Solving the Rubik's cube with
deep reinforcement learning and search"); Q* expands an action at a time and asks for the costs of
all actions of a board at once (Agostinelli et al. 2024, "Q* Search").
"""

import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32

from ..core import checks
from ..core.struct import Struct, struct
from ..puzzles.puzzle import PuzzleLevel
from . import open_list, store
from .domain import as_levels, checked_domain
from .open_list import OpenList
from .store import Nodes, Store

TERMINATES = ("first", "optimal")
BUCKETS = 512
FINE = 0.25  # width of a bucket for bounds that are no whole numbers


@struct
class Result(Struct):
    """What a search found; of many levels, with a leading axis, but for the counts."""

    solved: Bool[Array, "*levels"]
    cost: Float32[Array, "*levels"]  # of the actions; infinite where not solved
    # From the start to the goal, padded with -1; unsolved: to the board with the least bound.
    actions: Int32[Array, "*levels longest"]
    length: Int32[Array, "*levels"]  # actions, also where there was no room for all of them
    optimal: Bool[Array, "*levels"]  # proven: no cheaper solution exists
    unsolvable: Bool[Array, "*levels"]  # proven: everything that can be reached was looked at
    lower_bound: Float32[Array, "*levels"]  # of the least cost; -inf without an admissible bound
    board: Any  # the goal, or the board with the least bound
    nodes: Int32[Array, ""]  # boards, with their dearer copies
    expanded: Int32[Array, ""]
    iterations: Int32[Array, ""]


class Settings(NamedTuple):
    """The static part of a search."""

    weight: float
    batch_size: int
    node_budget: int
    terminate: str
    longest: int
    admissible: bool
    by_action: bool  # Q*


class _Search(NamedTuple):
    """Everything that changes."""

    store: Store
    todo: OpenList
    cost: Float32[Array, " levels"]  # of the best goal
    goal: Int32[Array, " levels"]  # its row, -1 before there is one
    nearest: Float32[Array, " levels"]  # least bound of any board
    nearest_row: Int32[Array, " levels"]
    done: Bool[Array, " levels"]
    expanded: Int32[Array, ""]
    iterations: Int32[Array, ""]


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
) -> Result:
    """Search for the cheapest actions from a level (or levels, by a leading axis) to a goal.

    domain: a `Puzzle`, or a `Domain` of functions.
    level: `PuzzleLevel`, a state of the puzzle, or a board.
    heuristic: (instance, board) -> bound of the cost to a goal; by default the domain's own.
    weight: of the bound; above 1 faster, and at most so many times dearer when "optimal".
    batch_size: nodes expanded together. node_budget: rows in all, for all levels.
    terminate: "first" ends with the first goal that is found, "optimal" when no open node can
        lead to a cheaper one (a proof if the bound is admissible and the weight is 1).
    admissible: whether the heuristic never exceeds the true cost; by default so for the domain's.

    A budget that ends without a solution returns `solved` False and the way to the board with the
    least bound. Works inside `jit`. Raises `TypeError` for what cannot be searched and `ValueError`
    for settings out of range or a budget above the memory.
    """
    own = heuristic is None
    settings = _settings(
        "astar", domain, weight, batch_size, node_budget, terminate, max_length,
        own if admissible is None else admissible, False,
    )  # fmt: skip
    return _run("astar", domain, level, domain.heuristic if own else heuristic, own, settings)


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
) -> Result:
    """Search as `astar` does, an action of a board at a time.

    q: (instance, board) -> float32 (actions,), a bound of the cost of each action and all that
        follows; by default from the domain's heuristic of each neighbour. A network that gives all
        in one pass is what this search is for.
    """
    own = q is None
    checked_domain(domain, "qstar")
    settings = _settings(
        "qstar", domain, weight, batch_size, node_budget, terminate, max_length,
        own if admissible is None else admissible, True,
    )  # fmt: skip
    q = _Costs(domain) if q is None else q
    return _run("qstar", domain, level, q, own, settings)


class _Costs(NamedTuple):
    """Cost of each action and the bound behind it; equal for equal domains."""

    domain: Any

    def __call__(self, instance: Any, board: Any) -> Float32[Array, " actions"]:
        moves = self.domain.neighbours(instance, board)
        return moves.cost + jax.vmap(lambda b: self.domain.heuristic(instance, b))(moves.board)


def _settings(
    where: str, domain: Any, weight: Any, batch_size: Any, node_budget: Any, terminate: Any,
    longest: Any, admissible: bool, by_action: bool,
) -> Settings:  # fmt: skip
    """Check what is static."""
    checked_domain(domain, where)
    checks.one_of(where, "terminate", terminate, TERMINATES)
    checks.integer_field(where, "batch_size", batch_size, 1)
    checks.integer_field(where, "node_budget", node_budget, 1, 2**31 - 1)
    checks.integer_field(where, "max_length", longest, 1)
    if not 0 <= float(weight) < float("inf"):
        raise ValueError(f"{where}: weight={weight!r} must be a number from 0 on")
    return Settings(
        float(weight), batch_size, node_budget, terminate, longest, admissible, by_action
    )


def _run(where: str, domain: Any, level: Any, bound: Any, own: bool, settings: Settings) -> Result:
    levels, many = as_levels(domain, level, where)
    rows = _rows(domain, settings, jax.tree.leaves(levels.board)[0].shape[0])
    key_words = jax.eval_shape(
        lambda b: _keys(domain, b, many), jax.tree.map(lambda x: x, levels.board)
    ).shape[1]
    _check_memory(where, rows, settings, domain.num_actions, key_words)
    coarse = own and domain.unit_cost and settings.weight in (0.0, 1.0)
    result = _search(domain, bound, settings, coarse, many, levels)
    if many:
        return result
    single = jax.tree.map(
        lambda leaf: leaf[0], result.replace(nodes=(), expanded=(), iterations=())
    )
    return single.replace(
        nodes=result.nodes, expanded=result.expanded, iterations=result.iterations
    )


def _rows(domain: Any, settings: Settings, levels: int) -> int:
    """Rows of the store: the budget, and room for what one iteration adds."""
    lanes = max(settings.batch_size, levels)
    return settings.node_budget + lanes * (1 if settings.by_action else domain.num_actions) + lanes


def bytes_per_node(key_words: int, entries: int = 1) -> int:
    """Bytes that a search keeps for each node, its key included."""
    return 4 * key_words + 4 + 4 + 2 + 1 + 4 * store.SLOTS_PER_ROW + 4 * entries + 2


def _check_memory(where: str, rows: int, settings: Settings, actions: int, key_words: int) -> None:
    entries = actions if settings.by_action else 1
    if rows * entries >= 2**31:
        raise ValueError(
            f"{where}: node_budget={settings.node_budget} has more entries than 32 bits count; "
            f"give at most {(2**31 - 1) // entries - (rows - settings.node_budget)}"
        )
    each = bytes_per_node(key_words, entries)
    memory = device_memory()
    if memory and rows * each > memory:
        raise ValueError(
            f"{where}: node_budget={settings.node_budget} needs {rows * each / 2**30:.1f} GiB "
            f"({each} bytes a node) and this device has {memory / 2**30:.1f} GiB; give at most "
            f"node_budget={max(1, int(0.8 * memory / each) - (rows - settings.node_budget))}"
        )


def device_memory() -> int:
    """Bytes of the default device, 0 if it does not say."""
    device = jax.devices()[0]
    if device.platform == "cpu":
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int((device.memory_stats() or {}).get("bytes_limit", 0))


def _keys(domain: Any, boards: Any, many: bool, level: Any = None) -> Array:
    """Pack boards; with many levels the level's number comes first."""
    keys = jax.vmap(domain.pack)(boards)
    if not many:
        return keys
    level = jnp.zeros(keys.shape[0], jnp.int32) if level is None else level
    return jnp.concatenate([level.astype(jnp.uint32)[:, None], keys], axis=1)


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _search(
    domain: Any, bound: Any, settings: Settings, coarse: bool, many: bool, levels: PuzzleLevel
) -> Result:
    return _Engine(domain, bound, settings, coarse, many, levels).result()


class _Engine:
    """One search while it is traced: constants of the levels, and the verbs."""

    def __init__(
        self, domain: Any, bound: Any, settings: Settings, coarse: bool, many: bool, levels: Any
    ) -> None:
        self.domain, self.settings, self.many, self.levels = domain, settings, many, levels
        self.count = jax.tree.leaves(levels.board)[0].shape[0]
        self.lanes = max(settings.batch_size, self.count)
        self.bound = bound
        lowest = jax.vmap(self._score)(levels.instance, levels.board)
        self.start_score = jnp.where(jnp.isfinite(lowest), lowest, 0.0)
        if coarse:
            self.width = jnp.float32(1.0)
        elif domain.unit_cost:
            self.width = jnp.float32(FINE)
        else:
            self.width = jnp.maximum(self.start_score.max(), 1e-6) * np.float32(2.0 / BUCKETS)

    def result(self) -> Result:
        """Search, and read the answer."""
        end = jax.lax.while_loop(self._goes_on, self._iterate, self._start())
        solved = end.goal >= 0
        edge = self._edge(open_list.first_bucket(end.todo))
        empty = end.todo.size.sum() == 0
        lower = jnp.where(empty, end.cost, jnp.minimum(edge, end.cost))
        row = jnp.where(solved, end.goal, end.nearest_row)
        nodes = end.store.nodes
        actions, length = jax.vmap(lambda r: store.path(nodes, r, self.settings.longest))(row)
        known = jnp.bool_(self.settings.admissible)
        keys = nodes.key[jnp.maximum(row, 0)]
        return Result(
            solved=solved,
            cost=end.cost,
            actions=actions,
            length=length,
            optimal=solved & known & (lower >= end.cost),
            unsolvable=~solved & empty,
            lower_bound=jnp.where(known, lower, -jnp.inf),
            board=jax.vmap(self.domain.unpack)(keys[:, 1:] if self.many else keys),
            nodes=end.store.count,
            expanded=end.expanded,
            iterations=end.iterations,
        )

    # The loop.

    def _start(self) -> _Search:
        settings, count, lanes = self.settings, self.count, self.lanes
        rows = _rows(self.domain, settings, count)
        keys = _keys(self.domain, self.levels.board, self.many, jnp.arange(count, dtype=jnp.int32))
        entries = self.domain.num_actions if settings.by_action else 1
        level = jnp.zeros(count, jnp.int32)
        search = _Search(
            store.empty(rows, keys.shape[1]),
            open_list.empty(rows * entries, BUCKETS),
            jnp.full(count, jnp.inf, jnp.float32),
            level - 1,
            jnp.full(count, jnp.inf, jnp.float32),
            level,
            jnp.zeros(count, jnp.bool_),
            jnp.int32(0),
            jnp.int32(0),
        )
        more = ((0, lanes - count),)
        first = Nodes(
            jnp.pad(keys, (*more, (0, 0))),
            jnp.zeros(lanes, jnp.float32),
            jnp.full(lanes, -1, jnp.int32),
            jnp.full(lanes, -1, jnp.int16),
        )
        valid = jnp.arange(lanes) < count
        search = search._replace(store=store.insert(search.store, first, valid))
        return self._open(search, jnp.int32(0))

    def _goes_on(self, search: _Search) -> Array:
        room = search.store.count < self.settings.node_budget
        return room & ~search.done.all() & (search.todo.size.sum() > 0)

    def _iterate(self, search: _Search) -> _Search:
        todo, entry, bucket, valid = open_list.pop(search.todo, self.lanes)
        search = search._replace(todo=todo, iterations=search.iterations + 1)
        first = search.store.count
        row = entry // self.domain.num_actions if self.settings.by_action else entry
        level = self._level_of(search.store.nodes.key[row])
        valid &= (search.store.stale[row] == 0) & ~search.done[level]
        valid &= self._edge(bucket, level) < search.cost[level]
        search = search._replace(expanded=search.expanded + valid.sum(dtype=jnp.int32))
        search = self._insert(search, *self._children(search, row, entry, level, valid))
        return self._open(search, first)

    def _children(
        self, search: _Search, row: Array, entry: Array, level: Array, valid: Array
    ) -> tuple[Nodes, Array]:
        """All boards after the entries: those of an entry side by side, the dearest first."""
        domain, actions = self.domain, self.domain.num_actions
        nodes = search.store.nodes
        order = jnp.argsort(-nodes.cost[row])
        row, entry, level, valid = row[order], entry[order], level[order], valid[order]
        board = self._boards(nodes.key[row])
        instance = jax.tree.map(lambda leaf: leaf[level], self.levels.instance)
        if self.settings.by_action:
            action = entry % actions
            move = jax.vmap(self._move)(instance, board, action)
        else:
            move = jax.vmap(domain.neighbours)(instance, board)
            move = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), move)
            row, level, valid = (jnp.repeat(x, actions) for x in (row, level, valid))
            action = jnp.tile(jnp.arange(actions, dtype=jnp.int32), self.lanes)
        children = Nodes(
            _keys(domain, move.board, self.many, level),
            nodes.cost[row] + move.cost,
            row,
            action.astype(jnp.int16),
        )
        valid &= move.valid & ~self._undoes(nodes.action[row], action)
        if not domain.unit_cost:
            order = jnp.argsort(-children.cost)
            children, valid = jax.tree.map(lambda leaf: leaf[order], (children, valid))
        return children, valid

    def _move(self, instance: Any, board: Any, action: Array) -> Any:
        """One action: a puzzle's `apply`, else a row of `neighbours`."""
        if hasattr(self.domain, "apply"):
            return self.domain.apply(instance, board, action)
        moves = self.domain.neighbours(instance, board)
        return jax.tree.map(lambda leaf: leaf[action], moves)

    def _undoes(self, last: Array, action: Array) -> Array:
        """Whether an action leads back to the parent."""
        inverse = getattr(self.domain, "inverse", None)
        if inverse is None:
            return jnp.zeros(action.shape, jnp.bool_)
        back = jnp.asarray(inverse)[jnp.maximum(last, 0).astype(jnp.int32)]
        return (last >= 0) & (back == action)

    def _insert(self, search: _Search, children: Nodes, valid: Array) -> _Search:
        """Bring the valid ones to the front and add them in chunks, as many as there are."""
        total = valid.shape[0]
        rank = jnp.cumsum(valid, dtype=jnp.int32) - 1
        index = jnp.arange(total, dtype=jnp.int32)
        order = jnp.zeros(total, jnp.int32)
        order = order.at[jnp.where(valid, rank, total)].set(index, mode="drop")
        count = valid.sum(dtype=jnp.int32)
        lanes = min(self.lanes, total)

        def add(i: Array, known: Store) -> Store:
            chosen = jax.lax.dynamic_slice_in_dim(order, i * lanes, lanes)
            chunk = jax.tree.map(lambda leaf: leaf[chosen], children)
            return store.insert(known, chunk, i * lanes + index[:lanes] < count)

        chunks = -(-count // lanes)
        return search._replace(store=jax.lax.fori_loop(0, chunks, add, search.store))

    def _open(self, search: _Search, first: Array) -> _Search:
        """Bound the rows from `first` on, note goals, and put the rest on the open list."""

        def one(i: Array, search: _Search) -> _Search:
            begin = first + i * self.lanes
            return self._open_rows(search, begin)

        blocks = -(-(search.store.count - first) // self.lanes)
        search = jax.lax.fori_loop(0, blocks, one, search)
        return search._replace(done=self._done(search))

    def _open_rows(self, search: _Search, begin: Array) -> _Search:
        nodes = store.rows_of(search.store.nodes, begin, self.lanes)
        row = begin + jnp.arange(self.lanes, dtype=jnp.int32)
        valid = row < search.store.count
        level = jnp.where(valid, self._level_of(nodes.key), 0)
        board = self._boards(nodes.key)
        instance = jax.tree.map(lambda leaf: leaf[level], self.levels.instance)
        bounds = jax.vmap(self.bound)(instance, board).astype(jnp.float32)
        bound = bounds.min(axis=1) if self.settings.by_action else bounds
        goal = valid & jax.vmap(self.domain.is_goal)(instance, board)
        cost, goal_row = _best(search.cost, search.goal, nodes.cost, row, level, goal)
        near, near_row = _best(search.nearest, search.nearest_row, bound, row, level, valid)
        opens = valid & ~goal
        score = nodes.cost + self.settings.weight * bounds.T  # actions, if any, are the first axis
        entry = row
        if self.settings.by_action:
            actions = self.domain.num_actions
            able = jax.vmap(self.domain.neighbours)(instance, board).valid.T
            opens = opens & able
            entry = row * actions + jnp.arange(actions, dtype=jnp.int32)[:, None]
        above = score - self.start_score[level]
        opens &= jnp.isfinite(above)
        bucket = jnp.clip(jnp.floor(above / self.width), 0, BUCKETS - 1)
        bucket = jnp.where(opens, bucket, BUCKETS).astype(jnp.int32)
        todo = open_list.push(search.todo, entry.reshape(-1), bucket.reshape(-1))
        return search._replace(
            todo=todo, cost=cost, goal=goal_row, nearest=near, nearest_row=near_row
        )

    def _done(self, search: _Search) -> Bool[Array, " levels"]:
        if self.settings.terminate == "first":
            return search.goal >= 0
        return self._edge(open_list.first_bucket(search.todo)) >= search.cost

    # What they need.

    def _score(self, instance: Any, board: Any) -> Array:
        """Weighted bound of a start."""
        bound = self.bound(instance, board).astype(jnp.float32)
        return self.settings.weight * (bound.min() if self.settings.by_action else bound)

    def _edge(self, bucket: Array, level: Array | None = None) -> Array:
        """Least cost of a solution through an entry of the bucket, of a level or of each."""
        start = self.start_score if level is None else self.start_score[level]
        # The first bucket has all that is lower, but no solution costs less than the start's bound.
        edge = start + bucket.astype(jnp.float32) * self.width
        least = edge / max(1.0, self.settings.weight)
        return least if self.settings.admissible else jnp.zeros_like(least)

    def _level_of(self, key: Array) -> Int32[Array, " lanes"]:
        if not self.many:
            return jnp.zeros(key.shape[0], jnp.int32)
        return key[:, 0].astype(jnp.int32)

    def _boards(self, key: Array) -> Any:
        return jax.vmap(self.domain.unpack)(key[:, 1:] if self.many else key)


def _best(
    least: Array, least_row: Array, value: Array, row: Array, level: Array, valid: Array
) -> tuple[Array, Array]:
    """Take the least value of each level, and its first row."""
    value = jnp.where(valid, value, jnp.inf)
    new = least.at[level].min(value)
    lowest = valid & (value == new[level]) & (value < least[level])
    nobody = np.int32(np.iinfo(np.int32).max)
    first = (
        jnp.full(least.shape, nobody).at[jnp.where(lowest, level, len(least))].min(row, mode="drop")
    )
    return new, jnp.where(new < least, first, least_row)
