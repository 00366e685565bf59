"""Tests of puzzle levels as text (read and written), and of random edits by `levels.mutate`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import texts
from defaults import with_full

import jaxenvs
from jaxenvs import levels
from jaxenvs.grid import tiles
from jaxenvs.grid.leveltext import mutation

EDITED = ("Grid-Dynamic-Obstacles-5x5-v0", "Grid-MemoryS7-v0")
EDITED_IN_FULL = (
    "BabyAI-BossLevel-v0",
    "BabyAI-PutNextS5N2Carrying-v0",
    "Grid-GoToObject-6x6-N2-v0",
    "Grid-LockedRoom-v0",
)
READABLE = ("Puzzle-SlidingTile-3x3-v0", "Puzzle-Hanoi-3-v0", "Puzzle-LightsOut-3x3-v0")


@pytest.fixture(scope="module")
def sokoban():
    return jaxenvs.make("Puzzle-Sokoban-6x6-v0")


@pytest.mark.parametrize("id", [id for id in READABLE if id in jaxenvs.registry.list("Puzzle")])
def test_puzzles_read_what_they_write(id):
    env = jaxenvs.make(id)
    level = jax.device_get(env.sample_level(jax.random.key(1)))
    text = env.level_text(level)
    texts.assert_same(levels.read(env, text), level)
    with pytest.raises(levels.LevelError, match=r"^line 1, column 1: "):
        levels.read(env, "?")


def test_sokoban_reads_xsb_of_any_size_up_to_the_grid(sokoban):
    padded = sokoban.read_level("######\n#@$.##\n# $.##\n#   ##\n######\n######")
    for text in (
        "#####\n#@$.#\n#-$.#\n#   #\n#####",
        "5#\n#@$.#\n#_$.#\n#3-#\n5#",
        "; 7\n#####\n#@$.#\n# $.#\n#   #\n#####\n",
        "#####\n#@$.#\n# $.#\n#   #\n#####\nTitle: a room",
    ):
        texts.assert_same(levels.read(sokoban, text), padded)


def test_sokoban_says_where_a_map_is_wrong(sokoban):
    with pytest.raises(levels.LevelError, match="line 2, column 3: unknown character 'x'"):
        levels.read(sokoban, "#####\n#@x.#\n#####")
    with pytest.raises(levels.LevelError, match="line 2, column 3: a NUL byte"):
        levels.read(sokoban, "#####\n#@\0.#\n#####")
    with pytest.raises(levels.LevelError, match="more than 65,536"):
        levels.read(sokoban, "#####\n" * 20_000)
    with pytest.raises(levels.LevelError, match="make it with size=9"):
        levels.read(sokoban, "#########\n#@$.    #\n# $.    #\n#########")
    with pytest.raises(levels.LevelError, match="have a gap"):
        levels.read(sokoban, "#####\n#@$.#\n# $.\n#####")
    with pytest.raises(levels.LevelError, match="1 cells with a box, expected 2"):
        levels.read(sokoban, "#####\n#@$.#\n#   #\n#####")


def test_a_file_of_boxoban_has_many_levels(tmp_path, sokoban):
    drawn = [jax.device_get(sokoban.sample_level(jax.random.key(i))) for i in range(3)]
    maps = [sokoban.text(level.instance, level.board) for level in drawn]
    path = tmp_path / "000.txt"
    path.write_text("\n\n".join(f"; {i}\n{text}" for i, text in enumerate(maps)))
    found = levels.load(path, sokoban)
    assert [entry.notes["title"] for entry in found] == ["0", "1", "2"]
    for entry, level in zip(found, drawn, strict=True):
        texts.assert_same(entry.level, level)
    levels.save(tmp_path / "again.txt", found, sokoban)
    for entry, level in zip(levels.load(tmp_path / "again.txt"), drawn, strict=True):
        texts.assert_same(entry.level, level)


@pytest.mark.parametrize("id", [*EDITED, *with_full(*EDITED_IN_FULL)])
def test_mutated_levels_are_levels(id):
    env = jaxenvs.make(id)
    keys = jax.random.split(jax.random.key(0), 8)
    drawn = jax.jit(jax.vmap(env.sample_level))(keys)
    mutate = jax.jit(jax.vmap(lambda key, level: levels.mutate(env, key, level, 12)))
    changed = jax.device_get(mutate(keys, drawn))
    assert jax.tree.structure(changed) == jax.tree.structure(drawn)
    different = 0
    for i in range(8):
        level = texts.at(changed, i)
        text = levels.write(env, level)
        assert "task:" not in text
        texts.assert_same(levels.read(env, text), level)
        different += not np.array_equal(level.grid, drawn.grid[i])
    assert different == 8
    still = jax.jit(lambda key, level: levels.mutate(env, key, level, 0))
    # For Dynamic-Obstacles, `mutate` sorts the balls even without edits, so the level may change.
    if "Dynamic" not in id:
        texts.assert_same(still(keys[0], texts.at(drawn, 0)), texts.at(drawn, 0))


def test_edits_keep_the_wall_around_the_grid():
    env = jaxenvs.make("Grid-Empty-5x5-v0")
    level = env.sample_level(jax.random.key(0))
    edit = jax.jit(lambda key: levels.mutate(env, key, level, 30))
    for key in jax.random.split(jax.random.key(1), 20):
        changed = edit(key)
        for edge in (changed.grid[0], changed.grid[-1], changed.grid[:, 0], changed.grid[:, -1]):
            assert (edge == tiles.WALL).all()
        assert (changed.grid == tiles.GOAL).sum() == 1
        row, column, _ = changed.pose.tolist()
        assert changed.grid[row, column] == tiles.EMPTY


def test_edits_leave_the_door_open_in_which_the_agent_stands():
    env = jaxenvs.make("Grid-DoorKey-5x5-v0")
    level = env.sample_level(jax.random.key(0))
    (row, column), *_ = np.argwhere(np.asarray(level.grid) & 15 == tiles.Kind.LOCKED_DOOR)
    grid = level.grid.at[row, column].set(tiles.Kind.DOOR | tiles.Colour.YELLOW << 4)
    level = level.replace(grid=grid, pose=level.pose.at[:2].set(jnp.array([row, column], "int8")))
    edit = jax.jit(jax.vmap(lambda key: mutation.turn_door(key, level)))
    changed = jax.device_get(edit(jax.random.split(jax.random.key(1), 20)))
    assert (changed.grid == np.asarray(grid)).all()


def test_edits_of_sokoban_keep_the_walls_and_the_numbers(sokoban):
    level = sokoban.sample_level(jax.random.key(0))
    edit = jax.jit(lambda key: levels.mutate(sokoban, key, level, 9))
    for key in jax.random.split(jax.random.key(1), 10):
        changed = jax.device_get(edit(key))
        assert not sokoban.is_goal(changed.instance, changed.board)
        assert ((changed.instance == 255) == (level.instance == 255)).all()
        texts.assert_same(levels.read(sokoban, levels.write(sokoban, changed)), changed)


def test_families_without_edits_say_so():
    env = jaxenvs.make("Puzzle-SlidingTile-3x3-v0")
    with pytest.raises(NotImplementedError, match="there are no edits of SlidingTile"):
        levels.mutate(env, jax.random.key(0), env.sample_level(jax.random.key(0)))
