"""The picture of a session as the window and screenshots show it; draws on surfaces only.

Left the board, or a wall of boards; right a panel; below a bar of the history to scrub along.
"""

from typing import NamedTuple

import numpy as np
import pygame

from ..core.controls import Place
from . import bar, frames, panel, turning
from .controls import Controller
from .panel import end_colour, one_board
from .pen import ACCENT, CARD, CUT, INK, LINE, MARGIN, MUTED, TEXT, surface_of, write

BAR_HEIGHT, LABEL_HEIGHT = 46, 18
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

    def place_at(self, controller: Controller, position: tuple[int, int]) -> Place | None:
        """Return the place of a single board under a point, where places are actions."""
        ways, board = controller.pointing, self.boards[0]
        if ways is None or not board.collidepoint(position):
            return None
        x, y = position[0] - board.left, position[1] - board.top
        return y * ways.rows // board.height, x * ways.columns // board.width

    def rect_of(self, controller: Controller, place: Place) -> pygame.Rect:
        """Return where a place is drawn."""
        ways, board = controller.pointing, self.boards[0]
        if ways is None:
            return board
        height, width = board.height // ways.rows, board.width // ways.columns
        left, top = board.left + place[1] * width, board.top + place[0] * height
        return pygame.Rect(left, top, width, height)

    def scrubbed(self, x: int) -> float:
        """Return the place on the bar, 0 to 1."""
        return min(1.0, max(0.0, (x - self.bar.left) / max(1, self.bar.width)))


def opening_size(display: tuple[int, int]) -> tuple[int, int]:
    """Return the size of a new window: most of a small display, half of the area of a large one."""
    width, height = display
    down = min(max(round(height * 0.75), MIN_SIZE[1], 640), height - 72)
    return min(round(down * 1.45), width), max(1, down)


