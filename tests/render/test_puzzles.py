"""Tests of puzzles that a person plays: keys, clicks and animated turns."""

import jax
import numpy as np
import pygame
import pytest
from defaults import with_full
from opened import opened, settle

import jaxenvs
from jaxenvs.puzzles import PuzzleLevel, pictures
from jaxenvs.render import boards, canvas, frames, gif, outputs, panel, play, screen
from jaxenvs.render.controls import TIME, Controller
from jaxenvs.render.pilots import RANDOM
from jaxenvs.render.session import Session

# The first id of each puzzle class; of Cube and Sudoku also a second id, whose actions differ.
IDS = [ids[0] for ids in jaxenvs.registry.classes("Puzzle").values()]
IDS += ["Puzzle-Cube-2x2-v0", "Puzzle-Sudoku-v0"]


class Still(Session):
    """Session that is never reset or stepped, so that nothing is compiled."""

    def __init__(self, env: jaxenvs.Env) -> None:
        self.env, self.boards = env, 1


def controller(id: str, mode: str = "play", **fields: object) -> Controller:
    session = Session(jaxenvs.make(id, **fields), None if mode == "play" else RANDOM)
    return Controller(session, id, mode)


def press(playing: Controller, keys: str) -> Controller:
    for key in keys.split():
        assert playing.press(key), key
    return playing


@pytest.mark.parametrize("id", IDS)
def test_every_action_can_be_taken_and_no_key_means_two_things(id):
    env = jaxenvs.make(id)
    playing = Controller(Still(env), id)
    ways = playing.pointing
    for mode in ("play", "watch"):
        playing.mode = mode
        keys = [key for binding in playing.bindings for key in binding.keys]
        assert len(keys) == len(set(keys)) and "h" in keys and "escape" in keys
        assert "r" in keys or "n" in keys  # R or N starts a new level
    reached = {i for i, row in enumerate(playing.actions) if set(row.keys) - set(TIME)}
    if ways is not None:
        state = env.reset(jax.random.key(0)).state if id.startswith("Puzzle-TSP") else None
        places = list(np.ndindex(ways.rows, ways.columns))
        for first in places:
            if ways.pair:
                found = {ways.action(state, first, second) for second in places}
            elif ways.writes:
                found = {ways.action(state, first, digit) for digit in range(1, 10)}
            else:
                found = {ways.action(state, first)}
            reached |= found - {None}
    missing = set(range(env.action_space.n)) - reached
    assert not missing and max(reached) < env.action_space.n


@pytest.mark.parametrize(
    ("id", "keys", "action"),
    [
        ("Puzzle-Maze-10x10-v0", "up", 0),
        ("Puzzle-Cube-2x2-Half-v0", "r", "R"),
        ("Puzzle-Cube-2x2-Half-v0", "R", "R'"),
        ("Puzzle-Cube-2x2-Half-v0", "2", "F2"),
        ("Puzzle-LightsOut-5x5-v0", "down right right space", "1,2"),
        ("Puzzle-LightsOut-5x5-v0", "up left e", "4,4"),
        ("Puzzle-Pancake-10-v0", "down down down space", "flip 4"),
        ("Puzzle-PegSolitaire-v0", "down down down right space right right space", "3,1 right"),
        ("Puzzle-Sudoku-v0", "down right right 7", "r2c3=7"),
        # With these cases, all ways to select an action are tested: its key, one place, two places.
        *with_full(
            ("Puzzle-SlidingTile-3x3-v0", "d", 1),
            ("Puzzle-Pyraminx-v0", "B", "B'"),
            ("Puzzle-TopSpin-10-v0", "w", "reverse"),
            ("Puzzle-Minesweeper-10x10-v0", "right space", 1),
            ("Puzzle-Hanoi-5-v0", "space right right space", "0>2"),
            ("Puzzle-Sudoku-Guided-v0", "4", "4"),
        ),
    ],
)
def test_keys_take_the_action(id, keys, action):
    playing = press(controller(id), keys)
    if isinstance(action, str):
        action = playing.session.env.action_names.index(action)
    assert playing.session.now.action[0] == action and playing.session.cursor == 1


def test_a_place_is_released_by_choosing_it_again_or_by_an_illegal_pair():
    playing = press(controller("Puzzle-PegSolitaire-v0"), "down down down right space")
    assert playing.taken == (3, 1)
    assert press(playing, "space").taken is None
    press(playing, "space right space")
    assert playing.notice == "no action there" and playing.taken == (3, 2)
    assert playing.session.cursor == 0
    assert press(playing, "n").taken is None


def test_neither_the_top_pancake_nor_the_plate_can_be_flipped():
    playing = press(controller("Puzzle-Pancake-10-v0"), "space")
    assert playing.session.cursor == 0
    assert press(playing, "up space").notice == "no action there"
    assert press(playing, "up space").session.now.action[0] == 8


def test_a_click_means_the_nearest_city():
    env = jaxenvs.make("Puzzle-TSP-10-v0")
    level = env.read_level("\n".join(f"{i / 10} {0.2 + i % 2 / 2}" for i in range(10)))
    state = env.reset_to(jax.random.key(0), level).state
    nearest = env.controls.pointing.action
    # City 4 is at (0.4, 0.2), city 5 at (0.5, 0.7). The clicks are nearest to cities 4 and 5.
    assert nearest(state, (3, 7)) == 4
    assert nearest(state, (11, 8)) == 5


def test_a_success_is_green_although_its_reward_is_negative():
    session = Session(jaxenvs.make("Puzzle-TSP-10-v0", cities=3))
    assert session.act(1) and panel.end_colour(session, 0) is None
    assert session.act(2) and session.now.reward[0] < 0
    assert panel.end_colour(session, 0) == canvas.GOOD


