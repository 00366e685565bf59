"""Tests of the window of `jaxenvs play` and `watch`: synthetic events, SDL's dummy display."""

import threading
import time

import jax
import jax.numpy as jnp
import pygame
import pytest
from opened import opened, settle
from whole import NARROW, SIZES, assert_whole

import jaxenvs
from jaxenvs.core import background
from jaxenvs.grid import Action
from jaxenvs.grid.tiles import Colour, Kind
from jaxenvs.render import panel, screen
from jaxenvs.render.canvas import TEXT, Canvas
from jaxenvs.render.controls import Controller
from jaxenvs.render.pen import Pen
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
    window = opened(lambda: Controller(Session(ENV), ID, "play"))
    yield window
    window.close()


@pytest.fixture
def wall():
    window = opened(lambda: Controller(Session(ENV, RANDOM, 3), ID, "watch"))
    window.controller.session.seek(0)
    window.controller.session.toggle_pause()
    yield window
    window.close()


def post(*names: str) -> None:
    for name in names:
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=KEYS[name]))


def keys(window: Window, *names: str) -> None:
    post(*names)
    settle(window)


def mouse(window: Window, kind: int, at: tuple[int, int], **more: int) -> None:
    pygame.event.post(pygame.event.Event(kind, pos=at, **more))
    settle(window)


def layout(window: Window) -> screen.Layout:
    return screen.layout(window.controller, window.display.get_size())


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
    first = shown(window)
    window.display.fill((9, 9, 9))
    settle(window, 1.0)
    assert set(shown(window)) == {9}  # nothing is drawn, because nothing has changed
    keys(window, "right")
    assert shown(window) not in (first, set())
    keys(window, "back")
    # The picture is not `first`: the history bar is longer, although the same time step is shown.
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
    session, bar = window.controller.session, layout(window).bar
    mouse(window, pygame.MOUSEMOTION, bar.center)
    assert session.cursor == 4  # the mouse moves, but no button is pressed
    mouse(window, pygame.MOUSEBUTTONDOWN, (bar.left, bar.centery), button=1)
    assert session.cursor == 0
    mouse(window, pygame.MOUSEMOTION, bar.center)
    assert session.cursor == 2
    mouse(window, pygame.MOUSEMOTION, (5000, 0))
    assert session.cursor == 4
    mouse(window, pygame.MOUSEBUTTONUP, (bar.left, bar.centery), button=1)
    mouse(window, pygame.MOUSEMOTION, (bar.left, bar.centery))
    assert session.cursor == 4


def test_time_plays_and_a_click_opens_a_board_of_the_wall(wall):
    settle(wall, 0.13)
    assert wall.controller.session.cursor == 1
    rect = layout(wall).boards[2]
    mouse(wall, pygame.MOUSEBUTTONDOWN, rect.center, button=3)
    assert wall.controller.is_wall
    mouse(wall, pygame.MOUSEBUTTONDOWN, rect.center, button=1)
    assert wall.controller.zoomed and wall.controller.selected == 2
    keys(wall, "escape")
    assert wall.controller.is_wall and wall.controller.open


@pytest.mark.parametrize("size", [(300, 200), (640, 480), (1400, 900)])
def test_boards_fill_a_window_of_any_size_with_whole_tiles(window, size):
    window.display = pygame.display.set_mode(size, pygame.RESIZABLE)
    window.handle(pygame.event.Event(pygame.VIDEORESIZE, size=size, w=size[0], h=size[1]))
    settle(window)
    where = layout(window)
    assert where.boards[0].width == 5 * where.tile_size
    largest = round(screen.LARGEST_TILE * max(1.0, where.scale)) // 4 * 4
    if size[0] >= 640:
        free = min(where.panel.left, where.bar.top - 30)
        assert where.tile_size == largest or 5 * (where.tile_size + 4) > free - 3 * screen.MARGIN


@pytest.mark.parametrize("size", SIZES)
def test_every_size_shows_everything(window, size):
    where = assert_whole(window.controller, size)
    is_narrow = size == NARROW
    # The panel is below the board in a narrow window, and otherwise on its right.
    assert (where.panel.top >= where.whole.bottom) == is_narrow
    assert (where.scale >= 2) == (size[1] > 1500)


@pytest.mark.parametrize("size", SIZES)
def test_every_size_shows_a_whole_wall(wall, size):
    assert_whole(wall.controller, size)


@pytest.mark.parametrize(
    ("display", "least", "most"),
    [
        ((800, 600), 0.7, 1.0),
        ((1280, 800), 0.4, 0.8),
        ((1920, 1080), 0.4, 0.7),
        ((3840, 2160), 0.4, 0.7),
    ],
)
def test_a_new_window_takes_a_good_share_of_its_display(display, least, most):
    width, height = screen.opening_size(display)
    assert width <= display[0] and height <= display[1] - 60  # room for a title bar and a task bar
    assert least <= width * height / (display[0] * display[1]) <= most


def test_text_scales_with_the_window(window):
    def bright(scale: float) -> int:
        surface = pygame.Surface((round(312 * scale), round(500 * scale)))
        panel.draw(surface, window.controller, surface.get_rect(), scale)
        return pygame.mask.from_threshold(surface, (*TEXT, 255), (90, 90, 90, 255)).count()

    assert bright(2.0) > 3 * bright(1.0)


