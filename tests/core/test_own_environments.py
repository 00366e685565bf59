"""Tests of user-defined environments: errors name missing methods, and observations are drawn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import jaxenvs
from jaxenvs import cli, registry, testing
from jaxenvs.core import drawing, observed
from jaxenvs.core.env import Env, State, Transition
from jaxenvs.core.looks import COLOURS, FLOOR
from jaxenvs.core.spaces import Box, Dict, Discrete
from jaxenvs.grid.env import GridEnv
from jaxenvs.puzzles import Puzzle

ID = "Mine-Board-v0"
KEY = jax.random.key(0)
pytestmark = pytest.mark.usefixtures("as_a_user")


@jaxenvs.struct
class BoardState(State):
    """State: a board that no action changes."""

    board: jax.Array


class NoParams(Env):
    """Faulty environment without `default_params`; its level is a board of 3 x 4 cells."""

    action_space = Discrete(2)
    observation_space = Box(0, 5, (3, 4), np.uint8)

    def draw_level(self, key, params):
        return jnp.arange(12, dtype=jnp.uint8).reshape(3, 4) // 2

    def reset_state(self, key, level, params):
        return BoardState(time=jnp.int32(0), board=level)

    def step_state(self, key, state, action, params):
        return Transition(state, jnp.float32(0), jnp.bool_(False))

    def observe(self, state, params=None):
        return state.board


class Board(NoParams):
    """Environment `NoParams` with default params."""

    default_params = jaxenvs.Params(max_steps_in_episode=np.int32(5))


class NoReset(Board):
    """Faulty environment that lacks `reset_state`."""

    reset_state = Env.reset_state


class Nothing(Env):
    """Faulty environment without any members."""


class OwnReset(NoReset):
    """Environment that overrides `reset_to`, so that it needs no `reset_state`."""

    def reset_to(self, key, level, params=None):
        state = BoardState(time=jnp.int32(0), board=level)
        return jaxenvs.Reset(self.observe(state), state)


class Corner(GridEnv):
    """Faulty grid world that generates no levels."""

    height = width = max_steps = 5


class Still(Puzzle):
    """Faulty puzzle without rules."""

    action_names = ("wait",)
    observation_space = Board.observation_space


LACKING = {
    NoParams: "default_params",
    NoReset: "reset_state",
    Nothing: "action_space, default_params, observation_space, observe, reset_state and step_state",
    Corner: "generate",
    Still: "apply, draw_level, is_goal, observe_board, pack and unpack",
}


@pytest.fixture
def register(monkeypatch):
    """Return a function that registers a class as `ID` until the test ends."""
    registry.list()
    monkeypatch.setattr(registry, "_specs", dict(registry._specs))
    return registry.register(ID)


@pytest.mark.parametrize("env_class", LACKING)
def test_make_names_missing_methods(env_class, register):
    register(env_class)
    with pytest.raises(registry.IncompleteError) as raised:
        jaxenvs.make(ID)
    text = str(raised.value)
    assert f"{env_class.__name__} lacks {LACKING[env_class]}; every environment defines" in text


@pytest.mark.parametrize("env_class", [NoParams, NoReset])
def test_check_env_names_missing_methods_of_unregistered_classes(env_class):
    with pytest.raises(registry.IncompleteError, match=f"lacks {LACKING[env_class]}; "):
        testing.check_env(env_class())


@pytest.mark.parametrize("env_class", [NoParams, NoReset, Nothing])
@pytest.mark.parametrize(("command", "code"), [("info", 2), ("check", 1), ("train", 2)])
def test_commands_name_it_in_one_sentence(
    command, code, env_class, register, tmp_path, monkeypatch, capsys
):
    register(env_class)
    monkeypatch.chdir(tmp_path)
    assert cli.main([command, ID]) == code
    said = capsys.readouterr().err
    assert f"lacks {LACKING[env_class]}; " in said and len(said.splitlines()) == 1
    assert not [*tmp_path.iterdir()]


def test_reset_to_may_take_the_place_of_reset_state(register):
    register(OwnReset)
    assert jaxenvs.make(ID).reset(KEY).obs.shape == (3, 4)


def test_register_rejects_other_classes(register):
    with pytest.raises(TypeError, match="must be a subclass of jaxenvs"):
        register(object)


# Tests of pictures.


def drawn(space, obs, tile_size=1):
    """Return the picture of an observation in this space."""
    canvas = observed.canvas(space)
    assert canvas is not None
    return np.asarray(canvas.paint(obs, tile_size))


def test_categories_have_a_colour_each():
    picture = drawn(Box(0, 2, (2, 3), np.int32), [[0, 1, 2]] * 2, 4)
    assert picture.shape == (8, 12, 3) and picture.dtype == np.uint8
    np.testing.assert_array_equal(picture[3, ::4], [FLOOR, COLOURS["red"], COLOURS["green"]])
    flags = drawn(Box(0, 1, (1, 2, 1), np.bool_), np.array([[[False], [True]]]))
    np.testing.assert_array_equal(flags[0], [FLOOR, COLOURS["red"]])


GREY = {
    "many integers": (Box(-100, 100, (1, 3), np.int32), [[-100, 0, 100]], [0, 128, 255]),
    "floats": (Box(0.0, 2.0, (1, 3), np.float32), [[0.5, 1.0, 2.0]], [64, 128, 255]),
    "no bounds": (Box(-np.inf, np.inf, (1, 3), np.float32), [[5.0, 7.0, 9.0]], [0, 128, 255]),
    "all the same": (Box(-np.inf, np.inf, (1, 2), np.float32), [[3.0, 3.0]], [0, 0]),
}


@pytest.mark.parametrize("kind", GREY)
def test_other_numbers_are_shades_of_grey(kind):
    space, obs, shades = GREY[kind]
    np.testing.assert_array_equal(drawn(space, np.asarray(obs, space.dtype))[0, :, 0], shades)


@pytest.mark.parametrize("channels", [3, 4])
def test_an_image_is_shown_as_it_is(channels):
    image = np.random.default_rng(0).integers(0, 256, (16, 12, channels), np.uint8)
    picture = drawn(Box(0, 255, image.shape, np.uint8), image, 2)
    np.testing.assert_array_equal(picture[::2, ::2], image[..., :3])
    floats = drawn(Box(0.0, 1.0, image.shape, np.float32), (image / 255).astype(np.float32))
    np.testing.assert_array_equal(floats, image[..., :3])


def test_a_large_observation_takes_few_tiles():
    assert observed.canvas(Box(0, 255, (210, 160, 3), np.uint8)).shape == (15, 12)
    assert observed.canvas(Box(0, 255, (84, 84), np.uint8)).shape == (28, 28)
    assert observed.canvas(Box(0, 3, (9, 30), np.uint8)).shape == (9, 30)


def test_a_part_of_a_dict_is_drawn_and_a_list_of_numbers_is_not():
    numbers = Box(0, 255, (3,), np.uint8)
    space = Dict({"body": numbers, "map": Box(0, 1, (1, 2), np.int32)})
    assert drawn(space, {"body": [1, 2, 3], "map": [[1, 0]]}).shape == (1, 2, 3)
    for nothing in (numbers, Dict({"body": numbers}), Discrete(3), Box(0, 1, (2, 2, 7), np.uint8)):
        assert observed.canvas(nothing) is None


def test_an_environment_without_tiles_is_drawn_and_written(tmp_path):
    env = jaxenvs.wrappers.StickyAction(env=Board())
    assert drawing.is_drawn(env) and drawing.board_shape(env) == (3, 4)
    state = env.reset(KEY).state
    picture = jaxenvs.render(env, state, tile_size=8)
    np.testing.assert_array_equal(picture[::8, ::8], observed.CATEGORIES[env.observe(state)])
    jaxenvs.animate(env, [state, state], tmp_path / "board.gif")
    with Image.open(tmp_path / "board.gif") as image:
        assert image.size == (128, 96)
    jaxenvs.animate(env, [state], tmp_path / "board.html")
    assert testing.CHECKS["pictures"](testing.Subject.of(env)) is None


def test_tiles_without_sprites_are_not_drawn():
    class NoAtlas(Board):
        """Faulty environment that lacks `atlas`."""

        def tiles(self, state):
            return state.board.astype(jnp.int32)

    env = NoAtlas()
    picture = jaxenvs.render(env, env.reset(KEY).state, tile_size=8)
    expected = jaxenvs.render(Board(), Board().reset(KEY).state, tile_size=8)
    np.testing.assert_array_equal(picture, expected)


def test_it_is_played_and_watched(register, tmp_path, monkeypatch):
    register(Board)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["watch", "--random", ID, "--gif", "a.gif", "--frames", "3"]) == 0
    assert cli.main(["play", ID, "--keys", "0,1", "--screenshot", "window.png"]) == 0
    assert {path.name for path in tmp_path.iterdir()} >= {"a.gif", "window.png"}