def test_in_watch_mode_arrows_move_in_time_and_letters_move_the_cursor():
    watching = controller("Puzzle-LightsOut-5x5-v0", "watch")
    press(watching, "s d e")
    assert watching.session.now.action[0] == 6 and watching.session.human


def test_shift_is_ignored_for_letters_without_a_shifted_binding():
    playing = controller("Puzzle-Maze-10x10-v0")
    assert playing.press("W") and playing.session.now.action[0] == 0


@pytest.mark.usefixtures("dummy_display")
def test_a_click_acts_on_the_place_under_it():
    window = opened(lambda: controller("Puzzle-LightsOut-5x5-v0"))
    where = screen.layout(window.controller, window.display.get_size())
    at = where.rect_of(window.controller, (3, 1)).center
    pygame.event.post(pygame.event.Event(pygame.MOUSEBUTTONDOWN, pos=at, button=1))
    settle(window)
    assert window.controller.session.now.action[0] == 16
    assert window.controller.cursor == (3, 1)
    window.close()


@pytest.mark.usefixtures("dummy_display")
def test_the_window_shows_in_between_pictures_of_a_turn():
    window = opened(lambda: controller("Puzzle-Cube-2x2-v0"))
    event = pygame.event.Event(pygame.KEYDOWN, key=pygame.K_u, mod=pygame.KMOD_LSHIFT)
    pygame.event.post(event)
    seen = []
    for _ in range(4):
        settle(window, 0.1)
        seen.append((window.controller.turned, pygame.image.tobytes(window.display, "RGB")))
    assert window.controller.session.now.action[0] == 1  # the action is the turn U'
    assert seen[0][0] == 0 and 0 < seen[1][0] < 1 and seen[3][0] == 1
    assert len({picture for _, picture in seen}) == 4 - (seen[2][0] == 1)
    pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_BACKSPACE))
    settle(window, 0.1)
    assert window.controller.turned == 1
    window.close()


def test_a_turn_is_drawn_into_a_gif(tmp_path):
    path = tmp_path / "turn.gif"
    arguments_ = ["Puzzle-Cube-2x2-v0", "--keys", "u R", "--gif", str(path), "--tile-size", "8"]
    assert play.main(arguments_) == 0
    from PIL import Image

    with Image.open(path) as image:
        assert image.n_frames == 3 + 2 * 3


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.full)])
def test_a_turn_ends_where_the_rules_put_the_stickers(size):
    env = jaxenvs.make(f"Puzzle-Cube-{size}x{size}-Half-v0")
    level = PuzzleLevel(board=env.sample_level(jax.random.key(1)).board)
    state = env.reset_to(jax.random.key(0), level).state
    step, draw = jax.jit(env.step), jax.jit(lambda state: env.picture(state, 8))
    before = draw(state)
    half = 2 * size * 8  # width, in pixels, of the net on the left, which is not animated
    for action in range(env.num_actions):
        after = step(jax.random.key(0), state, np.int32(action)).state
        ended = np.asarray(env.picture_between(state, action, 1.0, 8)).astype(int)
        wanted = np.asarray(draw(after)).astype(int)
        for solid in (np.s_[: size * 8, half:], np.s_[2 * size * 8 :, half:]):
            # Up to 1 % of the pixels may differ: at rounded corners, an edge can shift by a pixel.
            assert (abs(ended[solid] - wanted[solid]).max(axis=-1) > 64).mean() < 0.01, action
        started = np.asarray(env.picture_between(state, action, 0.0, 8))
        np.testing.assert_array_equal(started, before)


def test_each_sticker_of_a_cube_is_in_exactly_one_of_two_views():
    front, back = pictures.solids(3, 16)
    assert set(np.unique(front)) | set(np.unique(back)) == set(range(2 + 54))
    assert not set(np.unique(front)) & set(np.unique(back)) - {0, 1}


def test_every_sticker_of_the_nets_is_drawn():
    assert set(np.unique(pictures.skewb(16))) == set(range(2 + 30))
    assert set(np.unique(pictures.pyraminx(16))) == set(range(2 + 24))


def test_a_picture_has_the_size_of_the_tiles(tmp_path):
    for id in ("Puzzle-Pyraminx-v0", "Puzzle-Skewb-v0", "Puzzle-Cube-3x3-v0"):
        playing = controller(id)
        picture = outputs.boards_picture(playing, 12)
        rows, columns = playing.session.env.tiles(playing.session.state()).shape
        assert picture.shape == (12 * rows, 12 * columns, 3)
        gif.write_png(tmp_path / "a.png", picture)


def test_a_tour_draws_its_route():
    env = jaxenvs.make("Puzzle-TSP-10-v0", cities=4)
    session = Session(env, RANDOM, 2)
    plain = frames.board_painter(env, 16)(session.now.state)
    np.testing.assert_array_equal(boards.pictures(session, 16), plain)  # there is no route yet
    lengths = []
    for city in (2, 2, 1, 3):  # the second 2 does nothing; 3 closes the tour
        session.act(city)
        plain = frames.board_painter(env, 16)(session.now.state)
        drawn = boards.pictures(session, 16)
        changed = (drawn != plain).any(axis=-1)
        ground = (plain == env.atlas(16)[0, 0, 0]).all(axis=-1)
        # Only the ground changes: cities are drawn on top of the route.
        assert not (changed & ~ground).any()
        lengths.append(int(changed[0].sum()))
    assert 0 < lengths[0] == lengths[1] < lengths[2] < lengths[3]
    assert [len(boards.trail(env, boards.episode(session, 0)))] == [6]
    np.testing.assert_array_equal(boards.pictures(session, 16, 1)[0], drawn[1])
    session.new_level()
    assert len(list(boards.episode(session, 0))) == 1
