"""Tests of mazes: random ones (AMaze, PerfectMaze), jaxued's named mazes, and shortest plans."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs import levels
from jaxenvs.grid import tiles
from jaxenvs.grid.floodfill import NO_WAY
from jaxenvs.grid.oracle import solve

pytestmark = pytest.mark.full

ID = "Grid-AMaze-13x13-v0"
KEY = jax.random.key(0)
# Named mazes of jaxued (commit 0f8f128) -> smallest number of steps to the goal.
NAMED = {
    "SixteenRooms": 26,
    "SixteenRooms2": 28,
    "Labyrinth": 113,
    "LabyrinthFlipped": 113,
    "Labyrinth2": 113,
    "StandardMaze": 54,
    "StandardMaze2": 73,
    "StandardMaze3": 54,
}
# Two of the named mazes, in jaxued's text format.
LABYRINTH = """.............
.###########.
.#.........#.
.#.#######.#.
.#.#.....#.#.
.#.#.###.#.#.
.#.#.#G#.#.#.
.#.#.#.#.#.#.
.#...#...#.#.
.#########.#.
.....#.....#.
####.#.#####.
>....#......."""
STANDARD = """.....#>...#..
.###.####.##.
.#...........
.########.###
........#....
######.#####.
....#..#.....
.##...##.####
..#.#..#...#.
#.#.##.###.#.
#.#..#...#...
#.##.###.###.
...#..G#.#..."""


def drawn(id, count, **fields):
    """Return an environment and `count` of its levels, as NumPy arrays."""
    env = jaxenvs.make(id, **fields)
    keys = jax.random.split(KEY, count)
    return env, jax.device_get(jax.jit(jax.vmap(env.sample_level))(keys))


def test_named_mazes_have_their_optimal_steps():
    """The notes in the level files `mazes`, and `optimal_steps`, agree with `NAMED`."""
    env = jaxenvs.make(ID)
    entries = levels.load("mazes", env)
    assert {e.notes["title"]: int(e.notes["optimal"]) for e in entries} == NAMED
    found = jax.vmap(env.optimal_steps)(levels.stack(entries))
    assert found.tolist() == [NAMED[e.notes["title"]] for e in entries]
    for name, text in (("Labyrinth", LABYRINTH), ("StandardMaze", STANDARD)):
        (entry,) = levels.load(f"mazes/{name}", env)
        assert levels.write(env, entry.level, form="maze") == text


@pytest.mark.full
def test_the_oracle_confirms_the_named_mazes():
    """An exact search proves that the numbers of steps in `NAMED` are minimal."""
    env = jaxenvs.make(ID)
    for name, steps in NAMED.items():
        (found,) = solve(env, levels.load(f"mazes/{name}", env)[0].level)
        assert (found.steps, found.proven) == (steps, True)


def test_a_name_of_levels_works_in_make_and_files_have_priority(tmp_path, monkeypatch):
    """`levels=` accepts the name of a set or of a level of this library.

    The error for an unknown name suggests a known one. A file with the same name has priority.
    """
    assert len(jaxenvs.make(ID, levels="mazes").levels) == 8
    env = jaxenvs.make(ID, levels="mazes/SixteenRooms")
    assert int(env.optimal_steps(env.sample_level(KEY))) == 26
    with pytest.raises(ValueError, match="no such file or folder; did you mean 'mazes/Labyrinth'"):
        jaxenvs.make(ID, levels="mazes/Labyrint")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mazes").write_text(levels.write(env, env.sample_level(KEY)))
    assert len(jaxenvs.make(ID, levels="mazes").levels) == 1


@pytest.mark.parametrize(
    ("id", "fields"),
    [
        (ID, {"size": 8, "walls": 14}),
        pytest.param("Grid-LavaCrossingS9N2-v0", {}, marks=pytest.mark.full),
        pytest.param("Grid-PerfectMaze-13x13-v0", {"size": 9}, marks=pytest.mark.full),
        pytest.param("Grid-FourRooms-v0", {}, marks=pytest.mark.full),
    ],
)
def test_the_flood_fill_agrees_with_the_oracle(id, fields):
    """Compare optimal steps and returns of 16 levels; some of AMaze's levels are unsolvable."""
    env, many = drawn(id, 16, **fields)
    steps = np.asarray(jax.vmap(env.optimal_steps)(many))
    best = np.asarray(jax.vmap(env.optimal_return, (0, None))(many, env.default_params))
    found = solve(env, many)
    wanted = [NO_WAY if each.unsolvable else each.steps for each in found]
    assert all(each.proven or each.unsolvable for each in found)
    assert steps.tolist() == wanted
    np.testing.assert_allclose(best, [each.optimal_return for each in found], atol=1e-6)
    if id == ID:
        assert NO_WAY in wanted