def test_saving_writes_a_gif_and_shows_a_notice(window, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keys(window, "up", "left", "g")
    assert "3 pictures" in window.controller.notice
    keys(window, "g")
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"{ID}-1.gif", f"{ID}-2.gif"]
    assert window.controller.session.cursor == 2


def test_it_opens_runs_and_closes_without_sound():
    pygame.display.init()
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    assert open_window(lambda: Controller(Session(ENV), ID, "play"), ID) == 0
    assert not pygame.display.get_init()
    assert pygame.mixer.get_init() is None


@pytest.fixture
def slow():
    """Return a window whose session is ready only after `ready.set()`."""
    ready = threading.Event()

    def prepare() -> Controller:
        ready.wait(60)
        return Controller(Session(ENV), ID, "play")

    window = Window(prepare, ID)
    window.ready = ready
    yield window
    ready.set()
    window.close()


def test_it_opens_at_once_with_a_spinner(slow):
    first = shown(slow)
    assert len(set(first)) > 10  # many colours: the spinner's word and dots have smooth edges
    time.sleep(0.2)
    slow.pump(0.0)
    assert shown(slow) != first and slow.controller is None


def test_keys_pressed_while_it_compiles_are_played_afterwards(slow):
    post("up", "up", "right")
    slow.pump(0.0)
    slow.ready.set()
    settle(slow)
    session = slow.controller.session
    assert [int(moment.action[0]) for moment in session.history[1:]] == [
        Action.FORWARD,
        Action.FORWARD,
        Action.RIGHT,
    ]


def test_it_takes_another_size_while_it_compiles(slow):
    size = (700, 500)
    slow.display = pygame.display.set_mode(size, pygame.RESIZABLE)
    pygame.event.post(pygame.event.Event(pygame.VIDEORESIZE, size=size, w=size[0], h=size[1]))
    slow.pump(0.0)
    spot = slow.display.subsurface((300, 200, 100, 100))  # the part of the window with the spinner
    assert len(set(pygame.image.tobytes(spot, "RGB"))) > 10
    slow.ready.set()
    settle(slow)
    assert shown(slow) == pygame.image.tobytes(screen.draw(slow.controller, size), "RGB")


def test_it_closes_while_it_compiles(slow):
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    began = time.monotonic()
    slow.pump(0.0)
    assert not slow.open and time.monotonic() - began < 1
    slow.close()
    assert background.is_busy()  # `close` did not wait for the job


def test_escape_closes_it_while_it_compiles(slow):
    post("escape")
    slow.pump(0.0)
    assert not slow.open


def test_a_long_step_shows_the_busy_word_over_the_picture(window, monkeypatch):
    go_on = threading.Event()
    after = window.controller.session._after
    monkeypatch.setattr(
        window.controller.session, "_after", lambda commands: go_on.wait(60) and after(commands)
    )
    still = shown(window)
    post("up")
    until = time.monotonic() + 60
    while shown(window) == still and time.monotonic() < until:
        window.pump(0.0)
    # The busy screen shows a word over the top of the picture; the bottom is unchanged.
    assert shown(window)[-3000:] == still[-3000:] != shown(window)[:3000]
    go_on.set()
    settle(window)
    assert window.controller.session.cursor == 1
    size = window.display.get_size()
    assert shown(window) == pygame.image.tobytes(screen.draw(window.controller, size), "RGB")


def test_errors_of_the_background_thread_are_raised():
    def prepare() -> Controller:
        raise OSError("no such run")

    with pytest.raises(OSError, match="no such run"):
        open_window(prepare, ID)
    assert not pygame.display.get_init()


def test_a_wall_shows_the_objects_that_agents_carry():
    env = jaxenvs.make("Grid-Fetch-5x5-N2-v0")
    controller = Controller(Session(env, RANDOM, 2), ID, "watch")
    size = (800, 600)
    where = screen.layout(controller, size)

    def labels() -> list[bytes]:
        surface = screen.draw(controller, size)
        lines = [pygame.Rect(r.left, r.bottom + 1, r.width // 2, 16) for r in where.boards]
        return [pygame.image.tobytes(surface.subsurface(line), "RGB") for line in lines]

    before = labels()
    state = jax.tree.map(jnp.asarray, controller.session.now.state)
    carried = jnp.array([0, int(Kind.KEY) | int(Colour.RED) << 4], state.agent.dtype)
    hand = jax.vmap(lambda state, tile: state.replace(agent=state.agent | tile << 24))
    controller.session.history[0] = controller.session.now._replace(state=hand(state, carried))
    after = labels()
    assert after[0] == before[0] and after[1] != before[1]


def test_a_long_value_wraps_and_never_covers_its_label():
    pygame.font.init()
    surface = pygame.Surface((240, 120))
    pen = Pen(Canvas(surface), 240)
    pen.row("enchanted", "sword of fire, helmet of ice and boots of ice")
    written = pygame.surfarray.array3d(surface).any(axis=2)  # mask of drawn pixels (columns, rows)
    label = pen.canvas.width("enchanted", 15) + pen.left
    assert pen.top > 21 and pen.top % 21 == 0
    assert written[: int(label) + 1, 21:].sum() == 0  # nothing is drawn below the label
    assert written[:, 21:42].any() and not written[int(label) + 1 : int(label) + 9].any()
    pen.row("floor", "2")
    assert pen.top % 21 == 0
