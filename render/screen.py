"""Layout and drawing of a whole session, for the window, web pages and screenshots.

The board (the picture of an environment), or the wall (a grid of all boards), is on the left. The
panel with facts is to the right of the board or wall, or below. The history bar is at the bottom.
The module needs no display.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pygame

from jaxenvs.core import drawing
from jaxenvs.core.controls import Place, sign

from . import bar, boards, facts, frames, panel, turning
from .canvas import ACCENT, CARD, CUT, INK, LINE, MUTED, TEXT, Canvas, surface_of
from .controls import Controller
from .panel import end_colour
from .pen import MARGIN
from .session import Session

# Lengths in points: height of the history bar, height of the label below the picture of a board,
# width of the help (the list of keys).
BAR_HEIGHT, LABEL_HEIGHT, HELP_WIDTH = 46, 18, 430
# Distance, in points, between the pictures of the boards, if all boards are shown.
GAP = 8
LARGEST_TILE = 96  # largest side of a grid cell, in points
# Scales of text and distances, in pixels per point; `layout` chooses one of them.
SCALES = (3.0, 2.5, 2.25, 2.0, 1.75, 1.5, 1.25, 1.0, 0.9, 0.8, 0.7)
# Window size, in pixels, for which scale 1 is designed. Scale 2 needs twice the width and height.
DESIGNED = (880, 620)
# `layout` tries scales from large to small. It accepts a smaller scale only if this enlarges the
# boards by a factor of more than GROWTH. Once the boards' shorter side is at least LEAST_BOARD
# times the window's shorter side, `layout` tries no scale below SHRINK times the largest scale.
SHRINK, GROWTH = 0.8, 1.2
LEAST_BOARD = 0.4
MIN_SIZE = (560, 420)  # smallest width and height of a window, in pixels
# Maximum width and height, in pixels, of the pictures of all environments together when the window
# opens.
DEFAULT_BOARD = 600


class Layout(NamedTuple):
    """Rectangles, in pixels, of the boards, the panel and the history bar in a window.

    A board is the picture of one of the session's environments.
    """

    boards: tuple[pygame.Rect, ...]  # rectangles of all boards, or of the board that is shown alone
    panel: pygame.Rect
    bar: pygame.Rect
    tile_size: int
    scale: float  # pixels per point

    @property
    def whole(self) -> pygame.Rect:
        """Bounding box of the rectangles of all boards that are shown."""
        return self.boards[0].unionall(self.boards[1:])

    def board_at(self, position: tuple[int, int]) -> int | None:
        """Return the index of the environment whose picture is at a position, in pixels.

        Returns None if no picture is there.
        """
        return next((i for i, r in enumerate(self.boards) if r.collidepoint(position)), None)

    def place_at(self, controller: Controller, position: tuple[int, int]) -> Place | None:
        """Return the place (row, column) of the picture at a position in the window, in pixels.

        Returns None outside the picture, or if no action is selected by pointing at the picture.
        """
        pointing, board = controller.pointing, self.boards[0]
        if pointing is None or not board.collidepoint(position):
            return None
        x, y = position[0] - board.left, position[1] - board.top
        return y * pointing.rows // board.height, x * pointing.columns // board.width

    def rect_of(self, controller: Controller, place: Place) -> pygame.Rect:
        """Return the rectangle of a place (row, column) of the picture, in pixels of the window.

        Returns the rectangle of the whole picture if no action is selected by pointing at the
        picture.
        """
        pointing, board = controller.pointing, self.boards[0]
        if pointing is None:
            return board
        height, width = board.height // pointing.rows, board.width // pointing.columns
        left, top = board.left + place[1] * width, board.top + place[0] * height
        return pygame.Rect(left, top, width, height)

    def scrubbed(self, x: int) -> float:
        """Convert an x coordinate of the window to a position on the history bar.

        The position is from 0 (left end) to 1 (right end).
        """
        return min(1.0, max(0.0, (x - self.bar.left) / max(1, self.bar.width)))


def opening_size(display: tuple[int, int]) -> tuple[int, int]:
    """Return the size of a new window, in pixels: 75 % of the display's height, within limits."""
    width, height = display
    down = min(max(round(height * 0.75), MIN_SIZE[1], 640), height - 72)
    return min(round(down * 1.45), width), max(1, down)