def natural_size(controller: Controller, tile_size: int | None = None) -> tuple[int, int]:
    """Return the window size that fits the boards at a tile size, or at a comfortable one."""
    session, shape = controller.session, _shape(controller)
    rows, columns = shape
    across = 1 if controller.zoomed else frames.wall_columns(session.boards)
    down = 1 if controller.zoomed else -(-session.boards // across)
    label = LABEL_HEIGHT if controller.is_wall else 0
    if tile_size is None:
        tile_size = frames.fitting_tile_size(
            shape, DEFAULT_BOARD // across, DEFAULT_BOARD // down, largest=64
        )
    width = across * (columns * tile_size + frames.GAP) + panel.WIDTH + 2 * MARGIN
    height = down * (rows * tile_size + frames.GAP + label) + BAR_HEIGHT + 2 * MARGIN
    return max(MIN_SIZE[0], width), max(panel.height(controller) + BAR_HEIGHT, height)


def layout(controller: Controller, size: tuple[int, int]) -> Layout:
    """Place everything in a window: boards at the largest tile size that fits."""
    width, height = size
    beside = pygame.Rect(width - panel.WIDTH, 0, panel.WIDTH, height - BAR_HEIGHT)
    below = pygame.Rect(MARGIN, height - BAR_HEIGHT // 2 + 4, width - 2 * MARGIN, 8)
    place = pygame.Rect(0, 0, width - panel.WIDTH, height - BAR_HEIGHT).inflate(-MARGIN, -MARGIN)
    count = 1 if controller.zoomed else controller.session.boards
    label = 0 if controller.zoomed else LABEL_HEIGHT
    across = frames.wall_columns(count, place.width / max(1, place.height)) if count > 1 else 1
    down = -(-count // across)
    cell_width, cell_height = place.width // across, place.height // down
    shape = _shape(controller)
    tile = frames.fitting_tile_size(
        shape, cell_width - frames.GAP, cell_height - frames.GAP - label, largest=96
    )
    rows, columns = shape
    step_x, step_y = columns * tile + frames.GAP, rows * tile + frames.GAP + label
    left = place.centerx - (across * step_x - frames.GAP) // 2
    top = place.centery - (down * step_y - frames.GAP) // 2
    boards = tuple(
        pygame.Rect(
            left + i % across * step_x, top + i // across * step_y, columns * tile, rows * tile
        )
        for i in range(count)
    )
    return Layout(boards, beside, below, tile)


def _shape(controller: Controller) -> tuple[int, int]:
    """Rows and columns that are shown of a board: beside the panel none that repeat its facts."""
    rows, columns = frames.board_shape(controller.session.env)
    return rows - (controller.session.env.status_rows if controller.zoomed else 0), columns


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
    panel.draw(surface, controller, where.panel)
    bar.draw(surface, controller, where.bar)
    if controller.help_shown:
        _draw_help(surface, controller)
    return surface


def pixels(surface: pygame.Surface) -> np.ndarray:
    """Return a surface as uint8 (height, width, 3)."""
    width, height = surface.get_size()
    flat = np.frombuffer(pygame.image.tobytes(surface, "RGB"), np.uint8)
    return flat.reshape(height, width, 3)


def _draw_board(surface: pygame.Surface, controller: Controller, where: Layout) -> None:
    session, board = controller.session, controller.selected
    picture = turning.between(session, board, controller.turned, where.tile_size)
    if picture is None:
        picture = frames.board_painter(session.env, where.tile_size)(one_board(session, board))[0]
    surface.blit(surface_of(picture[: where.boards[0].height]), where.boards[0])
    if controller.pointing is not None and session.human:
        pygame.draw.rect(surface, ACCENT, where.rect_of(controller, controller.cursor), 3, 4)
        if controller.taken is not None:
            pygame.draw.rect(surface, CUT, where.rect_of(controller, controller.taken), 3, 4)
    colour = end_colour(session, board)
    if colour:
        pygame.draw.rect(surface, colour, where.boards[0].inflate(8, 8), 3, 4)


def _draw_wall(surface: pygame.Surface, controller: Controller, where: Layout) -> None:
    session = controller.session
    pictures = frames.board_painter(session.env, where.tile_size)(session.now.state)
    for i, (rect, picture) in enumerate(zip(where.boards, pictures, strict=True)):
        surface.blit(surface_of(picture), rect)
        colour = end_colour(session, i)
        if i == controller.selected:
            pygame.draw.rect(surface, ACCENT, rect.inflate(4, 4), 2)
        if colour:
            pygame.draw.rect(surface, colour, rect, 3)
        score = f"{session.now.score[i]:.2f}"
        write(surface, f"{i}", (rect.left, rect.bottom + 2), MUTED, 13)
        write(surface, score, (rect.right, rect.bottom + 2), colour or TEXT, 13, right=True)


def _draw_help(surface: pygame.Surface, controller: Controller) -> None:
    bindings = [b for b in controller.bindings if b.keys]
    shade = pygame.Surface(surface.get_size(), pygame.SRCALPHA)
    shade.fill((*INK, 205))
    surface.blit(shade, (0, 0))
    step = max(12, min(22, (surface.get_height() - 70) // len(bindings)))
    rect = pygame.Rect(0, 0, 430, step * len(bindings) + 66)
    rect.center = surface.get_rect().center
    pygame.draw.rect(surface, CARD, rect, border_radius=10)
    pygame.draw.rect(surface, LINE, rect, 2, 10)
    write(surface, "Keys", (rect.left + 20, rect.top + 16), TEXT, 19)
    for i, binding in enumerate(bindings):
        top = rect.top + 48 + step * i
        names = ", ".join(_sign(key) for key in binding.keys)
        write(surface, names, (rect.left + 20, top), ACCENT, 15)
        write(surface, binding.does, (rect.left + 220, top), TEXT, 15)


def _sign(key: str) -> str:
    """The name of a key, as it is written on it."""
    if len(key) == 1 and key.isupper():
        return f"Shift {key}"
    return _KEY_SIGNS.get(key, key.upper())


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
