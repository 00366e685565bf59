"""Tests of the text of levels and states of MiniGrid and BabyAI: writing and reading."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import texts
from defaults import with_full

import jaxenvs
from jaxenvs import levels
from jaxenvs.grid import Kind, tiles
from jaxenvs.grid.leveltext import kinds

DOORKEY = """\
WGWGWGWGWG
WG>>WG  WG
WGKYLY  WG
WG  WGGGWG
WGWGWGWGWG"""


@pytest.fixture(scope="module")
def doorkey():
    return jaxenvs.make("Grid-DoorKey-5x5-v0")


@pytest.mark.parametrize("id", [*texts.DEFAULT, *with_full(*texts.FULL)])
def test_reading_inverts_writing(id):
    texts.check_texts(id, 4, lambda i: (0, 5 + i, texts.STEPS - 1))


@pytest.mark.slow
@pytest.mark.parametrize("id", texts.IDS)
def test_reading_inverts_writing_for_every_id(id):
    count = texts.check_texts(id, 100, lambda i: (i % texts.STEPS,))
    print(id, count)


@pytest.mark.slow
@pytest.mark.parametrize("id", texts.IDS)
def test_every_kind_of_object_is_usual(id):
    drawn, _ = texts.drawn(id, 100)
    env = jaxenvs.make(id)
    if kinds.of(env) is not None:
        found = {Kind(int(code) & 15) for code in np.unique(drawn.grid)} - {Kind.EMPTY, Kind.WALL}
        opened = {Kind.CLOSED_DOOR if kind == Kind.DOOR else kind for kind in found}
        assert opened <= {*kinds.of(env)}


@pytest.mark.parametrize("id", ["BabyAI-Unlock-v0", "BabyAI-KeyCorridor-v0"])
def test_classes_of_babyai_may_have_objects_that_their_namesakes_of_minigrid_lack(id):
    assert kinds.of(jaxenvs.make(id)) == kinds.KINDS["BabyEnv"]


def test_an_agent_can_stand_in_a_door_that_it_has_closed(doorkey):
    """In a door of the outer wall, an agent that looks outwards faces its own cell."""
    state = doorkey.reset(jax.random.key(0)).state
    closed = levels.read(doorkey, "under: closed red door\n" + levels.write(doorkey, state))
    assert closed.grid[closed.row, closed.column] & 15 == Kind.CLOSED_DOOR
    texts.assert_same(levels.read(doorkey, levels.write(doorkey, closed)), closed)
    with pytest.raises(levels.LevelError, match="stands on an object that blocks it"):
        levels.read(doorkey, f"under: closed red door\ngrid:\n{DOORKEY}")


def test_a_picture_alone_is_a_level(doorkey):
    level = doorkey.read_level(DOORKEY)
    assert level.grid[2, 1] == 5 | 4 << 4 and level.grid[2, 2] == 12 | 4 << 4
    assert level.pose.tolist() == [1, 1, 0]
    assert levels.write(doorkey, level, form="minigrid") == DOORKEY
    assert doorkey.level_text(level) == (
        f"mission: use the key to open the door and then get to the goal\ngrid:\n{DOORKEY}"
    )


def test_a_level_in_text_is_played(doorkey):
    state = doorkey.reset_to(jax.random.key(0), doorkey.read_level(DOORKEY)).state
    for action in (1, 3, 0, 5):  # turn right, pick up, turn left, toggle
        state = doorkey.step(jax.random.key(0), state, action).state
    text = levels.write(doorkey, state)
    assert "time: 4" in text and "carrying: yellow key" in text
    texts.assert_same(levels.read(doorkey, text), jax.device_get(state))


def test_byte_order_marks_carriage_returns_and_empty_lines_are_accepted(doorkey):
    windows = "\n" + DOORKEY.replace("\n", "\r\n") + "\r\n\r\n"
    texts.assert_same(doorkey.read_level(windows), doorkey.read_level(DOORKEY))
    texts.assert_same(doorkey.read_level("\ufeff" + windows), doorkey.read_level(DOORKEY))


def test_lower_case_letters_are_exact_colours():
    env = jaxenvs.make("Grid-GoToObject-6x6-N2-v0")
    picture = "WGWGWGWGWGWG\nWG>>      WG\nWGAg    AeWG\nWG        WG\nWG        WG\nWGWGWGWGWGWG"
    level = levels.read(env, f"mission: go to the grey ball\ngrid:\n{picture}", strict=True)
    assert int(level.task) == 2 | 4 << 8 | (6 | 5 << 4) << 16
    assert "AgAg" not in levels.write(env, level) and "AG    AG" in levels.write(
        env, level, form="minigrid"
    )


def test_green_and_grey_are_ambiguous_in_pictures_of_minigrid():
    env = jaxenvs.make("Grid-GoToObject-6x6-N2-v0")
    picture = "WGWGWGWGWGWG\nWG>>      WG\nWGAG    AGWG\nWG        WG\nWG        WG\nWGWGWGWGWGWG"
    text = f"mission: go to the grey ball\ngrid:\n{picture}"
    with pytest.raises(
        levels.LevelError, match=r"line 5, column 3: G is grey or green .* 2,1; 2,4"
    ):
        levels.read(env, text, strict=True)
    resolved = levels.read(env, f"grey: 2,4\n{text}", strict=True)
    assert resolved.grid[2, 1] == 6 | 1 << 4 and resolved.grid[2, 4] == 6 | 5 << 4
    with pytest.warns(levels.LevelWarning, match="read as green"), pytest.raises(levels.LevelError):
        levels.read(env, text)  # fails: both balls are read as green, not grey


def test_mazes_of_one_character_per_cell_get_an_outer_wall():
    env = jaxenvs.make("Grid-Empty-5x5-v0")
    maze = ">#.\n.#.\n..G"
    level = levels.read(env, maze)
    texts.assert_same(levels.read(env, maze, form="maze"), level)
    assert levels.write(env, level, form="maze") == maze
    assert level.grid[1, 2] == tiles.WALL and level.grid[3, 3] == tiles.GOAL


def test_a_wrapped_environment_reads_levels(doorkey):
    wrapped = jaxenvs.wrappers.Flatten(doorkey)
    level = wrapped.read_level(DOORKEY)
    assert wrapped.level_text(level) == doorkey.level_text(level)


def test_check_says_what_is_wrong(doorkey):
    level = doorkey.read_level(DOORKEY)
    assert levels.check(doorkey, level) == []
    (opened,) = levels.check(doorkey, level.replace(grid=level.grid.at[0, 1].set(tiles.EMPTY)))
    assert "edge of the grid" in opened
    (lava,) = levels.check(doorkey, level.replace(grid=level.grid.at[1, 3].set(tiles.LAVA)))
    assert "no level of DoorKey has a lava" in lava


def test_levels_are_stacked_without_padding(doorkey):
    level = doorkey.read_level(DOORKEY)
    assert levels.stack([level, level]).grid.shape == (2, 5, 5)
    assert jax.jit(lambda level: levels.stack([level, level]).grid)(level).shape == (2, 5, 5)
    assert levels.stack([jax.random.key(0)] * 2).shape == (2,)
    larger = jaxenvs.make("Grid-DoorKey-6x6-v0").sample_level(jax.random.key(0))
    with pytest.raises(ValueError, match=r"level.grid has shape \(6, 6\) in level 1 and \(5, 5\)"):
        levels.stack([level, larger])
    with pytest.raises(ValueError, match="at least one"):
        levels.stack([])


def test_families_without_texts_say_so():
    env = jaxenvs.make("Classic-CartPole-v0")
    with pytest.raises(NotImplementedError, match="levels of CartPole have no text"):
        env.read_level("x")


def test_a_batch_of_levels_is_refused(doorkey):
    level = doorkey.read_level(DOORKEY)
    with pytest.raises(TypeError, match="expected"):
        levels.write(doorkey, jax.tree.map(lambda x: jnp.stack([x, x]), level))
