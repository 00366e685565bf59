"""Search loop of A* and Q*: take the best open entries, expand them, and store the new boards."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt32

from . import open_list, store
from .open_list import OpenList
from .result import Result
from .store import Nodes, Store

# The open list sorts its entries into buckets, one for each range of priorities. The default for
# the smallest width of a range is FINE * max(1, weight) * (cost of the cheapest action). If
# `Engine.coarse` is True (unit costs, the domain's own heuristic, weight 0 or 1), the default is 1.
FINE = 0.25


class Settings(NamedTuple):
    """Settings of a search that are static (constant under `jit`)."""

    weight: float
    batch_size: int
    node_budget: int
    terminate: str
    longest: int
    admissible: bool
    by_action: bool  # whether an open entry is one action of a node (Q*) instead of a node (A*)
    # Smallest bucket width: entries whose priorities differ by less may be popped in any order.
    # None: see `FINE`.
    bucket_width: float | None = None
    # True in the two searches of `bidirectional`: nodes get the priorities of MM (meet in the
    # middle), and `bidirectional` decides when both searches end.
    to_middle: bool = False


class Search(NamedTuple):
    """State of the search loop."""

    store: Store
    todo: OpenList
    cost: Float32[Array, " levels"]  # cost of the best goal found so far, infinite without one
    # Row in the store of the cheapest goal found so far; -1 if no goal was found.
    goal: Int32[Array, " levels"]
    nearest: Float32[Array, " levels"]  # lowest heuristic of any stored board
    nearest_row: Int32[Array, " levels"]  # row in the store of the board with the lowest heuristic
    done: Bool[Array, " levels"]
    # Lower bound on the optimal cost. It stays constant once a level is done, because the level's
    # open entries are then skipped instead of expanded.
    lower: Float32[Array, " levels"]
    # Whether a board was discarded because an inadmissible heuristic was infinite. The level may
    # then have a solution even if the search ends without one.
    lost: Bool[Array, " levels"]
    # Smallest bucket width: entries whose priorities differ by less may be popped in any order.
    finest: Float32[Array, ""]
    expanded: Int32[Array, ""]
    iterations: Int32[Array, ""]


def rows_for(domain: Any, settings: Settings, levels: int) -> int:
    """Return the number of nodes for which the search allocates memory.

    This is the node budget, plus room for the new nodes of one iteration.
    """
    lanes = max(settings.batch_size, levels)
    return settings.node_budget + lanes * (1 if settings.by_action else domain.num_actions) + lanes


def keys_of(
    domain: Any, boards: Any, many: bool, level: Array | None = None
) -> UInt32[Array, "lanes words"]:
    """Pack boards into keys of the hash table.

    If `many` is True, the search has several levels. The first word of each key is then the index
    of the level.
    """
    keys = jax.vmap(domain.pack)(boards)
    if not many:
        return keys
    level = jnp.zeros(keys.shape[0], jnp.int32) if level is None else level
    return jnp.concatenate([level.astype(jnp.uint32)[:, None], keys], axis=1)


class Engine:
    """Search algorithm: functions that start a search, run one iteration, and read the result.

    An engine exists only while `jit` traces a search, because it contains traced arrays (the levels
    to solve).
    """

    def __init__(
        self, domain: Any, bound: Any, settings: Settings, coarse: bool, many: bool, levels: Any
    ) -> None:
        self.domain, self.settings, self.many, self.levels = domain, settings, many, levels
        self.count = jax.tree.leaves(levels.board)[0].shape[0]
        self.lanes = max(settings.batch_size, self.count)
        self.bound = bound
        self.coarse = coarse
        # Factor by which a heuristic weight above 1 increases the differences between priorities.
        self.steeper = max(1.0, settings.weight)

    def result(self) -> Result:
        """Run the search until it ends, and return its result."""
        end = jax.lax.while_loop(self._goes_on, self.iterate, self.start())
        solved = end.goal >= 0
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
            unsolvable=~solved & ~end.lost & (end.lower == jnp.inf),
            lower_bound=jnp.where(known, end.lower, -jnp.inf),
            board=jax.vmap(self.domain.unpack)(keys[:, 1:] if self.many else keys),
            nodes=end.store.used,
            expanded=end.expanded,
            iterations=end.iterations,
        )

    def start(self) -> Search:
        """Return the state before the first iteration; the start boards are in the open list."""
        settings, count, lanes = self.settings, self.count, self.lanes
        rows = rows_for(self.domain, settings, count)
        keys = keys_of(
            self.domain, self.levels.board, self.many, jnp.arange(count, dtype=jnp.int32)
        )
        entries = self.domain.num_actions if settings.by_action else 1
        bounds = jax.vmap(self._start_bound)(self.levels.instance, self.levels.board)
        finest, first, width = self._ranges(bounds)
        level = jnp.zeros(count, jnp.int32)
        no_level = jnp.zeros(count, jnp.bool_)
        search = Search(
            store=store.empty(rows, keys.shape[1]),
            todo=open_list.empty(rows * entries, first, width),
            cost=jnp.full(count, jnp.inf, jnp.float32),
            goal=level - 1,
            nearest=jnp.full(count, jnp.inf, jnp.float32),
            nearest_row=jnp.arange(count, dtype=jnp.int32),  # row i: start board of level i
            done=no_level,
            lower=jnp.maximum(bounds, 0) if settings.admissible else jnp.full(count, -jnp.inf),
            lost=no_level,
            finest=finest,
            expanded=jnp.int32(0),
            iterations=jnp.int32(0),
        )
        more = ((0, lanes - count),)
        nodes = Nodes(
            jnp.pad(keys, (*more, (0, 0))),
            jnp.zeros(lanes, jnp.float32),
            jnp.full(lanes, -1, jnp.int32),
            jnp.full(lanes, -1, jnp.int16),
        )
        valid = jnp.arange(lanes) < count
        search = search._replace(store=store.insert(search.store, nodes, valid))
        return self._open(search, jnp.int32(0))

    def _ranges(self, bounds: Array) -> tuple[Array, Array, Array]:
        """Return (smallest bucket width, start, width); the last two define the initial ranges.

        A range is the interval of priorities of one bucket of the open list. The middle bucket's
        range begins at `start`, and every range has this width. `bounds` are the heuristics of the
        start boards.
        """
        if self.settings.bucket_width is not None:
            finest = jnp.float32(self.settings.bucket_width)
        elif self.coarse:
            finest = jnp.float32(1.0)
        elif self.domain.unit_cost:
            finest = jnp.float32(FINE * self.steeper)
        else:  # the costs of the actions are not known yet, so the buckets are wide
            finest = jnp.float32(open_list.UNKNOWN)
        scores = np.float32(self.settings.weight) * bounds
        scores = jnp.where(jnp.isfinite(scores), scores, 0.0)
        if self.settings.weight <= 1:
            return finest, scores.min(), finest
        # With a weight above 1, priorities fall during the search, from the start boards' scores
        # to the cost of a goal. The lower half of the initial ranges therefore extends to 0.
        half = open_list.BUCKETS // 2
        return finest, scores.max(), jnp.maximum(finest, scores.max() / np.float32(half - 1))

    def _goes_on(self, search: Search) -> Array:
        room = search.store.used < self.settings.node_budget
        return room & ~search.done.all() & (open_list.length(search.todo) > 0)

    def iterate(self, search: Search) -> Search:
        """Pop a batch of entries from the open list, expand them, and push the new boards.

        The exception is an open list that has changed the priority ranges of its buckets. Until all
        entries have moved to buckets with the new ranges, an iteration pushes the popped entries
        again instead of expanding them.
        """
        moves = open_list.is_moving(search.todo)
        todo, entry, least, valid = open_list.pop(search.todo, self.lanes)
        search = search._replace(todo=todo, iterations=search.iterations + 1)
        first = search.store.used
        row = entry // self.domain.num_actions if self.settings.by_action else entry
        level = self.level_of(search.store.nodes.key[row])
        best = search.cost[level]
        valid &= (search.store.stale[row] == 0) & ~search.done[level]
        # Skip entries whose cost is at least the best goal's. They cannot lead to a cheaper
        # goal, because no action has a negative cost.
        valid &= (search.store.nodes.cost[row] < best) & (self._promise(least) < best)
        again = valid & moves
        valid &= ~moves
        search = search._replace(expanded=search.expanded + valid.sum(dtype=jnp.int32))
        children, valid, finest = self._children(search, row, entry, level, valid)
        search = self._insert(search._replace(finest=finest), children, valid)
        search = self._open(search, first, (entry, again, moves))
        todo = open_list.adapted(search.todo, search.finest, self.lanes, ~moves)
        return search._replace(todo=todo)

    def _children(
        self, search: Search, row: Array, entry: Array, level: Array, valid: Array
    ) -> tuple[Nodes, Array, Array]:
        """Return (children of the entries, mask of valid children, new value of `Search.finest`).

        The children are in order of descending cost, as `store.insert` requires. `Search.finest` is
        the smallest bucket width.
        """
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
        finest = search.finest
        if not domain.unit_cost:
            if self.settings.bucket_width is None:
                some = jnp.where(valid & (move.cost > 0), move.cost, jnp.inf).min()
                finest = jnp.minimum(finest, some * np.float32(FINE * self.steeper))
            order = jnp.argsort(-children.cost)
            children, valid = jax.tree.map(lambda leaf: leaf[order], (children, valid))
        return children, valid, finest

    def _move(self, instance: Any, board: Any, action: Array) -> Any:
        """Apply one action by the domain's `apply`, or by `neighbours` if there is no `apply`."""
        apply = getattr(self.domain, "apply", None)
        if apply is not None:
            return apply(instance, board, action)
        moves = self.domain.neighbours(instance, board)
        return jax.tree.map(lambda leaf: leaf[action], moves)

    def _possible(self, instance: Any, board: Any) -> Array:
        """Return the mask of the actions of a board that Q* pushes to the open list."""
        possible = getattr(self.domain, "possible", None)
        if possible is not None:
            return possible(instance, board)
        return self.domain.neighbours(instance, board).valid

    def _undoes(self, last: Array, action: Array) -> Array:
        """Return whether `action` undoes `last`, the action that led to the board.

        Always False if the domain defines no inverse actions.
        """
        inverse = getattr(self.domain, "inverse", None)
        if inverse is None:
            return jnp.zeros(action.shape, jnp.bool_)
        back = jnp.asarray(inverse)[jnp.maximum(last, 0).astype(jnp.int32)]
        return (last >= 0) & (back == action)

    def _insert(self, search: Search, children: Nodes, valid: Array) -> Search:
        """Insert the valid children into the store, in chunks of `lanes` valid children.

        Invalid children are left out of the chunks, which reduces the number of chunks.
        """
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

    def _open(
        self, search: Search, first: Array, moved: tuple[Any, Any, Any] | None = None
    ) -> Search:
        """Process the new nodes of the store, which are in the rows from `first` on.

        Computes their heuristics, records goals, and pushes the other nodes to the open list.

        moved: (popped entries, mask, flag). If the flag is True, there are no new nodes. Instead,
            the entries for which the mask is True are pushed again, because the ranges of the open
            list have changed.
        """
        lane = jnp.arange(self.lanes, dtype=jnp.int32)
        actions = self.domain.num_actions if self.settings.by_action else 1

        def one(i: Array, search: Search) -> Search:
            row = first + i * self.lanes + lane
            if moved is None:
                return self._open_rows(search, row, row < search.store.used)
            entry, again, moves = moved
            valid = jnp.where(moves, again, row < search.store.used)
            row = jnp.where(moves, entry // actions, row)
            return self._open_rows(search, row, valid, jnp.where(moves, entry % actions, -1))

        blocks = -(-(search.store.used - first) // self.lanes)
        if moved is not None:
            blocks = jnp.where(moved[2], 1, blocks)
        search = jax.lax.fori_loop(0, blocks, one, search)
        return search if self.settings.to_middle else self._concluded(search)

    def _open_rows(
        self, search: Search, row: Array, valid: Array, only: Array | None = None
    ) -> Search:
        nodes = search.store.nodes
        key, cost = nodes.key[row], nodes.cost[row]
        level = jnp.where(valid, self.level_of(key), 0)
        board = self.boards(key)
        instance = jax.tree.map(lambda leaf: leaf[level], self.levels.instance)
        bounds = jax.vmap(self.bound)(instance, board).astype(jnp.float32)
        bound = bounds.min(axis=1) if self.settings.by_action else bounds
        goal = valid & jax.vmap(self.domain.is_goal)(instance, board)
        best, goal_row = _best(search.cost, search.goal, cost, row, level, goal)
        near, near_row = _best(search.nearest, search.nearest_row, bound, row, level, valid)
        opens = valid & ~goal
        # In Q*, `bounds` is (boards, actions): transpose it, so that `cost` is broadcast along
        # actions.
        score = cost + self.settings.weight * bounds.T
        if self.settings.to_middle:
            score = jnp.maximum(score, 2 * cost)
        # Clip a sum of finite terms that overflows: `push` would skip an infinite priority.
        finite = jnp.isfinite(cost) & jnp.isfinite(bounds.T)
        score = jnp.where(finite, jnp.minimum(score, open_list.MOST), score)
        entry = row
        if self.settings.by_action:
            actions = self.domain.num_actions
            action = jnp.arange(actions, dtype=jnp.int32)[:, None]
            opens &= jax.vmap(self._possible)(instance, board).T
            if only is not None:
                opens &= (only < 0) | (only == action)
            entry = row * actions + action
        score = jnp.where(opens, score, jnp.inf)
        lost = search.lost
        if not self.settings.admissible:
            wrong = (opens & ~(score < jnp.inf)).reshape(-1, self.lanes).any(axis=0)
            lost = lost.at[level].max(wrong)
        return search._replace(
            todo=open_list.push(search.todo, entry.reshape(-1), score.reshape(-1)),
            cost=best,
            goal=goal_row,
            nearest=near,
            nearest_row=near_row,
            lost=lost,
        )

    def _concluded(self, search: Search) -> Search:
        """Raise the lower bounds on the cost of a solution, and mark finished levels as done."""
        edge, cost = open_list.edge(search.todo), search.cost
        done = search.done
        if self.settings.terminate == "first":
            # The bound must not exceed the best goal's cost, because entries with a higher priority
            # are skipped instead of expanded.
            lower = self.least_cost(jnp.minimum(edge, cost))
            done |= (search.goal >= 0) & (cost <= edge)
        else:
            lower = self.least_cost(edge)
        lower = jnp.minimum(jnp.maximum(search.lower, lower), cost)
        lower = jnp.where(search.done, search.lower, lower)
        return search._replace(done=done | (lower >= cost), lower=lower)

    def _start_bound(self, instance: Any, board: Any) -> Array:
        """Return the heuristic of a start board; with Q*, the lowest value over its actions."""
        bound = self.bound(instance, board).astype(jnp.float32)
        return bound.min() if self.settings.by_action else bound

    def _promise(self, priority: Array) -> Array:
        """Return a value per entry; entries whose value reaches the best goal's cost are skipped.

        With `terminate="first"`, the value is the entry's priority. Otherwise, it is the lower
        bound on the cost of solutions through the entry.
        """
        if self.settings.terminate == "first" and not self.settings.to_middle:
            return priority
        return self.least_cost(priority)

    def least_cost(self, priority: Array) -> Array:
        """Return a lower bound on the cost of all solutions whose path contains an open entry.

        `priority` is the priority of the entry, or a lower bound on it.
        """
        if not self.settings.admissible:
            return jnp.where(priority == jnp.inf, jnp.inf, -jnp.inf)
        # The priority of an entry is at most max(1, weight) times the cost of a solution through
        # it. The factor is slightly less than 1 / weight, because the product may be rounded up.
        weight = self.settings.weight
        return priority * np.float32(1.0 if weight <= 1 else (1 - 2.0**-22) / weight)

    def level_of(self, key: Array) -> Int32[Array, " lanes"]:
        """Return the index of the level to which each key belongs."""
        if not self.many:
            return jnp.zeros(key.shape[0], jnp.int32)
        return key[:, 0].astype(jnp.int32)

    def boards(self, key: Array) -> Any:
        """Return the boards of nodes, unpacked from the nodes' keys (see store.py)."""
        return jax.vmap(self.domain.unpack)(key[:, 1:] if self.many else key)


def _best(
    least: Array, least_row: Array, value: Array, row: Array, level: Array, valid: Array
) -> tuple[Array, Array]:
    """Return the lowest value of each level, and the row of the node that has this value.

    `least` and `least_row` are the lowest values and their rows before this call. `value`, `row`,
    `level` and `valid` describe new nodes; nodes for which `valid` is False are ignored. Of several
    new nodes with the lowest value, the one with the lowest row is returned.
    """
    value = jnp.where(valid, value, jnp.inf)
    new = least.at[level].min(value)
    lowest = valid & (value == new[level]) & (value < least[level])
    no_row = np.int32(np.iinfo(np.int32).max)
    first = (
        jnp.full(least.shape, no_row).at[jnp.where(lowest, level, len(least))].min(row, mode="drop")
    )
    return new, jnp.where(new < least, first, least_row)
