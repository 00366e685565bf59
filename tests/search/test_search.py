"""Tests of A*, Q*, beam and bidirectional search: known optima, proofs, budgets and messages."""

import functools
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs import search
from jaxenvs.puzzles import TSP, Maze, Move, SlidingTile, Sokoban
from jaxenvs.search import open_list, store

EIGHT = SlidingTile(size=3)
# One of the two boards that are 31 moves from the goal; no board is farther.
HARDEST = (8, 6, 7, 2, 5, 4, 3, 0, 1)


def drawn(puzzle, count, seed=0):
    return jax.jit(jax.vmap(puzzle.sample_level))(jax.random.split(jax.random.key(seed), count))


@functools.cache
def rules(puzzle):
    return jax.jit(puzzle.apply), jax.jit(puzzle.is_goal)


def follow(puzzle, level, actions, length):
    """Return the board and the cost after the first `length` actions, which must all be legal."""
    apply, _ = rules(puzzle)
    board, cost = level.board, 0.0
    for action in np.asarray(actions)[: int(length)]:
        move = apply(level.instance, board, jnp.int32(action))
        assert move.valid
        board, cost = move.board, cost + float(move.cost)
    return board, cost


def assert_plays(puzzle, levels, result):
    """Assert that the actions of each result lead to the result's board.

    If the level is solved, also assert that this board is a goal, and that the actions have the
    result's cost.
    """
    for i in range(result.cost.shape[0]):
        level = jax.tree.map(lambda leaf, i=i: leaf[i], levels)
        board, cost = follow(puzzle, level, result.actions[i], result.length[i])
        assert (np.asarray(result.actions[i])[int(result.length[i]) :] == -1).all()
        for x, y in zip(
            jax.tree.leaves(board),
            jax.tree.leaves(jax.tree.map(lambda leaf, i=i: leaf[i], result.board)),
            strict=True,
        ):
            np.testing.assert_array_equal(x, y)
        if result.solved[i]:
            assert rules(puzzle)[1](level.instance, board)
            assert cost == pytest.approx(float(result.cost[i]), rel=1e-5)


SMALL = {"batch_size": 64, "node_budget": 200_000, "max_length": 40}


@functools.cache
def eight_levels():
    return drawn(EIGHT, 8, seed=1)


@functools.cache
def eight():
    """Return the result of A* for `eight_levels`, the reference for the other searches."""
    return search.astar(EIGHT, eight_levels(), terminate="optimal", **SMALL)


@pytest.mark.full
def test_the_hardest_eight_puzzle_takes_31_moves():
    result = search.astar(EIGHT, EIGHT.level(HARDEST), terminate="optimal", **SMALL)
    assert result.solved and result.optimal and result.cost == 31 and result.length == 31
    assert result.lower_bound == 31
    board, _ = follow(EIGHT, EIGHT.level(HARDEST), result.actions, result.length)
    np.testing.assert_array_equal(board, EIGHT.goal(()))


@pytest.mark.full
def test_astar_finds_the_exact_distance_of_many_levels_in_one_table():
    result = eight()
    assert result.solved.all() and result.optimal.all()
    assert_plays(EIGHT, eight_levels(), result)
    one = functools.partial(search.astar, EIGHT, terminate="optimal", **SMALL)
    for i in (0, 5):
        level = jax.tree.map(lambda leaf, i=i: leaf[i], eight_levels())
        assert one(level).cost == result.cost[i]


@pytest.mark.full
@pytest.mark.parametrize(
    "run",
    [functools.partial(search.qstar, terminate="optimal"), search.bidirectional],
    ids=["qstar", "bidirectional"],
)
def test_other_exact_searches_agree_with_astar(run):
    result = run(EIGHT, eight_levels(), **SMALL)
    np.testing.assert_array_equal(result.cost, eight().cost)
    assert result.optimal.all()
    assert_plays(EIGHT, eight_levels(), result)


@pytest.mark.full
def test_beam_search_solves_and_never_beats_the_optimum():
    result = search.beam(EIGHT, eight_levels(), width=128, max_length=60)
    assert result.solved.all() and not result.optimal.any()
    assert (result.cost >= eight().cost).all()
    assert_plays(EIGHT, eight_levels(), result)


@functools.cache
def weighted(weight):
    """Solve `eight_levels` by weighted A* with room for solutions of at most 16 actions."""
    return search.astar(EIGHT, eight_levels(), weight=weight, **{**SMALL, "max_length": 16})


@pytest.mark.full
@pytest.mark.parametrize("weight", [2.0, 5.0])
def test_a_larger_weight_expands_less_and_loses_no_more_than_it_may(weight):
    """Weighted A* expands fewer boards; its solutions cost at most `weight` times the optimum.

    It must not claim that a solution is optimal if a cheaper one exists.
    """
    result = weighted(weight)
    better = result.cost > eight().cost
    assert result.solved.all() and better.any() and not (result.optimal & better).any()
    assert (result.cost <= weight * eight().cost).all()
    assert (result.lower_bound <= eight().cost).all()
    assert int(result.expanded) < int(eight().expanded)


def test_actions_that_have_no_room_are_left_out():
    result = weighted(5.0)
    fits = result.length <= 16
    assert fits.any() and not fits.all() and result.solved.all()
    np.testing.assert_array_equal((result.actions == -1).all(axis=1), ~fits)


@pytest.mark.full
def test_bidirectional_search_leaves_out_solutions_without_room():
    result = search.bidirectional(EIGHT, eight_levels(), **{**SMALL, "max_length": 16})
    fits = result.length <= 16
    assert not fits.all() and result.solved.all()
    np.testing.assert_array_equal((result.actions == -1).all(axis=1), ~fits)


def test_without_a_finite_heuristic_each_level_keeps_its_own_board():
    levels = drawn(EIGHT, 3, seed=2)
    nothing = lambda *_: jnp.float32(jnp.inf)  # noqa: E731
    given = {"heuristic": nothing, "max_length": 8}
    for found in (
        search.astar(EIGHT, levels, batch_size=8, node_budget=100, **given),
        search.beam(EIGHT, levels, width=4, **given),
    ):
        assert not found.solved.any() and (found.length == 0).all()
        assert (found.actions == -1).all()
        np.testing.assert_array_equal(found.board, levels.board)


def test_a_budget_that_ends_gives_the_nearest_board_and_a_bound():
    budget = {**SMALL, "node_budget": 300}
    result = search.astar(EIGHT, EIGHT.level(HARDEST), **budget)
    assert not result.solved and not result.optimal and not result.unsolvable
    assert result.cost == np.inf and 0 < result.lower_bound <= 31
    board, cost = follow(EIGHT, EIGHT.level(HARDEST), result.actions, result.length)
    np.testing.assert_array_equal(board, result.board)
    heuristic = jax.jit(EIGHT.heuristic)
    start = heuristic((), EIGHT.level(HARDEST).board)
    assert heuristic((), board) < start and cost == int(result.length)
    assert 300 <= result.nodes <= 300 + 64 * 5


def test_a_level_without_a_solution_is_said_to_have_none():
    """A* proves that a level is unsolvable, by examining all 181,440 reachable boards.

    The start board is the goal with two tiles exchanged. The test changes the packed board itself,
    because `EIGHT.level` refuses unsolvable boards.
    """
    board = EIGHT.goal(())
    swapped = board.at[0].set(board[0] ^ np.uint32(0x3 | 0x3 << 4))  # exchanges the tiles 1 and 2
    result = search.astar(EIGHT, swapped, batch_size=4096, node_budget=190_000)
    assert result.unsolvable and not result.solved and result.lower_bound == np.inf


def test_a_start_that_is_solved_needs_no_action():
    """A level whose start board is the goal is solved without actions.

    The level replaces one of `eight_levels`, for which other tests have compiled the searches.
    """
    board = eight_levels().board.at[3].set(EIGHT.goal(()))
    levels = eight_levels().replace(board=board)
    for result in (
        search.astar(EIGHT, levels, terminate="optimal", **SMALL),
        search.bidirectional(EIGHT, levels, **SMALL),
        search.beam(EIGHT, levels, width=128, max_length=60),
    ):
        assert result.solved.all() and result.cost[3] == 0 and (result.actions[3] == -1).all()
        assert result.cost[4] == eight().cost[4] or not result.optimal[4]


def test_a_beam_takes_the_cheapest_goal_of_a_step():
    """Both actions reach a goal in one step: action 0 at a cost of 31, action 1 at a cost of 2."""
    fork = search.Domain(
        neighbours=lambda instance, board: Move(
            jnp.array([1, 2], jnp.int32), jnp.array([31.0, 2.0]), jnp.array([True, True])
        ),
        is_goal=lambda instance, board: board > 0,
        pack=lambda board: board.astype(jnp.uint32)[None],
        unpack=lambda words: words[0].astype(jnp.int32),
        num_actions=2,
        num_words=1,
    )
    result = search.beam(fork, jnp.int32(0), width=4, max_length=2)
    assert result.solved and result.cost == 2 and result.actions[0] == 1 and result.board == 2


def line(cost, bound):
    """Return a domain with the boards 0 to 3 and the dead end 4; board 3 is the goal.

    Action 0 leads to the dead end, action 1 to the next board. Each action costs `cost`.
    """
    return search.Domain(
        neighbours=lambda instance, board: Move(
            jnp.where(board < 3, jnp.array([4, board + 1], jnp.int32), board),
            jnp.full(2, cost, jnp.float32),
            jnp.full(2, board < 3),
        ),
        is_goal=lambda instance, board: board == 3,
        pack=lambda board: board.astype(jnp.uint32)[None],
        unpack=lambda words: words[0].astype(jnp.int32),
        num_actions=2,
        num_words=1,
        heuristic=lambda instance, board: jnp.where(board < 3, jnp.float32(bound), 0.0),
    )


def test_a_beam_ends_at_a_goal_whose_cost_overflows():
    result = search.beam(line(2e38, 0.0), jnp.int32(1), width=4, max_length=4)
    assert result.solved and result.board == 3 and result.length == 2


@pytest.mark.parametrize(
    ("run", "settings"),
    [
        (search.astar, {"bucket_width": 1e30, "weight": 1e30}),
        pytest.param(search.qstar, {"weight": 4.0}, marks=pytest.mark.full),
        pytest.param(search.astar, {"weight": 4.0}, marks=pytest.mark.full),
        pytest.param(search.qstar, {"bucket_width": 1e30, "weight": 1e30}, marks=pytest.mark.full),
    ],
)
def test_priorities_that_overflow_prove_nothing(run, settings):
    given = {"batch_size": 2, "node_budget": 100, "max_length": 4, **settings}
    result = run(line(1e38, 1e38), jnp.int32(0), **given)
    assert result.solved and not result.unsolvable and result.cost == np.float32(3e38)
    assert result.lower_bound <= result.cost


@pytest.mark.full
def test_mazes_against_their_oracle():
    puzzle = Maze(rows=9, columns=9)
    levels = drawn(puzzle, 4)
    result = search.astar(puzzle, levels, terminate="optimal", **SMALL)
    exact = jax.vmap(puzzle.oracle)(levels.instance, levels.board)
    np.testing.assert_array_equal(result.cost, exact.astype(jnp.float32))
    assert result.optimal.all()


@pytest.mark.full
def test_real_costs_are_compared_exactly():
    puzzle = TSP(cities=5)
    levels = drawn(puzzle, 3)
    result = search.astar(puzzle, levels, terminate="optimal", batch_size=32, node_budget=20_000)
    assert result.solved.all() and result.optimal.all()
    assert_plays(puzzle, levels, result)
    for i in range(3):
        level = jax.tree.map(lambda leaf, i=i: leaf[i], levels)
        tours = (follow(puzzle, level, order, 4)[1] for order in orders(puzzle))
        assert float(result.cost[i]) == pytest.approx(min(tours), rel=1e-5)


def orders(puzzle):
    """Return all tours from city 0, as action sequences. Action i goes to city i."""
    return itertools.permutations(range(1, puzzle.cities))


@pytest.mark.full
def test_sokoban_is_solved_from_both_sides_of_the_interface():
    puzzle = Sokoban(size=6, boxes=2, pulls=6)
    levels = drawn(puzzle, 4)
    result = search.astar(puzzle, levels, terminate="optimal", batch_size=256, node_budget=100_000)
    assert result.solved.all() and result.optimal.all()
    assert_plays(puzzle, levels, result)


def counting(limit=1000):
    """Return a domain in which boards are numbers up to `limit`, and the goal is 37.

    Action 0 adds 1 to the number; action 1 doubles the number.
    """

    def neighbours(instance, board):
        after = jnp.stack([board + 1, board * 2])
        return Move(after, jnp.ones(2, jnp.float32), after <= limit)

    return search.Domain(
        neighbours=neighbours,
        is_goal=lambda instance, board: board == 37,
        pack=lambda board: board.astype(jnp.uint32)[None],
        unpack=lambda words: words[0].astype(jnp.int32),
        num_actions=2,
        num_words=1,
    )


@pytest.mark.full
def test_any_functions_can_be_searched():
    settings = {"terminate": "optimal", "batch_size": 8, "node_budget": 2000, "max_length": 16}
    numbers = jnp.array([1, 36, 18], jnp.int32)  # the shortest path is 1 2 4 8 9 18 36 37
    result = search.astar(counting(), numbers, **settings)
    np.testing.assert_array_equal(result.cost, [7, 1, 2])
    assert result.optimal.all()
    q = search.qstar(counting(), jnp.int32(1), **settings)
    assert q.cost == 7 and q.optimal
    assert search.beam(counting(), jnp.int32(1), width=64, max_length=20).cost == 7


def test_a_bound_that_may_be_too_high_proves_nothing():
    result = search.astar(
        counting(), jnp.int32(1), heuristic=lambda i, b: jnp.abs(37 - b).astype(jnp.float32),
        terminate="optimal", batch_size=8,
    )  # fmt: skip
    assert (result.solved and result.lower_bound == -np.inf) or result.unsolvable
    assert not result.optimal or result.cost == 7


def test_an_infinity_that_may_be_wrong_does_not_prove_that_nothing_is_there():
    """An infinite value of an inadmissible heuristic must not prove that a level is unsolvable.

    From 1, the heuristic is infinite on every path to 37, so the search proves nothing. From 900,
    it is finite everywhere, and the search proves that 37 is unreachable.
    """
    domain, numbers = counting(), jnp.array([1, 900], jnp.int32)

    def cut(instance, board):
        return jnp.where((board > 1) & (board <= 37), jnp.inf, 1.0).astype(jnp.float32)

    settings = {"heuristic": cut, "batch_size": 8, "node_budget": 2000}
    result = search.astar(domain, numbers, **settings)
    assert not result.solved.any() and (result.lower_bound == -np.inf).all()
    np.testing.assert_array_equal(result.unsolvable, [False, True])


def test_search_works_inside_jit():
    def costs(key):
        return search.astar(EIGHT, EIGHT.sample_level(key), **SMALL).cost

    assert jax.eval_shape(jax.jit(costs), jax.random.key(0)).shape == ()


def test_the_store_keeps_one_row_for_equal_boards_and_takes_the_cheaper():
    def nodes(keys, costs):
        count = len(keys)
        return store.Nodes(
            jnp.array(keys, jnp.uint32)[:, None],
            jnp.array(costs, jnp.float32),
            jnp.arange(count, dtype=jnp.int32),
            jnp.zeros(count, jnp.int16),
        )

    everything = jnp.ones(4, jnp.bool_)
    insert, find = jax.jit(store.insert), jax.jit(store.find)
    known = insert(store.empty(32, 1), nodes([5, 5, 7, 9], [3, 2, 2, 1]), everything)
    assert known.used == 3
    rows = find(known, jnp.array([[5], [7], [9], [8]], jnp.uint32))
    np.testing.assert_array_equal(known.nodes.cost[rows[:3]], [2, 2, 1])
    assert rows[3] == -1
    again = insert(known, nodes([7, 5, 9, 8], [2, 1.5, 1, 0]), everything)
    assert again.used == 5, "one cheaper copy and one new board"
    assert again.stale.sum() == 1 and again.stale[rows[0]] == 1
    assert again.nodes.cost[store.find(again, jnp.array([[5]], jnp.uint32))[0]] == 1.5


def test_the_store_under_many_collisions_matches_a_dictionary():
    rng = np.random.default_rng(0)
    known, seen = store.empty(3000, 2), {}
    insert = jax.jit(store.insert)
    for _ in range(20):
        keys = rng.integers(0, 40, (128, 2)).astype(np.uint32)
        costs = np.sort(rng.integers(0, 50, 128).astype(np.float32))[::-1].copy()
        valid = rng.random(128) < 0.8
        known = insert(
            known,
            store.Nodes(
                jnp.asarray(keys), jnp.asarray(costs), jnp.zeros(128, jnp.int32),
                jnp.zeros(128, jnp.int16),
            ),
            jnp.asarray(valid),
        )  # fmt: skip
        for key, cost in zip(map(tuple, keys[valid]), costs[valid], strict=True):
            seen[key] = min(cost, seen.get(key, np.inf))
    wanted = jnp.array(list(seen), jnp.uint32)
    rows = store.find(known, wanted)
    np.testing.assert_array_equal(known.nodes.cost[rows], np.array(list(seen.values())))
    fresh = np.flatnonzero(np.asarray(known.stale[: int(known.used)]) == 0)
    assert len(fresh) == len(seen)


