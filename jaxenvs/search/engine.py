"""The loop of A* and Q*: take the best entries, expand them, know the new boards, open them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt32

from . import open_list, store
from .open_list import OpenList
from .result import Result
from .store import Nodes, Store

BUCKETS = 512
FINE = 0.25  # width of a bucket for bounds that are no whole numbers


class Settings(NamedTuple):
    """The static part of a search."""

    weight: float
    batch_size: int
    node_budget: int
    terminate: str
    longest: int
    admissible: bool
    by_action: bool  # Q*
    to_middle: bool = False  # no entry goes beyond the middle of a path, see bidirectional


class Search(NamedTuple):
    """Everything that changes."""

    store: Store
    todo: OpenList
    cost: Float32[Array, " levels"]  # of the best goal
    goal: Int32[Array, " levels"]  # its row, -1 before there is one
    nearest: Float32[Array, " levels"]  # least bound of any board
    nearest_row: Int32[Array, " levels"]
    done: Bool[Array, " levels"]
    # Of the least cost. It stays when a level is done: its open entries are then passed over.
    lower: Float32[Array, " levels"]
    expanded: Int32[Array, ""]
    iterations: Int32[Array, ""]


def rows_for(domain: Any, settings: Settings, levels: int) -> int:
    """Rows of the store: the budget, and room for what one iteration adds."""
    lanes = max(settings.batch_size, levels)
    return settings.node_budget + lanes * (1 if settings.by_action else domain.num_actions) + lanes


def keys_of(
    domain: Any, boards: Any, many: bool, level: Array | None = None
) -> UInt32[Array, "lanes words"]:
    """Pack boards; with many levels the level's number comes first."""
    keys = jax.vmap(domain.pack)(boards)
    if not many:
        return keys
    level = jnp.zeros(keys.shape[0], jnp.int32) if level is None else level
    return jnp.concatenate([level.astype(jnp.uint32)[:, None], keys], axis=1)


