"""Tests of Craft in the window: keys, panel, and achievement marks on the history bar."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pygame
import pytest
from opened import opened, settle
from whole import SIZES, assert_whole

import jaxenvs
from jaxenvs.core import drawing
from jaxenvs.craft import sight
from jaxenvs.craft.facts import COLOURS, hour
from jaxenvs.craft.state import earned_vector
from jaxenvs.render import bar, canvas, frames, play, screen, watch
from jaxenvs.render.controls import TIME, Controller
from jaxenvs.render.pilots import RANDOM
from jaxenvs.render.session import NO_ACTION, Session

pytestmark = pytest.mark.full

ID = "Craft-Classic-Ids-v0"
ENV = jaxenvs.make(ID)
UPSTREAM = dict(
    zip(
        ["q", "w", "d", "s", "a", "space", "t", "tab", "r", "f", "p", "1", "2", "3", "4", "5", "6"],
        (0, 3, 2, 4, 1, 5, 8, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16),
        strict=True,
    )
)


@pytest.fixture
def playing() -> Controller:
    return Controller(Session(ENV), ID, "play")


@pytest.mark.parametrize("mode", ["play", "watch"])
@pytest.mark.parametrize("boards", [1, 4])
def test_no_key_means_two_things_and_every_action_has_one(mode, boards):
    controller = Controller(Session(ENV, RANDOM, boards), "", mode)
    for zoomed in {True, boards == 1}:
        controller.zoomed = zoomed
        keys = [key for binding in controller.bindings for key in binding.keys]
        assert len(keys) == len(set(keys)) and {"h", "escape", "g"} <= set(keys)
        assert controller.new_level_key in keys
    names = [action.name.replace("_", " ").lower() for action in ENV.rules.actions]
    assert [row.name for row in controller.actions] == names
    assert all(set(row.keys) - set(TIME) for row in controller.actions)


@pytest.mark.parametrize(("key", "action"), UPSTREAM.items())
def test_upstreams_keys(playing, key, action):
    assert playing.press(key) and playing.session.now.action[0] == action


@pytest.mark.parametrize(("key", "action"), [("left", 1), ("right", 2), ("up", 3), ("down", 4)])
def test_arrows_move(playing, key, action):
    assert playing.press(key) and playing.session.now.action[0] == action


def test_r_places_a_stone_and_n_begins_a_new_level(playing):
    assert playing.new_level_key == "n"
    playing.press("r")
    assert playing.session.now.episode[0] == 0
    playing.press("n")
    assert playing.session.now.episode[0] == 1


def test_a_session_stores_achievements(playing):
    session = playing.session
    assert not session.now.earned.any()
    for _ in range(80):  # hit grass often, because it gives a sapling with probability 0.1
        playing.press("space")
        if session.now.earned.any():
            break
    assert session.now.earned[0, ENV.achievements.index("collect_sapling")]
    earned = earned_vector(ENV.rules, ENV.world(session.state()).earned)
    np.testing.assert_array_equal(session.now.earned[0], earned)
    assert bar.marks(session, 0) == {session.cursor: ["collect sapling"]}
    playing.press("n")
    assert not session.now.earned.any() and len(bar.marks(session, 0)) == 1


def achieving(controller: Controller, *numbers: int) -> Controller:
    """Take four steps; mark the achievements with indices `numbers` as earned in the last one."""
    for key in ["a", "a", "a", "a"]:
        controller.press(key)
    session = controller.session
    earned = session.now.earned.copy()
    earned[0, list(numbers)] = True
    session.history[-1] = session.now._replace(earned=earned)
    return controller


def count(controller: Controller, colour: tuple[int, int, int]) -> int:
    picture = screen.pixels(screen.draw(controller, screen.natural_size(controller)))
    return int((picture == colour).all(axis=-1).sum())


def test_achievements_are_marked_and_labelled_on_the_bar(playing):
    plain = count(playing, canvas.CUT)
    achieving(playing, 0, 4)
    assert bar.marks(playing.session, 0) == {4: ["collect wood", "collect drink"]}
    # Achievements were earned at the displayed time step, so the bar shows their names.
    labelled = count(playing, canvas.CUT)
    playing.press("backspace")
    unlabelled = count(playing, canvas.CUT)
    assert plain < unlabelled < labelled - 1000
    playing.pointed = 1.0
    assert count(playing, canvas.CUT) > unlabelled + 1000
    playing.pointed = 0.2
    assert count(playing, canvas.CUT) == unlabelled


def test_the_mouse_points_at_marks(playing, dummy_display):
    achieving(playing, 3)
    window = opened(lambda: playing)
    where = screen.layout(playing, window.display.get_size()).bar
    for at, pointed in [((where.right, where.centery), True), ((where.centerx, 40), False)]:
        event = pygame.event.Event(pygame.MOUSEMOTION, pos=at, buttons=(0, 0, 0), rel=(0, 0))
        window.handle(event)
        settle(window)
        assert (playing.pointed is not None) == pointed
    window.close()


def test_the_panel_ticks_achievements(playing):
    playing.press("a")
    before = count(playing, canvas.GOOD)
    achieving(playing, 7, 8, 9)
    playing.press("a")
    session = playing.session
    session.history[-1] = session.now._replace(earned=session.history[-2].earned)
    assert count(playing, canvas.GOOD) > before + 3 * 50


def test_the_panel_shows_vitals(playing):
    session = playing.session
    world = ENV.world(session.state())
    whole = count(playing, COLOURS["health"])
    hurt = world._replace(vitals={**world.vitals, "health": world.vitals["health"] - 6})
    state = session.state()
    weak = jax.tree.map(
        lambda leaf: np.asarray(leaf)[None], ENV.packed(state.time, state.map, hurt)
    )
    session.history[0] = session.now._replace(state=weak)
    assert count(playing, COLOURS["health"]) < 0.6 * whole


@pytest.mark.parametrize(
    ("step", "name"),
    [(0, "morning"), (90, "afternoon"), (150, "dusk"), (210, "night"), (280, "dawn")],
)
def test_times_of_day_have_names(step, name):
    assert hour(step / 300 % 1, float(sight.light(jnp.int32(step), 300))) == name


def test_boards_are_darker_at_night():
    hours = np.array([60, 210], np.int32)
    states = jax.tree.map(
        lambda leaf: hours if leaf.ndim == 1 else leaf.repeat(2, axis=0),
        Session(ENV).now.state,
    )
    pictures = frames.board_painter(ENV, 8)(states)
    assert pictures.shape == (2, 72, 72, 3) and drawing.board_shape(ENV) == (9, 9)
    night = jax.tree.map(lambda leaf: jnp.asarray(leaf[1]), states)
    picture = jax.jit(lambda state: ENV.picture(state, 8))
    np.testing.assert_array_equal(pictures[1], picture(night))
    assert pictures[0].mean() > 1.2 * pictures[1].mean()


@pytest.mark.full
def test_files_are_drawn_without_a_display(no_display, tmp_path, capsys):
    gif, png, again = (tmp_path / name for name in ("a.gif", "b.png", "c.gif"))
    keys = ["--keys", "w a space tab q 1 t", "--frames", "8"]
    assert play.main([ID, *keys, "--gif", str(gif), "--screenshot", str(png)]) == 0
    assert watch.main(["--random", ID, "--frames", "3", "--gif", str(again)]) == 0
    assert gif.stat().st_size > 1000 and png.stat().st_size > 1000 and again.stat().st_size > 1000
    assert "8 pictures" in capsys.readouterr().out


def test_the_first_moment_has_no_action(playing):
    assert playing.session.now.action[0] == NO_ACTION and not playing.session.now.earned.any()


def test_a_person_can_achieve_everything():
    """The keys that `craft_player.py` recorded earn all achievements in one game."""
    seed, *keys = (Path(__file__).parent / "craft_keys.txt").read_text().split()
    controller = Controller(Session(ENV, seed=int(seed)), ID, "play")
    for key in keys:
        assert controller.press(key)
    session = controller.session
    assert session.now.earned.all() and len(session.history) == len(keys) + 1
    marked = [name for names in bar.marks(session, 0).values() for name in names]
    assert sorted(marked) == sorted(name.replace("_", " ") for name in ENV.achievements)


@pytest.mark.parametrize("size", SIZES)
def test_every_size_shows_vitals_inventory_and_achievements(playing, size):
    assert_whole(playing, size)
