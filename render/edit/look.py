"""Layout and drawing of the level editor: the picture, the palette and the panel.

The panel is to the right of the picture, or below it in a narrow window. No display is needed.
"""

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pygame

from jaxenvs.core import drawing
from jaxenvs.core.controls import sign as key_sign
from jaxenvs.levels import palette
from jaxenvs.levels.palette import Picture

from .. import screen
from ..canvas import (
    ACCENT,
    BAD,
    CARD,
    CUT,
    DIM,
    GOOD,
    INK,
    LINE,
    MUTED,
    RGB,
    TEXT,
    Canvas,
    surface_of,
)  # fmt: skip
from ..pen import MARGIN, Pen
from .editor import AGENT, Editor

if TYPE_CHECKING:
    from .prompts import Prompt

# A point is the unit of lengths that scale with the window; `Layout.scale` is its size in pixels.
WIDTH = 330  # width of the panel, in points
SWATCH, GAP = 34, 4  # side of a tool's swatch and gap between two swatches, in points
# Largest side, in pixels, at which a sprite is rendered; for larger cells, the sprite is scaled up.
# Rendering larger sprites would take seconds.
SPRITE = 64
BUTTON = 26  # height of a button, in points
SCALES = (3.0, 2.5, 2.0, 1.75, 1.5, 1.25, 1.1, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
DESIGNED = (900, 620)  # window size, in pixels, for which scale 1 is designed
PROMPT = (440, 26)  # width of a question's box and height of its lines, in points
# Label of each button of the panel -> key whose command the button runs.
BUTTONS = {
    "Save": "ctrl s", "Undo": "u", "Redo": "y", "Play": "p", "Mission": "m", "Plan": "v",
    "<": "page up", ">": "page down", "Keys": "h",
}  # fmt: skip
# Words at the start of the solver's answer -> colour.
ANSWERS = {"solvable": GOOD, "unsolvable": BAD, "at least": CUT}


Box = tuple[float, float, float, float]  # left, top, width and height in points


class Layout(NamedTuple):
    """Rectangles of the level's picture, the panel and the panel's buttons, in pixels."""

    board: pygame.Rect  # rectangle of the level's picture
    tile: int  # side of a cell, in pixels
    panel: pygame.Rect
    scale: float  # pixels per point
    # Rectangle of each tool. If levels have an agent, the last tool is the one that places it.
    tools: tuple[pygame.Rect, ...]
    variants: tuple[pygame.Rect, ...]
    buttons: dict[str, pygame.Rect]  # key whose command the button runs -> rectangle of the button
    choices: tuple[pygame.Rect, ...]  # rectangles of the open question's choices

    def cell_at(self, at: tuple[int, int]) -> tuple[int, int]:
        """Return (row, column) of the cell at the pixel `at`.

        Both numbers may be out of range if `at` is outside the level's picture.
        """
        left, top = at[0] - self.board.left, at[1] - self.board.top
        return top // self.tile, left // self.tile

    def rect_of(self, cell: tuple[int, int]) -> pygame.Rect:
        """Return the rectangle of a cell (row, column), in pixels."""
        left, top = self.board.left + cell[1] * self.tile, self.board.top + cell[0] * self.tile
        return pygame.Rect(left, top, self.tile, self.tile)


def layout(editor: Editor, size: tuple[int, int], ratio: float = 1.0) -> Layout:
    """Return the layout of a window of `size`, at the largest scale at which the panel fits.

    ratio: pixels per unit of the desktop's coordinates, such as 2 on a high-resolution display.
    """
    pygame.font.init()
    most = min(length / designed for length, designed in zip(size, DESIGNED, strict=True))
    is_wide = size[0] >= 1.15 * size[1]
    for scale in (ratio * scale for scale in SCALES if scale * ratio <= max(ratio, most)):
        found = _placed(editor, size, scale, is_wide)
        if found is not None:
            return found
    found = _placed(editor, size, SCALES[-1] * ratio, is_wide, must=True)
    assert found is not None
    return found


def _placed(
    editor: Editor, size: tuple[int, int], scale: float, is_wide: bool, must: bool = False
) -> Layout | None:
    """Return the layout at `scale`, or None if the panel takes too much room at that scale.

    must: whether to return a layout even if the panel takes too much room.
    """
    canvas = Canvas(pygame.Surface((1, 1)), scale)
    wide = WIDTH * scale if is_wide else size[0]
    parts = _Parts(editor, canvas, canvas.points(wide))
    high = canvas.pixels(parts.height)
    if not must and (high > size[1] if is_wide else high > 0.62 * size[1]):
        return None
    if not must and is_wide and wide > 0.5 * size[0]:
        return None
    margin = canvas.pixels(MARGIN)
    if is_wide:
        panel = pygame.Rect(size[0] - round(wide), 0, round(wide), size[1])
        room = pygame.Rect(0, 0, panel.left, size[1]).inflate(-2 * margin, -2 * margin)
    else:
        panel = pygame.Rect(0, size[1] - high, size[0], high)
        room = pygame.Rect(0, 0, size[0], panel.top).inflate(-margin, -margin)
    rows, columns = len(editor.model.picture.cells), len(editor.model.picture.cells[0])
    tile = drawing.fitting_tile_size(
        (rows, columns), max(1, room.width), max(1, room.height), round(96 * max(1.0, scale))
    )
    board = pygame.Rect(0, 0, columns * tile, rows * tile)
    board.center = room.center

    def moved(rects: Any) -> list[pygame.Rect]:
        return [
            pygame.Rect(*(canvas.pixels(v) for v in rect)).move(panel.topleft) for rect in rects
        ]

    return Layout(
        board, tile, panel, scale, tuple(moved(parts.tools)), tuple(moved(parts.variants)),
        dict(zip(parts.buttons, moved(parts.buttons.values()), strict=True)),
        _choices(editor.prompt, size, scale),
    )  # fmt: skip


class _Parts:
    """Rectangles of the panel's buttons and tools, in points from the panel's top left corner."""

    def __init__(self, editor: Editor, canvas: Canvas, width: float) -> None:
        left, right, top = MARGIN, width - MARGIN, 86.0
        self.buttons: dict[str, Box] = {}
        keys = {key for command in (*editor.commands, *_always(editor)) for key in command.keys}
        for name, key in BUTTONS.items():
            if key not in keys:
                continue
            wide = canvas.width(name, 14) + 18
            if left + wide > right:
                left, top = MARGIN, top + BUTTON + GAP
            self.buttons[key] = (left, top, wide, BUTTON)
            left += wide + GAP
        top += BUTTON + 10
        count = len(editor.tools) + bool(editor.model.palette.agents)
        self.tools, top = _grid(count, top, width)
        tool = editor.tools[editor.tool] if 0 <= editor.tool < len(editor.tools) else None
        most = max(len(tool.signs) for tool in editor.tools)
        has_variants = tool is not None and len(tool.signs) > 1
        self.variants, below = _grid(most if most > 1 else 0, top, width)
        self.variants = self.variants if has_variants else []
        self.name = below  # y coordinate of the tool's name
        self.words = below + 24  # y coordinate of the paragraphs
        self.height = self.words + 150


def _always(editor: Editor) -> tuple[Any, ...]:
    """Return the commands that an open question disables; () if no question is open.

    The panel shows the buttons of these commands even while the question is open.
    """
    if editor.prompt is None:
        return ()
    prompt, editor.prompt = editor.prompt, None
    found, editor.prompt = editor.commands, prompt
    return found


def _grid(count: int, top: float, width: float) -> tuple[list[Box], float]:
    """Return the rectangles of `count` swatches in rows, and the y coordinate below all rows."""
    across = max(1, int((width - 2 * MARGIN + GAP) // (SWATCH + GAP)))
    step = SWATCH + GAP
    rects: list[Box] = [
        (MARGIN + i % across * step, top + i // across * step, SWATCH, SWATCH) for i in range(count)
    ]
    return rects, top + -(-count // across) * step + 4


def draw(editor: Editor, size: tuple[int, int], ratio: float = 1.0) -> pygame.Surface:
    """Draw the editor on a new surface."""
    pygame.font.init()
    surface = pygame.Surface(size)
    surface.fill(INK)
    where = layout(editor, size, ratio)
    _draw_board(surface, editor, where)
    canvas = Canvas(surface, where.scale)
    pygame.draw.rect(surface, CARD, where.panel)
    _draw_palette(canvas, editor, where)
    _draw_words(canvas, editor, where)
    if editor.prompt is not None:
        _draw_prompt(canvas, editor.prompt, where)
    if editor.help_shown:
        screen.draw_help(surface, editor.commands, where.scale, columns=2)
    return surface


def picture_of(editor: Editor, tile: int) -> pygame.Surface:
    """Return the picture of the displayed level, with cells of `tile` pixels."""
    model = editor.model
    entry = model.checked().entry
    level = None if entry is None else entry.level
    return _composed(model.env, palette.sprites(model.env, model.picture, level), tile)


def _composed(env: Any, indices: np.ndarray, tile: int) -> pygame.Surface:
    """Return the picture whose cells are the sprites of `env.atlas` with these indices."""
    side = min(tile, SPRITE)
    sheet = _atlas(env, side)
    rows, columns = indices.shape
    found = sheet[np.minimum(indices, len(sheet) - 1)].transpose(0, 2, 1, 3, 4)
    picture = surface_of(found.reshape(rows * side, columns * side, 3))
    if side == tile:
        return picture
    return pygame.transform.smoothscale(picture, (columns * tile, rows * tile))


@functools.lru_cache(maxsize=16)
def _atlas(env: Any, tile: int) -> np.ndarray:
    return np.asarray(env.atlas(tile))


def _draw_board(surface: pygame.Surface, editor: Editor, where: Layout) -> None:
    surface.blit(picture_of(editor, where.tile), where.board)
    if editor.model.checked().fault:
        pygame.draw.rect(surface, BAD, where.board.inflate(6, 6), 2, 3)
    path = [where.rect_of(cell).center for cell in editor.path]
    if len(path) > 1:
        pygame.draw.lines(surface, ACCENT, False, path, max(2, where.tile // 10))
        pygame.draw.circle(surface, ACCENT, path[-1], max(4, where.tile // 6))
    for cell, colour in ((editor.pointed, MUTED), (editor.cell, ACCENT)):
        if cell is not None:
            pygame.draw.rect(surface, colour, where.rect_of(cell), max(1, where.tile // 16), 2)


def _draw_palette(canvas: Canvas, editor: Editor, where: Layout) -> None:
    """Draw the buttons, the tools and their variants."""
    surface = canvas.surface
    names = {key: name for name, key in BUTTONS.items()}
    for key, rect in where.buttons.items():
        is_on = key == "v" and editor.plan_shown
        pygame.draw.rect(surface, ACCENT if is_on else LINE, rect, 0, rect.height // 4)
        at = (canvas.points(rect.left) + 9, canvas.points(rect.top) + 6)
        canvas.write(names[key], at, INK if is_on else TEXT, 14)
    signs = [tool.signs[min(editor.variant, len(tool.signs) - 1)] for tool in editor.tools]
    keys = [tool.key for tool in editor.tools]
    agent = len(signs) if len(where.tools) > len(signs) else None
    selected = agent if editor.tool == AGENT else editor.tool
    for number, rect in enumerate(where.tools):
        found = _sample(editor, None if number == agent else signs[number])
        _draw_swatch(canvas, editor, rect, found, number == selected)
        key = "x" if number == agent else keys[number]
        at = (canvas.points(rect.right) - 3, canvas.points(rect.top) + 1)
        canvas.write(key.upper(), at, TEXT, 11, right=True)
    if where.variants:
        tool = editor.tools[editor.tool]
        for number, (rect, sign) in enumerate(zip(where.variants, tool.signs, strict=False)):
            is_chosen = number == min(editor.variant, len(tool.signs) - 1)
            _draw_swatch(canvas, editor, rect, _sample(editor, sign), is_chosen)


def _sample(editor: Editor, sign: str | None) -> Picture:
    """Return a level of one cell, whose text is `sign`; for None, the cell contains the agent."""
    if sign is None:
        empty = editor.model.palette.empty
        direction = editor.model.picture.agent
        return Picture((), ((empty,),), (0, 0, direction[2] if direction else 0))
    return Picture((), ((sign,),), None)


def _draw_swatch(
    canvas: Canvas, editor: Editor, rect: pygame.Rect, found: Picture, is_selected: bool
) -> None:
    side = max(4, rect.width // 4 * 4)
    env = editor.model.env
    tile = _composed(env, palette.sprites(env, found, None), side)
    canvas.surface.blit(tile, tile.get_rect(center=rect.center))
    colour = ACCENT if is_selected else DIM
    width = max(1, round((3 if is_selected else 1) * canvas.scale))
    pygame.draw.rect(canvas.surface, colour, rect.inflate(4, 4), width, 4)


def _draw_words(canvas: Canvas, editor: Editor, where: Layout) -> None:
    """Draw the texts of the panel, such as the title, the mission and the error of the level."""
    model, panel = editor.model, where.panel
    left, top = canvas.points(panel.left), canvas.points(panel.top)
    width = canvas.points(panel.width)
    pen = Pen(canvas, width, left, top + 12)
    count = len(model.document.pages)
    place = f"level {model.document.at + 1} of {count}"
    pen.canvas.write(editor.title, (pen.left, pen.top), TEXT, 18)
    pen.canvas.write(place, (pen.right, pen.top + 2), MUTED, 14, right=True)
    pen.top += 22
    pen.canvas.write(editor.id, (pen.left, pen.top), MUTED, 14)
    pen.top += 20
    verdict = editor.verdict
    if verdict:
        _chip(pen, verdict)
    parts = _Parts(editor, canvas, width)
    pen.top = top + parts.name
    pen.canvas.write(_tool_name(editor), (pen.left, pen.top), TEXT, 15)
    pen.top = top + parts.words
    if model.mission:
        pen.paragraph(model.mission, TEXT, 15)
    checked = model.checked()
    if checked.fault or checked.warning:
        pen.paragraph(checked.fault or checked.warning, BAD if checked.fault else CUT, 14)
    if editor.plan_shown and editor.plan:
        pen.paragraph(_plan_words(editor), ACCENT, 14)
    if editor.notice:
        pen.paragraph(editor.notice, ACCENT, 14)


def _chip(pen: Pen, words: str) -> None:
    colour = next((c for start, c in ANSWERS.items() if words.startswith(start)), MUTED)
    if " to " in words:
        colour = CUT
    pen.chip(words, colour)


def _tool_name(editor: Editor) -> str:
    """Return the name of the selected tool, with the position and contents of a cell.

    The cell is the one below the mouse, or else the cell of the cursor. A mouse position outside
    the level gives only the tool's name.
    """
    signs, picture = editor.model.palette, editor.model.picture
    name = signs.agent if editor.tool == AGENT else signs.name_of(editor.sign)
    cell = editor.pointed or editor.cell
    if not (0 <= cell[0] < len(picture.cells) and 0 <= cell[1] < len(picture.cells[0])):
        return name
    below = signs.name_of(picture.cells[cell[0]][cell[1]])
    if picture.agent is not None and picture.agent[:2] == cell:
        below = f"{signs.agent} on {below}"
    return f"{name}   ({cell[0]},{cell[1]}: {below})"


def _plan_words(editor: Editor, most: int = 14) -> str:
    """Return the names of the plan's first `most` actions, separated by commas."""
    names = editor.model.env.action_names
    words = [names[action] for action in editor.plan[:most]]
    return ", ".join(words) + (" ..." if len(editor.plan) > most else "")


def _choices(prompt: "Prompt | None", size: tuple[int, int], scale: float) -> tuple[Any, ...]:
    """Return the rectangles of a question's choices, in pixels; () without a question."""
    if prompt is None:
        return ()
    box, line = _prompt_box(prompt, size, scale)
    first = box.top + round((50 if prompt.text is None else 84) * scale)
    return tuple(
        pygame.Rect(box.left + 6, first + i * line, box.width - 12, line)
        for i in range(len(prompt.choices))
    )


def _prompt_box(prompt: "Prompt", size: tuple[int, int], scale: float) -> tuple[pygame.Rect, int]:
    line = round(PROMPT[1] * scale)
    head = round((60 if prompt.text is None else 94) * scale)
    width = min(size[0] - 8, round(PROMPT[0] * scale))
    box = pygame.Rect(0, 0, width, head + line * len(prompt.choices))
    box.center = (size[0] // 2, size[1] // 2)
    return box, line


def _draw_prompt(canvas: Canvas, prompt: "Prompt", where: Layout) -> None:
    """Draw a question over the editor."""
    surface = canvas.surface
    shade = pygame.Surface(surface.get_size(), pygame.SRCALPHA)
    shade.fill((*INK, 190))
    surface.blit(shade, (0, 0))
    box, _ = _prompt_box(prompt, surface.get_size(), where.scale)
    pygame.draw.rect(surface, CARD, box, 0, 10)
    pygame.draw.rect(surface, LINE, box, 2, 10)
    left, top = canvas.points(box.left) + 16, canvas.points(box.top) + 14
    canvas.write(prompt.title, (left, top), TEXT, 18)
    if prompt.text is not None:
        room = canvas.points(box.width) - 32
        canvas.rect(INK, (left - 4, top + 32, room + 8, 28), radius=4)
        shown = prompt.text + "_"
        while len(shown) > 1 and canvas.width(shown, 15) > room:
            shown = shown[1:]
        canvas.write(shown, (left, top + 38), ACCENT, 15)
    marked = getattr(prompt, "marked", None)
    for rect, words in zip(where.choices, prompt.choices, strict=True):
        colour: RGB = ACCENT if words == marked else TEXT
        at = (canvas.points(rect.left) + 10, canvas.points(rect.top) + 5)
        canvas.write(words, at, colour, 15)


def keys_of(editor: Editor) -> list[list[Any]]:
    """Return keys, key labels and description of each command, for the buttons of a web page."""
    return [
        [[[key, key_sign(key)] for key in command.keys], command.does]
        for command in editor.commands
    ]