def test_a_plan_longer_than_the_time_limit_is_worth_nothing():
    """The optimal return is 0 if the time limit is one step shorter than the plan."""
    env = jaxenvs.make(ID, levels="mazes/SixteenRooms")
    level = env.sample_level(KEY)
    for limit, wanted in ((26, 0.1), (25, 0.0)):
        params = env.default_params.replace(max_steps_in_episode=limit)
        assert float(env.optimal_return(level, params)) == pytest.approx(wanted, abs=1e-6)


def test_other_environments_have_no_fast_optimum():
    """`optimal_steps` is None for a level with a door, and `optimal_return` for CartPole."""
    env = jaxenvs.make("Grid-DoorKey-5x5-v0")
    assert env.optimal_steps(env.sample_level(KEY)) is None
    assert jaxenvs.make("Classic-CartPole-v0").optimal_return((), None) is None


def test_amaze_draws_walls_with_replacement():
    """Check the mean number of walls, and that agent and goal are placed uniformly."""
    env, many = drawn(ID, 2000)
    inner = many.grid[:, 1:-1, 1:-1]
    walls = (inner == tiles.WALL).sum(axis=(1, 2))
    assert walls.max() <= 60 and walls.mean() == pytest.approx(169 * (1 - (168 / 169) ** 60), 0.01)
    assert ((inner == tiles.GOAL).sum(axis=(1, 2)) == 1).all()
    row, column, turn = many.pose.T
    assert (many.grid[np.arange(2000), row, column] == tiles.EMPTY).all()
    goal = np.argwhere(inner == tiles.GOAL)[:, 1:]
    for each in (row - 1, column - 1, goal[:, 0], goal[:, 1]):
        counts = np.bincount(each, minlength=13)
        assert len(counts) == 13 and abs(counts - 2000 / 13).max() < 5 * (2000 / 13) ** 0.5
    assert abs(np.bincount(turn, minlength=4) - 500).max() < 100
    border = many.grid.copy()
    border[:, 1:-1, 1:-1] = tiles.WALL
    assert (border == tiles.WALL).all() and int(env.default_params.max_steps_in_episode) == 250


def test_the_smallest_and_the_fullest_maze():
    """`walls` may leave just two free cells, for agent and goal; one wall more is an error."""
    _, many = drawn(ID, 64, size=4, walls=2)
    assert ((many.grid == tiles.GOAL).sum(axis=(1, 2)) == 1).all()
    with pytest.raises(ValueError, match="walls=3"):
        jaxenvs.make(ID, size=4, walls=3)


@pytest.mark.parametrize(
    "size", [5, pytest.param(9, marks=pytest.mark.full), pytest.param(15, marks=pytest.mark.full)]
)
def test_perfect_mazes_are_trees(size):
    """Rooms and passages form a spanning tree; every level can be solved."""
    env, many = drawn("Grid-PerfectMaze-13x13-v0", 50, size=size)
    free = many.grid[:, 1:-1, 1:-1] != tiles.WALL
    rooms = ((size - 1) // 2) ** 2
    assert free[:, ::2, ::2].all() and not free[:, 1::2, 1::2].any()
    assert (free.sum(axis=(1, 2)) == 2 * rooms - 1).all()
    assert (np.asarray(jax.vmap(env.optimal_steps)(many)) < NO_WAY).all()
    assert len({grid.tobytes() for grid in free}) > (3 if size == 5 else 45)
    assert int(env.default_params.max_steps_in_episode) == 2 * size**2


def test_the_image_is_that_of_jaxued():
    """The 5 x 5 image shows cells behind walls, walls outside the grid, and no agent."""
    env = jaxenvs.make(ID)
    level = levels.read(env, LABYRINTH)
    image = np.asarray(env.reset_to(KEY, level).obs["image"])
    assert image.shape == (5, 5, 3) and set(map(tuple, image.reshape(-1, 3))) <= {
        (1, 0, 0),
        (2, 5, 0),
        (8, 1, 0),
    }
    # The agent is in the lower left corner of the maze and looks right. Rows of the image are
    # therefore rows of the maze from top to bottom, but each row runs from right to left. Reverse
    # each row to compare it with the maze.
    shown = np.where(image[..., 0] == 2, "#", ".")
    assert ["".join(row[::-1]) for row in shown] == [".....", "####.", ".....", "#####", "#####"]


@pytest.mark.full
def test_edits_keep_a_maze_a_maze():
    """After random edits of walls, agent and goal, a level is valid and has one goal."""
    env, many = drawn(ID, 32)
    edit = jax.jit(jax.vmap(lambda key, level: levels.mutate(env, key, level, 20)))
    after = jax.device_get(edit(jax.random.split(KEY, 32), many))
    assert ((after.grid == tiles.GOAL).sum(axis=(1, 2)) == 1).all()
    assert set(np.unique(after.grid)) == {tiles.WALL, tiles.EMPTY, tiles.GOAL}
    for number in range(8):
        level = jax.tree.map(lambda leaf, number=number: jnp.asarray(leaf[number]), after)
        assert not levels.check(env, level)
