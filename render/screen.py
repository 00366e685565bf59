"""The picture of a session as the window and screenshots show it; draws on surfaces only.

Left the board, or a wall of boards; right a panel; below a bar of the history to scrub along.
"""

import functools
import math
from typing import Any, NamedTuple

import jax
import numpy as np
import pygame

from ..core.env import Env
from . import frames
from .controls import Controller
from .session import NO_ACTION, Session, opinion

RGB = tuple[int, int, int]
INK, CARD, LINE = frames.BACKGROUND, (26, 28, 38), (48, 52, 66)
TEXT, MUTED, DIM, ACCENT = (236, 234, 226), (146, 152, 168), (92, 99, 120), (110, 170, 255)
GOOD, BAD, CUT = (86, 196, 118), (236, 92, 84), (246, 190, 62)
PANEL_WIDTH, BAR_HEIGHT, MARGIN, LABEL_HEIGHT = 312, 46, 14, 18
MIN_SIZE = (560, 420)
DEFAULT_BOARD = 600  # pixels that a board may take when the window opens


class Layout(NamedTuple):
    """Where things are in a window of some size."""

    boards: tuple[pygame.Rect, ...]  # of the board looked at, or of all boards of the wall
    panel: pygame.Rect
    bar: pygame.Rect
    tile_size: int

    def board_at(self, position: tuple[int, int]) -> int | None:
        """Return the board of the wall under a point."""
        return next((i for i, r in enumerate(self.boards) if r.collidepoint(position)), None)

    def scrubbed(self, x: int) -> float:
        """Return the place on the bar, 0 to 1."""
        return min(1.0, max(0.0, (x - self.bar.left) / max(1, self.bar.width)))