def test_the_open_list_takes_the_lowest_first_and_the_newest_of_equals():
    rng = np.random.default_rng(1)
    # The 8 buckets have width 1. The middle bucket, number 4, begins at 3, so bucket i begins at
    # i - 1.
    middle, width = jnp.float32(3), jnp.float32(1)
    todo, model = open_list.empty(20_000, middle, width, buckets=8), [[] for _ in range(8)]
    push, pop = jax.jit(open_list.push), jax.jit(open_list.pop, static_argnums=1)
    number = 0
    for _ in range(12):
        # The number 8 is not a bucket: it means an infinite priority, which `push` skips.
        bucket = rng.integers(0, 9, 1500).astype(np.int32)
        entry = np.arange(number, number + 1500, dtype=np.int32)
        number += 1500
        priority = np.where(bucket < 8, bucket + rng.random(1500), np.inf).astype(np.float32) - 1
        todo = push(todo, jnp.asarray(entry), jnp.asarray(priority))
        for e, b in zip(entry, bucket, strict=True):
            if b < 8:
                model[b].append(e)
        todo, taken, _, valid = pop(todo, 700)
        wanted = []
        for b in range(8):
            while model[b] and len(wanted) < 700:
                wanted.append(model[b].pop())
        np.testing.assert_array_equal(taken[valid], wanted)
    assert float(open_list.edge(todo)) == next(b for b in range(8) if model[b]) - 1


def test_errors_name_what_a_domain_lacks():
    with pytest.raises(TypeError, match=r"astar: DoorKey.* has no neighbours.*search.Domain"):
        search.astar(jaxenvs.make("Grid-DoorKey-5x5-v0"), jnp.int32(0))
    with pytest.raises(TypeError, match=r"bidirectional: .*cannot be searched from its end.*astar"):
        tsp = TSP(cities=5)
        search.bidirectional(tsp, tsp.sample_level(jax.random.key(0)))
    with pytest.raises(TypeError, match="the board does not fit SlidingTile"):
        search.astar(EIGHT, SlidingTile(size=5).goal(()))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"terminate": "best"}, "terminate='best' is not one of 'first', 'optimal'"),
        ({"batch_size": 0}, "batch_size=0 is out of range; it must be at least 1"),
        ({"weight": -1.0}, "weight=-1.0 must be a number from 0 to 1e+30"),
        ({"weight": 1e39}, "weight=1e+39 must be a number from 0 to 1e+30"),
        ({"node_budget": 0}, "node_budget=0 is out of range"),
        ({"bucket_width": 0}, "bucket_width=0 must be a number from 1e-30 to 1e+30"),
        ({"bucket_width": 1e-46}, "bucket_width=1e-46 must be a number from 1e-30 to 1e+30"),
        ({"bucket_width": 3e38}, "bucket_width=3e+38 must be a number from 1e-30 to 1e+30"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        search.astar(EIGHT, EIGHT.level(HARDEST), **settings)


def test_a_budget_above_the_memory_is_refused_before_anything_is_made():
    with pytest.raises(ValueError, match=r"node_budget=2000000000 needs .* GiB .*give at most"):
        search.astar(EIGHT, EIGHT.level(HARDEST), node_budget=2_000_000_000)


def test_a_node_takes_at_most_40_bytes_without_its_key():
    assert search.bytes_per_node(0) <= 40
    level = EIGHT.level(HARDEST)
    from jaxenvs.search import engine

    settings = engine.Settings(1.0, 64, 100_000, "first", 16, True, False)
    levels = jax.tree.map(lambda leaf: leaf[None], level)
    made = jax.eval_shape(
        lambda levels: engine.Engine(EIGHT, EIGHT.heuristic, settings, True, False, levels).start(),
        levels,
    )
    size = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves((made.store, made.todo)))
    # Bytes of the pages that an open list of any capacity needs: one page for each bucket of its
    # two sets of buckets. An entry takes 4 bytes.
    fixed = open_list.PAGE * 2 * open_list.BUCKETS * 4
    assert (size - fixed) / made.store.stale.shape[0] - 8 <= 40
