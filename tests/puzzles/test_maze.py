"""Tests of Maze: maps are trees, moves and rewards on drawn maps, distances by a search."""

import collections
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bfs import distances, each

import jaxenvs
from jaxenvs.puzzles import Maze
from jaxenvs.puzzles.maze import FAR, divided

SHAPES = [(10, 10), (7, 12), (11, 5), (3, 3)]
UP, RIGHT, DOWN, LEFT = range(4)
# Fraction of Jumanji's maps with a wall in cells 1, 3, 5, 7 and 9 of a row or column.
JUMANJI_FIRST_ROW = [0.411, 0.436, 0.441, 0.408, 0.255]
JUMANJI_FIRST_COLUMN = [0.208, 0.259, 0.284, 0.255, 0.207]
JUMANJI_ROW_8 = [0.364, 0.402, 0.399, 0.391, 0.264]


@functools.cache
def maps(rows, columns, count=200):
    keys = jax.random.split(jax.random.key(rows * 100 + columns), count)
    return np.asarray(jax.jit(jax.vmap(lambda key: divided(key, rows, columns)))(keys))


def plain_search(walls, start):
    """Return the number of steps from a cell to each free cell, computed without jaxenvs."""
    rows, columns = walls.shape
    found, queue = {start: 0}, collections.deque([start])
    while queue:
        row, column = queue.popleft()
        for cell in ((row - 1, column), (row, column + 1), (row + 1, column), (row, column - 1)):
            inside = 0 <= cell[0] < rows and 0 <= cell[1] < columns
            if inside and not walls[cell] and cell not in found:
                found[cell] = found[row, column] + 1
                queue.append(cell)
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_a_map_is_a_tree(shape):
    """A map has no cycle: its free cells are connected, with one passage fewer than cells."""
    for walls in maps(*shape):
        free = walls == 0
        passages = (free[1:] & free[:-1]).sum() + (free[:, 1:] & free[:, :-1]).sum()
        assert passages == free.sum() - 1
        assert len(plain_search(walls, (0, 0))) == free.sum()
        assert free[::2, ::2].all()
        assert not free[1::2, 1::2].any()


def test_every_optional_wall_occurs():
    share = maps(10, 10).mean(axis=0)
    assert ((share[::2, 1::2] > 0) & (share[::2, 1::2] < 1)).all()
    assert ((share[1::2, ::2] > 0) & (share[1::2, ::2] < 1)).all()


def test_the_walls_are_as_frequent_as_in_jumanji():
    """Compare the frequencies of walls in two rows and one column with Jumanji 1.1.2.

    The frequencies of Jumanji come from 4,000 maps of its `generate_maze(10, 10)`.
    """
    share = np.asarray(maps(10, 10, 4000)).mean(axis=0)
    np.testing.assert_allclose(share[0, 1::2], JUMANJI_FIRST_ROW, atol=0.04)
    np.testing.assert_allclose(share[1::2, 0], JUMANJI_FIRST_COLUMN, atol=0.04)
    np.testing.assert_allclose(share[8, 1::2], JUMANJI_ROW_8, atol=0.04)


def test_start_and_target_are_uniform_over_free_cells():
    env = Maze(rows=3, columns=3)
    levels = jax.jit(jax.vmap(env.sample_level))(jax.random.split(jax.random.key(0), 4000))
    start, target = np.asarray(levels.board), np.asarray(levels.instance.target)
    walls = np.asarray(levels.instance.walls).reshape(-1, 9)
    rows = np.arange(4000)
    assert not walls[rows, start].any()
    assert not walls[rows, target].any()
    assert (start != target).all()
    # A 3 x 3 map has 7 free cells: the four corners, and three of the four cells between them.
    for cells in (start, target):
        counts = np.bincount(cells, minlength=9)[[0, 2, 6, 8]]
        np.testing.assert_allclose(counts / 4000, 1 / 7, atol=0.025)
    pairs = collections.Counter(zip(start.tolist(), target.tolist(), strict=True))
    assert abs(pairs[0, 8] - pairs[8, 0]) < 60