def natural_size(controller: Controller, tile_size: int | None = None) -> tuple[int, int]:
    """Return the window size that fits the boards at a tile size, or at a comfortable one."""
    session = controller.session
    rows, columns = frames.board_shape(session.env)
    across = 1 if controller.zoomed else frames.wall_columns(session.boards)
    down = 1 if controller.zoomed else -(-session.boards // across)
    label = LABEL_HEIGHT if controller.is_wall else 0
    if tile_size is None:
        tile_size = frames.fitting_tile_size(
            session.env, DEFAULT_BOARD // across, DEFAULT_BOARD // down, largest=64
        )
    width = across * (columns * tile_size + frames.GAP) + PANEL_WIDTH + 2 * MARGIN
    height = down * (rows * tile_size + frames.GAP + label) + BAR_HEIGHT + 2 * MARGIN
    return max(MIN_SIZE[0], width), max(_panel_height(controller) + BAR_HEIGHT, height)


def layout(controller: Controller, size: tuple[int, int]) -> Layout:
    """Place everything in a window: boards at the largest tile size that fits."""
    width, height = size
    panel = pygame.Rect(width - PANEL_WIDTH, 0, PANEL_WIDTH, height - BAR_HEIGHT)
    bar = pygame.Rect(MARGIN, height - BAR_HEIGHT // 2 + 4, width - 2 * MARGIN, 8)
    place = pygame.Rect(0, 0, width - PANEL_WIDTH, height - BAR_HEIGHT).inflate(-MARGIN, -MARGIN)
    count = 1 if controller.zoomed else controller.session.boards
    label = 0 if controller.zoomed else LABEL_HEIGHT
    across = frames.wall_columns(count, place.width / max(1, place.height)) if count > 1 else 1
    down = -(-count // across)
    cell_width, cell_height = place.width // across, place.height // down
    env = controller.session.env
    tile = frames.fitting_tile_size(
        env, cell_width - frames.GAP, cell_height - frames.GAP - label, largest=96
    )
    rows, columns = frames.board_shape(env)
    step_x, step_y = columns * tile + frames.GAP, rows * tile + frames.GAP + label
    left = place.centerx - (across * step_x - frames.GAP) // 2
    top = place.centery - (down * step_y - frames.GAP) // 2
    boards = tuple(
        pygame.Rect(
            left + i % across * step_x, top + i // across * step_y, columns * tile, rows * tile
        )
        for i in range(count)
    )
    return Layout(boards, panel, bar, tile)


def draw(controller: Controller, size: tuple[int, int]) -> pygame.Surface:
    """Draw the session into a new surface."""
    pygame.font.init()
    surface = pygame.Surface(size)
    surface.fill(INK)
    where = layout(controller, size)
    if controller.zoomed:
        _draw_board(surface, controller, where)
    else:
        _draw_wall(surface, controller, where)
    _draw_panel(surface, controller, where.panel)
    _draw_bar(surface, controller, where.bar)
    if controller.help_shown:
        _draw_help(surface, controller)
    return surface


def pixels(surface: pygame.Surface) -> np.ndarray:
    """Return a surface as uint8 (height, width, 3)."""
    width, height = surface.get_size()
    flat = np.frombuffer(pygame.image.tobytes(surface, "RGB"), np.uint8)
    return flat.reshape(height, width, 3)


# Boards.


def _draw_board(surface: pygame.Surface, controller: Controller, where: Layout) -> None:
    session, board = controller.session, controller.selected
    picture = frames.board_painter(session.env, where.tile_size)(_one(session, board))[0]
    surface.blit(_surface(picture), where.boards[0])
    colour = _end_colour(session, board)
    if colour:
        pygame.draw.rect(surface, colour, where.boards[0].inflate(8, 8), 3, 4)


def _draw_wall(surface: pygame.Surface, controller: Controller, where: Layout) -> None:
    session = controller.session
    pictures = frames.board_painter(session.env, where.tile_size)(session.now.state)
    for i, (rect, picture) in enumerate(zip(where.boards, pictures, strict=True)):
        surface.blit(_surface(picture), rect)
        colour = _end_colour(session, i)
        if i == controller.selected:
            pygame.draw.rect(surface, ACCENT, rect.inflate(4, 4), 2)
        if colour:
            pygame.draw.rect(surface, colour, rect, 3)
        score = f"{session.now.score[i]:.2f}"
        _text(surface, f"{i}", (rect.left, rect.bottom + 2), MUTED, 13)
        _text(surface, score, (rect.right, rect.bottom + 2), colour or TEXT, 13, right=True)


def _end_colour(session: Session, board: int) -> RGB | None:
    """Green for an end with a reward, red for one without, yellow for the time limit."""
    if bool(session.now.truncated[board]):
        return CUT
    if bool(session.now.terminated[board]):
        return GOOD if session.now.reward[board] > 0 else BAD
    return None


def _one(session: Session, board: int) -> Any:
    """The state of one board, as a batch of one."""
    return jax.tree.map(lambda leaf: leaf[board : board + 1], session.now.state)


def _surface(picture: np.ndarray) -> pygame.Surface:
    height, width, _ = picture.shape
    return pygame.image.frombuffer(np.ascontiguousarray(picture).tobytes(), (width, height), "RGB")


# The panel.


def _panel_height(controller: Controller) -> int:
    """Pixels that the panel of a single board needs."""
    bars = 0 if controller.session.pilot.is_random else 60 + 19 * len(controller.actions)
    return 440 + bars if controller.zoomed else 420


def _draw_panel(surface: pygame.Surface, controller: Controller, rect: pygame.Rect) -> None:
    pygame.draw.rect(surface, CARD, rect)
    pen = _Pen(surface, rect)
    surface.set_clip(rect.inflate(0, -48).move(0, -24))  # in a low window the footer stays legible
    pen.paragraph(controller.title, TEXT, 19)
    if controller.is_wall:
        _wall_panel(pen, controller)
    else:
        _board_panel(pen, controller)
    surface.set_clip(None)
    pen.footer(controller.notice or _HINTS[controller.mode], ACCENT if controller.notice else MUTED)


def _wall_panel(pen: "_Pen", controller: Controller) -> None:
    session, now = controller.session, controller.session.now
    finished, total = int(now.finished.sum()), float(now.total.sum())
    pen.space(4)
    pen.chip(*_status(controller))
    pen.row("boards", f"{session.boards}")
    pen.row("actions by", session.pilot.name)
    pen.row("episodes finished", f"{finished}")
    pen.row("their mean return", f"{total / finished:.3f}" if finished else "-")
    pen.row("board", f"{controller.selected}")
    pen.space(6)
    pen.paragraph("Click a board, or Tab and Enter, to look at it.", MUTED, 15)


def _board_panel(pen: "_Pen", controller: Controller) -> None:
    session, now, board = controller.session, controller.session.now, controller.selected
    state = session.state(board)
    mission = getattr(session.env, "mission_text", lambda _: "")(state)
    if mission:
        pen.paragraph(mission, MUTED, 15)
    pen.space(4)
    pen.chip(*_status(controller))
    limit = int(np.asarray(session.env.time_limit(state, session.env.default_params)))
    action = int(now.action[board])
    pen.row("episode", f"{int(now.episode[board]) + 1}")
    pen.row("step", f"{int(state.time)} / {limit}")
    pen.row("last action", "-" if action == NO_ACTION else controller.actions[action].name)
    pen.row("reward", f"{float(now.reward[board]):.3f}")
    pen.row("return", f"{float(now.score[board]):.3f}")
    _draw_eyes(pen, session, board)
    if not session.pilot.is_random:
        _draw_opinion(pen, controller)


def _status(controller: Controller) -> tuple[str, RGB]:
    """What is going on, in one or two words, and its colour."""
    session, board = controller.session, controller.selected
    if controller.zoomed and session.is_over(board):
        ended = "time limit" if session.now.truncated[board] else "terminated"
        again = " - R: next level" if session.human else ""
        return ended + again, _end_colour(session, board) or TEXT
    if session.human:
        return "your move" if controller.mode == "play" else "your move - Space: go on", ACCENT
    if session.paused:
        return "paused", CUT
    return f"{session.pilot.name}, {session.speed:g} steps/s", GOOD


def _draw_eyes(pen: "_Pen", session: Session, board: int) -> None:
    """What the agent sees and holds."""
    size = _view_tile_size(session.env)
    paint = frames.view_painter(session.env, size) if size else None
    if paint is None:
        return
    pen.space(6)
    pen.label("the agent sees")
    picture = paint(_one(session, board))[0]
    pen.surface.blit(_surface(picture), (pen.left, pen.top))
    carried = getattr(session.state(board), "carried", None)
    if carried is not None:
        left = pen.left + picture.shape[1] + 18
        _text(pen.surface, "carries", (left, pen.top), MUTED, 14)
        tile = int(carried)
        if tile:
            pen.surface.blit(_surface(session.env.atlas(40)[tile]), (left, pen.top + 22))
        else:
            _text(pen.surface, "nothing", (left, pen.top + 22), TEXT, 15)
    pen.space(picture.shape[0] + 8)


@functools.lru_cache(maxsize=16)
def _view_tile_size(env: Env) -> int:
    """Tile size that makes the view about 140 pixels high; 0 where there is no view of tiles."""
    view_tiles = getattr(env, "view_tiles", None)
    if view_tiles is None:
        return 0
    return max(4, 144 // jax.eval_shape(view_tiles, env.state_shape).shape[0])


def _draw_opinion(pen: "_Pen", controller: Controller) -> None:
    """Bars of the action probabilities, and the value."""
    probabilities, value = opinion(controller.session, controller.selected)
    pen.row("value", f"{value:.3f}" if math.isfinite(value) else "-")
    pen.label("next action")
    likeliest = int(probabilities.argmax())
    for row in controller.actions:
        share = float(probabilities[row.action])
        pen.bar(row.name, share, ACCENT if row.action == likeliest else DIM)


class _Pen:
    """Writes down a panel from top to bottom."""

    def __init__(self, surface: pygame.Surface, rect: pygame.Rect) -> None:
        self.surface, self.rect = surface, rect
        self.left, self.right = rect.left + MARGIN, rect.right - MARGIN
        self.top = rect.top + MARGIN

    def space(self, height: int) -> None:
        self.top += height

    def label(self, text: str) -> None:
        _text(self.surface, text, (self.left, self.top), MUTED, 14)
        self.top += 20

    def row(self, name: str, value: str) -> None:
        _text(self.surface, name, (self.left, self.top), MUTED, 15)
        _text(self.surface, value, (self.right, self.top), TEXT, 15, right=True)
        self.top += 21

    def paragraph(self, text: str, colour: RGB, size: int) -> None:
        for line in _wrapped(text, _font(size), self.right - self.left):
            _text(self.surface, line, (self.left, self.top), colour, size)
            self.top += size + 4
        self.top += 2

    def chip(self, text: str, colour: RGB) -> None:
        width = _font(14).size(text)[0]
        rect = pygame.Rect(self.left, self.top, width + 18, 22)
        pygame.draw.rect(self.surface, colour, rect, border_radius=11)
        _text(self.surface, text, (rect.left + 9, rect.top + 4), INK, 14)
        self.top += 32

    def bar(self, name: str, share: float, colour: RGB) -> None:
        _text(self.surface, name, (self.left, self.top), TEXT, 14)
        track = pygame.Rect(self.left + 72, self.top + 1, self.right - self.left - 116, 12)
        pygame.draw.rect(self.surface, INK, track, border_radius=3)
        filled = track.copy()
        filled.width = round(track.width * share)
        pygame.draw.rect(self.surface, colour, filled, border_radius=3)
        _text(self.surface, f"{share:.0%}", (self.right, self.top), MUTED, 14, right=True)
        self.top += 19

    def footer(self, text: str, colour: RGB) -> None:
        lines = _wrapped(text, _font(14), self.right - self.left)
        top = self.rect.bottom - 18 * len(lines) - 6
        for i, line in enumerate(lines):
            _text(self.surface, line, (self.left, top + 18 * i), colour, 14)


# The bar and the help.


def _draw_bar(surface: pygame.Surface, controller: Controller, bar: pygame.Rect) -> None:
    session = controller.session
    last = max(1, len(session.history) - 1)
    pygame.draw.rect(surface, LINE, bar, border_radius=4)
    done = bar.copy()
    done.width = round(bar.width * session.cursor / last)
    pygame.draw.rect(surface, ACCENT, done, border_radius=4)
    if controller.zoomed:
        for i, moment in enumerate(session.history):
            if moment.action[controller.selected] == NO_ACTION:
                x = bar.left + round(bar.width * i / last)
                pygame.draw.line(surface, MUTED, (x, bar.top - 3), (x, bar.bottom + 2))
    pygame.draw.circle(surface, TEXT, (done.right, bar.centery), 8)
    first = session.dropped
    text = f"moment {first + session.cursor} of {first + len(session.history) - 1}"
    _text(surface, text, (bar.left, bar.top - 22), MUTED, 14)


def _draw_help(surface: pygame.Surface, controller: Controller) -> None:
    bindings = [b for b in controller.bindings if b.keys]
    shade = pygame.Surface(surface.get_size(), pygame.SRCALPHA)
    shade.fill((*INK, 205))
    surface.blit(shade, (0, 0))
    rect = pygame.Rect(0, 0, 430, 22 * len(bindings) + 66)
    rect.center = surface.get_rect().center
    pygame.draw.rect(surface, CARD, rect, border_radius=10)
    pygame.draw.rect(surface, LINE, rect, 2, 10)
    _text(surface, "Keys", (rect.left + 20, rect.top + 16), TEXT, 19)
    for i, binding in enumerate(bindings):
        top = rect.top + 48 + 22 * i
        names = ", ".join(_KEY_SIGNS.get(key, key.upper()) for key in binding.keys)
        _text(surface, names, (rect.left + 20, top), ACCENT, 15)
        _text(surface, binding.does, (rect.left + 220, top), TEXT, 15)


_HINTS = {
    "play": "H keys \u00b7 R new level \u00b7 Backspace undo",
    "watch": "H keys \u00b7 Space pause \u00b7 Left, Right step",
}
_KEY_SIGNS = {
    "return": "Enter",
    "escape": "Esc",
    "backspace": "Backspace",
    "space": "Space",
    "tab": "Tab",
    "left shift": "Left Shift",
    "home": "Home",
    "end": "End",
    "left": "Left",
    "right": "Right",
    "up": "Up",
    "down": "Down",
    ",": "Comma",
    ".": "Period",
}


@functools.lru_cache(maxsize=8)
def _font(size: int) -> pygame.font.Font:
    return pygame.font.Font(None, round(size * 1.35))


def _text(
    surface: pygame.Surface,
    text: str,
    at: tuple[int, int],
    colour: RGB,
    size: int,
    right: bool = False,
) -> None:
    """Write one line; `at` is its top left corner, or its top right one."""
    image = _font(size).render(text, True, colour)
    surface.blit(image, (at[0] - image.get_width() if right else at[0], at[1]))


def _wrapped(text: str, font: pygame.font.Font, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if font.size(longer)[0] <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines
