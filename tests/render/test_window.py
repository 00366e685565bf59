"""The window on SDL's dummy display, driven by events as a display would post them."""

import pygame
import pytest

import jaxenvs
from jaxenvs.grid import Action
from jaxenvs.render import screen
from jaxenvs.render.controls import Controller
from jaxenvs.render.pilots import RANDOM
from jaxenvs.render.session import Session
from jaxenvs.render.window import Window, open_window

ID = "Grid-Empty-5x5-v0"
ENV = jaxenvs.make(ID)
KEYS = {
    "up": pygame.K_UP,
    "right": pygame.K_RIGHT,
    "left": pygame.K_LEFT,
    "back": pygame.K_BACKSPACE,
    "enter": pygame.K_KP_ENTER,
    "shift": pygame.K_LSHIFT,
    "h": pygame.K_h,
    "g": pygame.K_g,
    "r": pygame.K_r,
    "escape": pygame.K_ESCAPE,
}

pytestmark = pytest.mark.usefixtures("dummy_display")


@pytest.fixture
def window():
    opened = Window(Controller(Session(ENV), ID, "play"))
    yield opened
    opened.close()


@pytest.fixture
def wall():
    opened = Window(Controller(Session(ENV, RANDOM, 3), ID, "watch"))
    yield opened
    opened.close()


def keys(window: Window, *names: str) -> None:
    for name in names:
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=KEYS[name]))
    window.pump(0.0)


def mouse(window: Window, kind: int, at: tuple[int, int], **more: int) -> None:
    pygame.event.post(pygame.event.Event(kind, pos=at, **more))
    window.pump(0.0)


def shown(window: Window) -> bytes:
    return pygame.image.tobytes(window.display, "RGB")


def test_keys_play(window):
    keys(window, "up", "up", "right", "up", "up")
    session = window.controller.session
    assert session.is_over() and session.now.reward[0] > 0.9
    keys(window, "enter")
    assert session.now.episode[0] == 1
    keys(window, "shift")
    assert session.now.action[0] == Action.DROP
    keys(window, "back", "back")
    assert session.is_over()


def test_the_window_shows_the_session_and_draws_only_when_it_changes(window):
    window.pump(0.0)
    first = shown(window)
    window.display.fill((9, 9, 9))
    window.pump(1.0)
    assert set(shown(window)) == {9}  # nothing happened, nothing is drawn
    keys(window, "right")
    assert shown(window) not in (first, set())
    keys(window, "back")
    # The first moment again, with a longer history on the bar.
    size = window.display.get_size()
    assert shown(window) == pygame.image.tobytes(screen.draw(window.controller, size), "RGB")


def test_help_is_drawn_over_the_board(window):
    keys(window, "h")
    assert window.controller.help_shown
    before = shown(window)
    keys(window, "h")
    assert shown(window) != before


def test_the_bar_scrubs(window):
    keys(window, "up", "left", "left", "left")
    session, bar = window.controller.session, window._layout().bar
    mouse(window, pygame.MOUSEMOTION, bar.center)
    assert session.cursor == 4  # no button is down
    mouse(window, pygame.MOUSEBUTTONDOWN, (bar.left, bar.centery), button=1)
    assert session.cursor == 0
    mouse(window, pygame.MOUSEMOTION, bar.center)
    assert session.cursor == 2
    mouse(window, pygame.MOUSEMOTION, (5000, 0))
    assert session.cursor == 4
    mouse(window, pygame.MOUSEBUTTONUP, (bar.left, bar.centery), button=1)
    mouse(window, pygame.MOUSEMOTION, (bar.left, bar.centery))
    assert session.cursor == 4


def test_time_plays_and_a_click_looks_at_a_board_of_the_wall(wall):
    wall.pump(0.13)
    assert wall.controller.session.cursor == 1
    rect = wall._layout().boards[2]
    mouse(wall, pygame.MOUSEBUTTONDOWN, rect.center, button=3)
    assert wall.controller.is_wall
    mouse(wall, pygame.MOUSEBUTTONDOWN, rect.center, button=1)
    assert wall.controller.zoomed and wall.controller.selected == 2
    keys(wall, "escape")
    assert wall.controller.is_wall and wall.controller.open


@pytest.mark.parametrize("size", [(300, 200), (640, 480), (1400, 900)])
def test_any_size_of_the_window_is_filled_by_whole_tiles(window, size):
    window.display = pygame.display.set_mode(size, pygame.RESIZABLE)
    window.handle(pygame.event.Event(pygame.VIDEORESIZE, size=size, w=size[0], h=size[1]))
    window.pump(0.0)
    where = window._layout()
    assert where.boards[0].width == 5 * where.tile_size
    if size[0] >= 640:
        assert where.boards[0].right <= where.panel.left
        free = min(where.panel.left, where.bar.top - 30)
        assert where.tile_size == 96 or 5 * (where.tile_size + 4) > free - 2 * screen.MARGIN


def test_saving_writes_a_gif_and_says_so(window, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keys(window, "up", "left", "g")
    assert "3 pictures" in window.controller.notice
    keys(window, "g")
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"{ID}-1.gif", f"{ID}-2.gif"]
    assert window.controller.session.cursor == 2


def test_it_opens_runs_and_closes_without_sound():
    controller = Controller(Session(ENV), ID, "play")
    pygame.display.init()
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    assert open_window(controller) == 0
    assert not pygame.display.get_init()
    assert pygame.mixer.get_init() is None
