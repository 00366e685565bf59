"""Tests of TSP: lengths of tours, optima against Held-Karp, the heuristic on every board."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bfs import distances, each
from defaults import with_full

import jaxenvs
from jaxenvs.puzzles import TSP
from jaxenvs.puzzles.tsp import Tour

SQUARE = "0 0\n1 0\n1 1\n0 1"


def board(city, *visited):
    return Tour(visited=jnp.uint32(sum(1 << i for i in {0, city, *visited})), city=jnp.int32(city))


def level_of(env, seed):
    return jax.jit(env.sample_level)(jax.random.key(seed))


def rest_of_trips(places):
    """Return a dict: (visited, city) -> optimal length from city through unvisited cities to home.

    The lengths are computed with the recursion of Held and Karp in double precision, without
    jaxenvs.
    """
    n = len(places)
    ways = np.linalg.norm(places[:, None] - places[None, :], axis=-1)
    every = (1 << n) - 1
    rest = {(every, city): ways[city, 0] for city in range(1, n)}
    for count in range(n - 1, 0, -1):
        for chosen in itertools.combinations(range(1, n), count - 1):
            visited = 1 + sum(1 << i for i in chosen)
            for city in chosen or (0,):
                rest[visited, city] = min(
                    ways[city, i] + rest[visited | 1 << i, i]
                    for i in range(1, n)
                    if not visited >> i & 1
                )
    return rest


def test_a_trip_around_the_square():
    env = TSP(cities=4)
    level = env.read_level(SQUARE)
    state = env.reset_to(jax.random.key(0), level).state
    step = jax.jit(env.step)
    root = 2**0.5
    plan = [
        (0, 0.0, board(0)),  # illegal: the start city is already visited
        (2, -root, board(2)),
        (2, 0.0, board(2)),
        (3, -1.0, board(3, 2)),
        (0, 0.0, board(3, 2)),
        # The reward includes the way to the last city and the way back home.
        (1, -root - 1, env.goal(level.instance)),
    ]
    for number, (action, reward, after) in enumerate(plan, 1):
        out = step(jax.random.key(0), state, jnp.int32(action))
        state = out.state
        np.testing.assert_allclose(out.reward, reward, rtol=1e-6)
        assert (state.board.visited, state.board.city) == (after.visited, after.city)
        assert bool(out.terminated) == bool(out.info["solved"]) == (number == len(plan))
        assert not out.truncated
    assert int(state.board.visited) == 0b1111
    assert not env.action_mask(state).any()


def test_the_range_of_rewards_is_reached():
    env = TSP(cities=2)
    state = env.reset_to(jax.random.key(0), env.read_level("0 0\n1 1")).state
    reward = env.step(jax.random.key(0), state, jnp.int32(1)).reward
    low, high = env.reward_range
    assert low <= reward <= high
    np.testing.assert_allclose(reward, low, rtol=1e-6)


def test_the_mask_marks_unvisited_cities():
    env = TSP(cities=5)
    level = level_of(env, 0)
    state = env.reset_to(jax.random.key(0), level).state.replace(board=board(3, 1))
    np.testing.assert_array_equal(env.action_mask(state), [False, False, True, False, True])


@pytest.mark.parametrize("cities", [2, 6, *with_full(3, 8)])
def test_optimal_trips_and_the_heuristic_on_every_board(cities):
    """The heuristic h is admissible and consistent; optimal lengths satisfy the Bellman equation.

    The algorithm of Held and Karp gives the optimal lengths; the puzzle gives moves and costs.
    """
    env = TSP(cities=cities)
    for seed in range(4):
        level = level_of(env, seed)
        rest = rest_of_trips(np.asarray(level.instance, np.float64))
        states = distances(env, level.instance, level.board, batch=512)
        boards = each(env, lambda _, board: board, states.words, level.instance, batch=512)
        pairs = list(zip(boards.visited.tolist(), boards.city.tolist(), strict=True))
        every = (1 << cities) - 1
        left = np.array([0.0 if v == every else rest[v, c] for v, c in pairs])
        assert len(pairs) == (cities - 1) * 2 ** (cities - 2) + 2 - (cities - 1)
        h = each(env, env.heuristic, states.words, level.instance, batch=512)
        assert (h <= left).all()
        assert (h >= 0).all()
        assert h[pairs.index((every, 0))] == 0
        moves = each(env, env.neighbours, states.words, level.instance, batch=512)
        number = {pair: i for i, pair in enumerate(pairs)}
        best = np.full(len(pairs), np.inf)
        for i in range(len(pairs)):
            for action in np.flatnonzero(moves.valid[i]):
                after = number[moves.board.visited[i, action], moves.board.city[i, action]]
                cost = moves.cost[i, action]
                assert h[i] <= cost + h[after] + 1e-6
                best[i] = min(best[i], cost + left[after])
        goal = left == 0
        np.testing.assert_allclose(best[~goal], left[~goal], rtol=1e-5)
        assert np.isinf(best[goal]).all()


def test_the_spanning_tree_exceeds_the_distance_home():
    env = TSP(cities=10)
    levels = jax.jit(jax.vmap(env.sample_level))(jax.random.split(jax.random.key(0), 64))
    tree = jax.jit(jax.vmap(env.heuristic))(levels.instance, levels.board)
    assert 1.5 < tree.mean() < 2.7  # expected: about 0.65 * sqrt(10), and more near the borders


def test_the_tree_of_a_square():
    env = TSP(cities=4)
    level = env.read_level(SQUARE)
    heuristic = jax.jit(env.heuristic)
    np.testing.assert_allclose(heuristic(level.instance, level.board), 3, rtol=1e-5)
    np.testing.assert_allclose(heuristic(level.instance, board(2)), 3, rtol=1e-5)
    np.testing.assert_allclose(heuristic(level.instance, board(2, 1)), 2, rtol=1e-5)
    np.testing.assert_allclose(heuristic(level.instance, board(3, 1)), 2, rtol=1e-5)
    np.testing.assert_allclose(heuristic(level.instance, board(1, 3)), 2, rtol=1e-5)


def test_cities_are_uniform():
    env = jaxenvs.make("Puzzle-TSP-20-v0")
    levels = jax.jit(jax.vmap(env.sample_level))(jax.random.split(jax.random.key(1), 500))
    places = np.asarray(levels.instance)
    assert places.shape == (500, 20, 2)
    assert (places >= 0).all() and (places < 1).all()
    np.testing.assert_allclose(places.mean(axis=(0, 1)), 0.5, atol=0.01)
    np.testing.assert_allclose(places.var(axis=(0, 1)), 1 / 12, atol=0.003)
    assert len(np.unique(places)) > 19_900


@pytest.mark.parametrize("cities", [2, 20, 27, 28, 32])
def test_packed_boards(cities):
    env = TSP(cities=cities)
    places = jnp.zeros((cities, 2), jnp.float32)
    for some in (board(0), board(cities - 1), board(1, cities - 1), env.goal(places)):
        words = env.pack(some)
        assert words.shape == ((1,) if cities <= 27 else (2,))
        again = env.unpack(words)
        assert (again.visited, again.city) == (some.visited, some.city)
        assert bool(env.is_goal(places, some)) == (int(some.visited) == (1 << cities) - 1)


def test_read_level_inverts_text():
    env = TSP(cities=5)
    level = level_of(env, 3)
    for some in (level.board, board(3, 1), env.goal(level.instance)):
        again = env.read_level(env.text(level.instance, some))
        np.testing.assert_array_equal(again.instance, level.instance)
        assert (again.board.visited, again.board.city) == (some.visited, some.city)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 0\n1 1", "2 lines, expected 3"),
        ("0 0\n1\n0 1", "line 2 is '1'; expected two numbers"),
        ("0 0\n1 x\n0 1", "line 2 is '1 x'; expected two numbers"),
        ("0 0\n1 1\n0 1.5", "line 3 is '0 1.5'; x and y must be from 0 to 1"),
        ("0 0\n1 nan\n0 1", "x and y must be from 0 to 1"),
        ("0 0\n1 1 gone\n0 1", "there may be 'visited' or 'here'"),
        ("0 0\n1 1 here here\n0 1", "there may be 'visited' or 'here'"),
        ("0 0\n1 1 here\n0 1 here", "more than one line ends with 'here'"),
        ("0 0\n1 1 visited\n0 1", "the traveller must be at home"),
        ("0 0\n1 1 visited\n0 1 here", "the traveller must be at home"),
    ],
)
def test_a_malformed_level_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        TSP(cities=3).read_level(text)


def test_the_number_of_cities_is_checked():
    with pytest.raises(ValueError, match="cities=33 is out of range"):
        TSP(cities=33)


def test_observation_and_tiles():
    env = TSP(cities=4)
    level = env.read_level("0 0\n1 0.5 visited\n0.25 1 here\n0.5 0.5")
    state = env.reset_to(jax.random.key(0), level).state
    wanted = [[0, 0, 1, 0], [1, 0.5, 1, 0], [0.25, 1, 1, 1], [0.5, 0.5, 0, 0]]
    np.testing.assert_array_equal(env.observe(state), np.array(wanted, np.float32))
    tiles = np.asarray(env.tiles(state))
    shown = {tuple(cell): tiles[tuple(cell)] for cell in np.argwhere(tiles)}
    assert shown == {(0, 0): 4, (8, 15): 2, (15, 4): 3, (8, 8): 1}
    first = env.reset_to(jax.random.key(0), env.read_level(SQUARE)).state
    assert env.tiles(first)[0, 0] == 5
