"""Tests of `Controller`, which turns key presses into actions of a session; without a window."""

import jax
import jax.numpy as jnp
import pytest

import jaxenvs
from jaxenvs import spaces
from jaxenvs.grid import Action
from jaxenvs.render import play, watch
from jaxenvs.render.controls import TIME, Controller, playable
from jaxenvs.render.pilots import RANDOM
from jaxenvs.render.session import NO_ACTION, Session

ENV = jaxenvs.make("Grid-Empty-5x5-v0")


def playing() -> Controller:
    return Controller(Session(ENV), "Grid-Empty-5x5-v0", "play")


def watching(boards: int = 1) -> Controller:
    return Controller(Session(ENV, RANDOM, boards), "Grid-Empty-5x5-v0", "watch")


def press(controller: Controller, keys: str) -> Controller:
    for key in keys.split():
        assert controller.press(key), key
    return controller


@pytest.mark.parametrize("mode", ["play", "watch"])
@pytest.mark.parametrize("boards", [1, 4])
def test_no_key_means_two_things_and_every_action_has_one(mode, boards):
    controller = Controller(Session(ENV, RANDOM, boards), "", mode)
    for zoomed in {True, boards == 1}:
        controller.zoomed = zoomed
        keys = [key for binding in controller.bindings for key in binding.keys]
        assert len(keys) == len(set(keys)) and "h" in keys and "escape" in keys
    names = [action.name.lower() for action in Action]
    assert [row.name.replace(" ", "") for row in controller.actions] == names
    assert all(set(row.keys) - set(TIME) for row in controller.actions)


@pytest.mark.parametrize("keys", ["up up right up up", "w w d w w"])
def test_playing_by_arrows_or_letters_reaches_the_goal(keys):
    controller = press(playing(), keys)
    assert controller.session.is_over() and controller.session.now.reward[0] > 0.9


@pytest.mark.parametrize(
    ("key", "action"),
    [("space", 5), ("tab", 3), ("q", 4), ("left shift", 4), ("return", 6), ("left", 0), ("a", 0)],
)
def test_each_action_key(key, action):
    controller = playing()
    assert controller.press(key) and controller.session.now.action[0] == action


@pytest.mark.parametrize("key", ["r", "space", "return"])
def test_after_the_end_the_next_level_begins(key):
    controller = press(playing(), "up up right up up " + key)
    assert controller.session.now.action[0] == NO_ACTION
    assert controller.session.now.episode[0] == 1


def test_undo_redo_and_time_in_play():
    controller = press(playing(), "up left left backspace")
    assert controller.session.cursor == 2
    assert press(controller, ".").session.cursor == 3
    assert press(controller, "home").session.cursor == 0
    assert press(controller, "end").session.cursor == 3
    assert press(controller, "backspace up").session.cursor == 3
    assert controller.session.now.action[0] == Action.FORWARD


def test_watching_pause_steps_takeover_and_back():
    controller = watching()
    session = controller.session
    press(controller, "space")
    assert session.paused
    press(controller, "right right right left")
    assert session.cursor == 2 and len(session.history) == 4
    press(controller, "w")
    assert session.human and session.cursor == 3 and session.at_end
    assert session.now.action[0] == Action.FORWARD
    # In mode "watch", arrow keys always move through the history, also after a person's action.
    press(controller, "left right")
    assert session.cursor == 3 and session.human
    press(controller, "right")
    assert session.cursor == 3  # at the end of the history, Right does not let the policy act
    press(controller, "space")
    assert not session.human and not session.paused
    speed = session.speed
    press(controller, "up")
    assert session.speed > speed
    press(controller, "down down")
    assert session.speed < speed


def test_boards_of_a_wall_open_one_by_one():
    controller = watching(3)
    assert controller.is_wall and not controller.press("w")
    press(controller, "tab tab return")
    assert controller.zoomed and controller.selected == 2
    press(controller, "d")
    assert controller.session.now.action[2] == Action.RIGHT
    press(controller, "r escape")
    assert controller.is_wall and controller.open
    assert controller.session.now.episode.tolist() == [0, 0, 1]
    press(controller, "r")
    assert controller.session.now.episode.tolist() == [1, 1, 2]
    press(controller, "escape")
    assert not controller.open


def test_any_key_hides_the_help_and_does_nothing_else():
    controller = press(playing(), "h")
    assert controller.help_shown
    press(controller, "up")
    assert not controller.help_shown and controller.session.cursor == 0


def test_other_keys_do_nothing():
    controller = playing()
    assert not controller.press("f7") and not controller.press("down")
    assert controller.session.cursor == 0


def test_scrubbing_reaches_both_ends():
    controller = press(playing(), "up left left left")
    controller.scrub(0.0)
    assert controller.session.cursor == 0
    controller.scrub(0.5)
    assert controller.session.cursor == 2
    controller.scrub(1.0)
    assert controller.session.cursor == 4


def test_saving_shows_a_notice_until_the_next_key():
    controller = playing()
    press(controller, "g")
    assert controller.notice == ""  # no notice: the controller has no function `save` yet
    controller.save = lambda: "saved"
    press(controller, "g")
    assert controller.notice == "saved"
    press(controller, "up")
    assert controller.notice == ""


class Other(jaxenvs.Env):
    """Environment that defines no controls, no tiles and no picture."""

    continuous: bool = False

    @property
    def action_space(self):
        return spaces.Box(-1.0, 1.0, (2,), jnp.float32) if self.continuous else spaces.Discrete(12)

    observation_space = spaces.Box(0, 1, (3,), jnp.int32)


def test_an_unknown_family_has_number_keys_or_is_refused():
    rows = playable(Other()).actions
    assert rows[3].keys == ("3",) and rows[3].name == "action 3" and rows[11].keys == ()
    with pytest.raises(ValueError, match="has no keys: its action space is"):
        playable(Other(continuous=True))


@pytest.mark.parametrize("command", [play, watch])
def test_an_environment_without_tiles_or_image_is_refused(command, monkeypatch, capsys):
    monkeypatch.setattr(command, "make_env", lambda *_: Other())
    asked = ["Mine-v0"] if command is play else ["--random", "Mine-v0"]
    assert command.main([*asked, "--screenshot", "mine.png"]) == 2
    said = capsys.readouterr().err
    assert "has no tiles to draw, and its observation is neither a matrix nor an image; " in said
    assert "`jaxenvs play ID --text` describes it in words" in said


def test_a_session_moves_no_state_to_another_device():
    state = playing().session.now.state
    assert not any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(state))