def natural_size(controller: Controller, tile_size: int | None = None) -> tuple[int, int]:
    """Return the window size, in pixels, that fits boards with tiles of `tile_size` pixels.

    None for `tile_size` selects the largest tile size at which all boards together fit into
    `DEFAULT_BOARD` x `DEFAULT_BOARD` pixels.
    """
    session, shape = controller.session, _shape(controller)
    rows, columns = shape
    across = 1 if controller.zoomed else frames.wall_columns(session.boards)
    down = 1 if controller.zoomed else -(-session.boards // across)
    gap, label = (GAP, LABEL_HEIGHT) if controller.is_wall else (0, 0)
    if tile_size is None:
        tile_size = drawing.fitting_tile_size(
            shape, DEFAULT_BOARD // across, DEFAULT_BOARD // down, largest=64
        )
    width = across * (columns * tile_size + gap) + panel.WIDTH + 2 * MARGIN
    height = down * (rows * tile_size + gap + label) + BAR_HEIGHT + 2 * MARGIN
    beside = round(sum(panel.heights(controller))) + MARGIN + panel.FOOTER + BAR_HEIGHT
    return max(MIN_SIZE[0], width), max(MIN_SIZE[1], beside, height)


def layout(controller: Controller, size: tuple[int, int], ratio: float = 1.0) -> Layout:
    """Return the layout of a window of `size`, with boards as large as possible.

    The panel is to the right of the boards, in one or more columns, or below the boards. Text and
    panel are drawn smaller if the panel would not fit, or if the boards would be tiny.

    ratio: pixels per logical pixel of the display (CSS pixel), such as 2 on a high-resolution
        display. The size of text is proportional to `ratio`.
    """
    largest = min(length / designed for length, designed in zip(size, DESIGNED, strict=True))
    scales = [ratio * scale for scale in SCALES if scale <= max(1.0, largest / ratio)]
    best, least = None, 0.0
    for scale in scales:
        if least >= LEAST_BOARD * min(size) and scale < SHRINK * scales[0]:
            break
        found = _arranged(controller, size, scale)
        if found is not None and min(found.whole.size) > GROWTH * least:
            best, least = found, min(found.whole.size)
    least_scale = ratio * SCALES[-1]
    return best or _placed(controller, size, least_scale, *_beside(size, least_scale, 1))


def _arranged(controller: Controller, size: tuple[int, int], scale: float) -> Layout | None:
    """Return the layout with the largest boards at `scale`; None if no layout fits."""
    blocks = panel.heights(controller)
    places = []
    for columns in range(1, len(blocks) + 1):
        place, beside = _beside(size, scale, columns)
        if _fits(blocks, beside.height / scale - MARGIN - panel.FOOTER, columns):
            places.append((place, beside))
            break
    across = max(1, int(size[0] / scale // panel.WIDTH))
    rooms = [room for room in _rooms(blocks) if _fits(blocks, room, across)]
    places.append(_below(size, scale, rooms[0] + MARGIN + panel.FOOTER))
    found = [
        placed
        for place, beside in places
        if place.contains((placed := _placed(controller, size, scale, place, beside)).whole)
    ]
    return max(found, key=lambda placed: placed.tile_size, default=None)


def _fits(blocks: Sequence[float], room: float, columns: int) -> bool:
    """Return whether all blocks of the panel fit into `columns` columns of height `room`."""
    places = panel.columns(blocks, room)
    return places[-1][0] < columns and max(blocks) <= room + panel.ROUNDING


def _rooms(blocks: Sequence[float]) -> list[float]:
    """Return the possible heights of a column of the panel, in ascending order.

    Each possible height is the sum of the heights of some consecutive blocks.
    """
    sums = {sum(blocks[i:j]) for i in range(len(blocks)) for j in range(i + 1, len(blocks) + 1)}
    return sorted(sums)


def _beside(size: tuple[int, int], scale: float, columns: int) -> tuple[pygame.Rect, pygame.Rect]:
    """Return the rectangles of the boards and of a panel with `columns` columns on their right."""
    (width, height), wide = size, round(columns * panel.WIDTH * scale)
    high = height - round(BAR_HEIGHT * scale)
    return pygame.Rect(0, 0, width - wide, high), pygame.Rect(width - wide, 0, wide, high)


def _below(size: tuple[int, int], scale: float, tall: float) -> tuple[pygame.Rect, pygame.Rect]:
    """Return the rectangles of the boards and of a panel of height `tall` (points) below them."""
    width, height = size
    high = height - round(BAR_HEIGHT * scale)
    # Round up, so that the panel is not a fraction of a pixel too low for its last block.
    low = math.ceil(tall * scale)
    return pygame.Rect(0, 0, width, high - low), pygame.Rect(0, high - low, width, low)


def _placed(
    controller: Controller,
    size: tuple[int, int],
    scale: float,
    place: pygame.Rect,
    beside: pygame.Rect,
) -> Layout:
    """Return the layout with the boards in rectangle `place` and the panel in rectangle `beside`.

    The tiles of the boards are as large as `place` allows. They have at most `LARGEST_TILE` points,
    or, if a point is less than a pixel (`scale` below 1), at most `LARGEST_TILE` pixels.
    """
    (width, height), margin = size, round(MARGIN * scale)
    below = pygame.Rect(
        margin, height - round(19 * scale), width - 2 * margin, max(1, round(8 * scale))
    )
    place = place.inflate(-margin, -margin)
    count = 1 if controller.zoomed else controller.session.boards
    gap, label = (round(n * scale) for n in ((0, 0) if controller.zoomed else (GAP, LABEL_HEIGHT)))
    across = frames.wall_columns(count, place.width / max(1, place.height)) if count > 1 else 1
    down = -(-count // across)
    cell_width = place.width // across - gap
    cell_height = place.height // down - gap - label
    rows, columns = _shape(controller)
    tile = drawing.fitting_tile_size(
        (rows, columns), cell_width, cell_height, round(LARGEST_TILE * max(1.0, scale))
    )
    step_x, step_y = columns * tile + gap, rows * tile + gap + label
    left = place.centerx - (across * step_x - gap) // 2
    top = place.centery - (down * step_y - gap) // 2
    rects = tuple(
        pygame.Rect(
            left + i % across * step_x, top + i // across * step_y, columns * tile, rows * tile
        )
        for i in range(count)
    )
    return Layout(rects, beside, below, tile, scale)


def _shape(controller: Controller) -> tuple[int, int]:
    """Return the number of rows and of columns of tiles in the picture of an environment.

    Rows at the bottom of the picture that show facts, such as an inventory, are not counted if a
    single environment is shown: the panel then shows these facts.
    """
    rows, columns = drawing.board_shape(controller.session.env)
    return rows - (controller.session.env.status_rows if controller.zoomed else 0), columns


def draw(controller: Controller, size: tuple[int, int], ratio: float = 1.0) -> pygame.Surface:
    """Draw the whole window (boards, panel, history bar and help) on a new surface."""
    pygame.font.init()
    surface = pygame.Surface(size)
    surface.fill(INK)
    where = layout(controller, size, ratio)
    canvas = Canvas(surface, where.scale)
    if controller.zoomed:
        _draw_board(surface, controller, where)
    else:
        _draw_wall(canvas, controller, where)
    panel.draw(surface, controller, where.panel, where.scale)
    bar.draw(canvas, controller, pygame.Rect(*(round(canvas.points(v)) for v in where.bar)))
    if controller.help_shown:
        draw_help(surface, controller.bindings, where.scale)
    return surface


def pixels(surface: pygame.Surface) -> np.ndarray:
    """Return the pixels of a surface as an RGB array, uint8 (height, width, 3)."""
    width, height = surface.get_size()
    flat = np.frombuffer(pygame.image.tobytes(surface, "RGB"), np.uint8)
    return flat.reshape(height, width, 3)


def _draw_board(surface: pygame.Surface, controller: Controller, where: Layout) -> None:
    session, board = controller.session, controller.selected
    picture = turning.between(session, board, controller.turned, where.tile_size)
    if picture is None:
        picture = boards.pictures(session, where.tile_size, board)[0]
    surface.blit(surface_of(picture[: where.boards[0].height]), where.boards[0])
    if controller.pointing is not None and session.human:
        pygame.draw.rect(surface, ACCENT, where.rect_of(controller, controller.cursor), 3, 4)
        if controller.taken is not None:
            pygame.draw.rect(surface, CUT, where.rect_of(controller, controller.taken), 3, 4)
    colour = end_colour(session, board)
    if colour:
        pygame.draw.rect(surface, colour, where.boards[0].inflate(8, 8), 3, 4)


def _draw_wall(canvas: Canvas, controller: Controller, where: Layout) -> None:
    session, surface = controller.session, canvas.surface
    pictures = boards.pictures(session, where.tile_size)
    for i, (rect, picture) in enumerate(zip(where.boards, pictures, strict=True)):
        surface.blit(surface_of(picture), rect)
        colour = end_colour(session, i)
        if i == controller.selected:
            pygame.draw.rect(surface, ACCENT, rect.inflate(4, 4), 2)
        if colour:
            pygame.draw.rect(surface, colour, rect, 3)
        score = f"{session.now.score[i]:.2f}"
        left, right, low = (canvas.points(v) for v in (rect.left, rect.right, rect.bottom))
        end = canvas.write(f"{i}", (left, low + 2), MUTED, 13)
        _draw_carried(canvas, session, i, (end + 8, low + 1))
        canvas.write(score, (right, low + 2), colour or TEXT, 13, right=True)


def _draw_carried(canvas: Canvas, session: Session, i: int, at: tuple[float, float]) -> None:
    """Draw the icons of facts, such as the carried object, below the picture of environment `i`.

    Draws nothing if the picture has its own rows for facts.
    """
    env = session.env
    if env.status_rows:
        return
    names = [fact.icon for fact in env.facts(session.state(i)) if fact.kind == "icon"]
    icons = [facts.icon(env, name, canvas.pixels(LABEL_HEIGHT - 3)) for name in names]
    for place, icon in enumerate(filter(None, icons)):
        canvas.blit(icon, (at[0] + place * LABEL_HEIGHT, at[1]))


def draw_help(
    surface: pygame.Surface, listed: Sequence[Any], scale: float, columns: int = 1
) -> None:
    """Draw the list of keys over the window, at a smaller scale if the list would not fit.

    listed: the commands, each with its `keys` and its description `does`.
    """
    bindings = [b for b in listed if b.keys]
    rows = -(-len(bindings) // columns)
    shade = pygame.Surface(surface.get_size(), pygame.SRCALPHA)
    shade.fill((*INK, 205))
    surface.blit(shade, (0, 0))
    wide, high, step = HELP_WIDTH * columns, 22 * rows + 66, 22
    width, height = surface.get_size()
    canvas = Canvas(surface, min(scale, width / (wide + 20), height / (high + 20)))
    left, top = (canvas.points(width) - wide) / 2, (canvas.points(height) - high) / 2
    canvas.rect(CARD, (left, top, wide, high), radius=10)
    canvas.rect(LINE, (left, top, wide, high), 2, 10)
    canvas.write("Keys", (left + 20, top + 16), TEXT, 19)
    for i, binding in enumerate(bindings):
        down, right = top + 48 + step * (i % rows), left + HELP_WIDTH * (i // rows)
        names = ", ".join(sign(key) for key in binding.keys)
        canvas.write(names, (right + 20, down), ACCENT, 15)
        canvas.write(binding.does, (right + 220, down), TEXT, 15)