def test_moves_and_walls():
    env = Maze(rows=3, columns=3)
    level = env.read_level("@# \n # \n  .")
    state = env.reset_to(jax.random.key(0), level).state
    step = jax.jit(env.step)
    plan = [
        (RIGHT, "@# \n # \n  .", 0.0),
        (UP, "@# \n # \n  .", 0.0),
        (LEFT, "@# \n # \n  .", 0.0),
        (DOWN, " # \n@# \n  .", 0.0),
        (DOWN, " # \n # \n@ .", 0.0),
        (UP, " # \n@# \n  .", 0.0),
        (DOWN, " # \n # \n@ .", 0.0),
        (RIGHT, " # \n # \n @.", 0.0),
        (UP, " # \n # \n @.", 0.0),
        (RIGHT, " # \n # \n  +", 1.0),
    ]
    for number, (action, drawing, reward) in enumerate(plan, 1):
        out = step(jax.random.key(1), state, jnp.int32(action))
        state = out.state
        assert env.text(state.instance, state.board) == drawing, number
        assert out.reward == reward
        assert bool(out.terminated) == bool(out.info["solved"]) == (reward == 1)
        assert not out.truncated or number == 9
    assert state.time == 10


def test_the_time_limit_truncates():
    env = Maze(rows=3, columns=3)
    assert env.default_params.max_steps_in_episode == 9
    assert jaxenvs.make("Puzzle-Maze-10x10-v0").default_params.max_steps_in_episode == 100
    state = env.reset_to(jax.random.key(0), env.read_level("@# \n # \n  .")).state
    out = env.step(jax.random.key(1), state.replace(time=jnp.int32(8)), jnp.int32(UP))
    assert out.truncated
    assert not out.terminated
    assert out.discount == 1


def test_the_oracle_is_the_distance():
    """Compare the oracle with a search on the map and with a search over the puzzle's moves."""
    env = Maze(rows=9, columns=12)
    field = jax.jit(env.distances)
    for seed in range(5):
        level = jax.jit(env.sample_level)(jax.random.key(seed))
        walls, target = np.asarray(level.instance.walls), int(level.instance.target)
        found = plain_search(walls, divmod(target, env.columns))
        wanted = np.full(walls.shape, FAR)
        for cell, distance in found.items():
            wanted[cell] = distance
        np.testing.assert_array_equal(field(level.instance), wanted)
        states = distances(env, level.instance, level.instance.target, batch=64)
        assert len(states.words) == len(found)
        oracle = each(env, env.oracle, states.words, level.instance, batch=64)
        np.testing.assert_array_equal(oracle, states.distance)
        heuristic = each(env, env.heuristic, states.words, level.instance, batch=64)
        assert (heuristic <= states.distance).all()
        assert heuristic[0] == 0


def test_the_oracle_is_infinite_without_a_path():
    env = Maze(rows=3, columns=3)
    level = env.read_level("@# \n##.\n   ")
    assert env.oracle(level.instance, level.board) == np.inf
    assert env.distances(level.instance)[0, 0] == FAR


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@ .\n   ", "2 lines, expected 3"),
        ("@ .\n  \n   ", "line 2 has 2 characters, expected 3"),
        ("@ .\n   \n  x", "line 3 has 'x'"),
        ("  .\n   \n   ", "0 cells with a player"),
        ("@ .\n   \n+  ", "2 cells with a player"),
        ("@  \n   \n   ", "0 cells with a target"),
    ],
)
def test_a_malformed_level_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        Maze(rows=3, columns=3).read_level(text)


def test_a_wrong_size_is_refused():
    with pytest.raises(ValueError, match="rows=2 is out of range"):
        Maze(rows=2)


def test_text_and_tiles_show_the_level():
    env = Maze(rows=3, columns=4)
    drawing = "@## \n# # \n   ."
    level = env.read_level(drawing)
    assert env.text(level.instance, level.board) == drawing
    again = env.read_level(drawing.replace("\n", "\r\n"))
    assert env.text(again.instance, again.board) == drawing
    state = env.reset_to(jax.random.key(0), level).state
    np.testing.assert_array_equal(env.tiles(state), [[3, 1, 1, 0], [1, 0, 1, 0], [0, 0, 0, 2]])