class Engine:
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
        end = jax.lax.while_loop(self._goes_on, self.iterate, self.start())
        solved = end.goal >= 0
        empty = end.todo.size.sum() == 0
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
            optimal=solved & known & (end.lower >= end.cost),
            unsolvable=~solved & empty,
            lower_bound=jnp.where(known, end.lower, -jnp.inf),
            board=jax.vmap(self.domain.unpack)(keys[:, 1:] if self.many else keys),
            nodes=end.store.used,
            expanded=end.expanded,
            iterations=end.iterations,
        )

    # The loop.

    def start(self) -> Search:
        """Open the starts."""
        settings, count, lanes = self.settings, self.count, self.lanes
        rows = rows_for(self.domain, settings, count)
        keys = keys_of(
            self.domain, self.levels.board, self.many, jnp.arange(count, dtype=jnp.int32)
        )
        entries = self.domain.num_actions if settings.by_action else 1
        level = jnp.zeros(count, jnp.int32)
        search = Search(
            store.empty(rows, keys.shape[1]),
            open_list.empty(rows * entries, BUCKETS),
            jnp.full(count, jnp.inf, jnp.float32),
            level - 1,
            jnp.full(count, jnp.inf, jnp.float32),
            level,
            jnp.zeros(count, jnp.bool_),
            jnp.zeros(count, jnp.float32),
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

    def _goes_on(self, search: Search) -> Array:
        room = search.store.used < self.settings.node_budget
        return room & ~search.done.all() & (search.todo.size.sum() > 0)

    def iterate(self, search: Search) -> Search:
        """Expand a batch of entries."""
        todo, entry, bucket, valid = open_list.pop(search.todo, self.lanes)
        search = search._replace(todo=todo, iterations=search.iterations + 1)
        first = search.store.used
        row = entry // self.domain.num_actions if self.settings.by_action else entry
        level = self.level_of(search.store.nodes.key[row])
        valid &= (search.store.stale[row] == 0) & ~search.done[level]
        valid &= self.edge(bucket, level) < search.cost[level]
        search = search._replace(expanded=search.expanded + valid.sum(dtype=jnp.int32))
        search = self._insert(search, *self._children(search, row, entry, level, valid))
        return self._open(search, first)

    def _children(
        self, search: Search, row: Array, entry: Array, level: Array, valid: Array
    ) -> tuple[Nodes, Array]:
        """All boards after the entries: those of an entry side by side, the dearest first."""
        domain, actions = self.domain, self.domain.num_actions
        nodes = search.store.nodes
        order = jnp.argsort(-nodes.cost[row])
        row, entry, level, valid = row[order], entry[order], level[order], valid[order]
        board = self.boards(nodes.key[row])
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
            keys_of(domain, move.board, self.many, level),
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

    def _insert(self, search: Search, children: Nodes, valid: Array) -> Search:
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

    def _open(self, search: Search, first: Array) -> Search:
        """Bound the rows from `first` on, note goals, and put the rest on the open list."""

        def one(i: Array, search: Search) -> Search:
            begin = first + i * self.lanes
            return self._open_rows(search, begin)

        blocks = -(-(search.store.used - first) // self.lanes)
        search = jax.lax.fori_loop(0, blocks, one, search)
        lower = jnp.where(search.done, search.lower, self.bound_below(search))
        if self.settings.terminate == "first":
            return search._replace(done=search.goal >= 0, lower=lower)
        return search._replace(done=lower >= search.cost, lower=lower)

    def _open_rows(self, search: Search, begin: Array) -> Search:
        nodes = store.rows_of(search.store.nodes, begin, self.lanes)
        row = begin + jnp.arange(self.lanes, dtype=jnp.int32)
        valid = row < search.store.used
        level = jnp.where(valid, self.level_of(nodes.key), 0)
        board = self.boards(nodes.key)
        instance = jax.tree.map(lambda leaf: leaf[level], self.levels.instance)
        bounds = jax.vmap(self.bound)(instance, board).astype(jnp.float32)
        bound = bounds.min(axis=1) if self.settings.by_action else bounds
        goal = valid & jax.vmap(self.domain.is_goal)(instance, board)
        cost, goal_row = _best(search.cost, search.goal, nodes.cost, row, level, goal)
        near, near_row = _best(search.nearest, search.nearest_row, bound, row, level, valid)
        opens = valid & ~goal
        score = nodes.cost + self.settings.weight * bounds.T  # actions, if any, are the first axis
        if self.settings.to_middle:
            score = jnp.maximum(score, 2 * nodes.cost)
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

    def bound_below(self, search: Search) -> Float32[Array, " levels"]:
        """Least cost that a solution may have: of the first open entries, or the one found."""
        edge = self.edge(open_list.first_bucket(search.todo))
        empty = search.todo.size.sum() == 0
        return jnp.where(empty, search.cost, jnp.minimum(edge, search.cost))

    # What they need.

    def _score(self, instance: Any, board: Any) -> Array:
        """Weighted bound of a start."""
        bound = self.bound(instance, board).astype(jnp.float32)
        return self.settings.weight * (bound.min() if self.settings.by_action else bound)

    def edge(self, bucket: Array, level: Array | None = None) -> Array:
        """Least cost of a solution through an entry of the bucket, of a level or of each."""
        start = self.start_score if level is None else self.start_score[level]
        # The first bucket has all that is lower, but no solution costs less than the start's bound.
        edge = start + bucket.astype(jnp.float32) * self.width
        least = edge / max(1.0, self.settings.weight)
        return least if self.settings.admissible else jnp.zeros_like(least)

    def level_of(self, key: Array) -> Int32[Array, " lanes"]:
        """Level of each key."""
        if not self.many:
            return jnp.zeros(key.shape[0], jnp.int32)
        return key[:, 0].astype(jnp.int32)

    def boards(self, key: Array) -> Any:
        """Unpack keys."""
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
