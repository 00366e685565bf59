"""Convert PuzzleScript levels to text and back: one character of the game's legend per cell."""

import itertools
from collections.abc import Iterator, Mapping

import numpy as np
from jaxtyping import UInt32

from ..core.texts import board_text
from .collection import Collection
from .game import Game
from .machine.packing import board
from .machine.sizes import WORD, bits
from .tables import Level, fill_of


def cells_of(
    objects: UInt32[np.ndarray, "objects side words"], width: int, height: int
) -> list[list[int]]:
    """Return the object mask of each cell, line by line, from the bit plane of each object.

    Bit o of a mask is 1 if the cell has object o.
    """
    words = np.asarray(objects)[:, :height, :, None]
    bits_of = words >> np.arange(WORD, dtype=np.uint32) & np.uint32(1)
    cells = bits_of.reshape(len(bits_of), height, -1)[:, :, :width]
    packed = np.packbits(cells.transpose(1, 2, 0).astype(bool), axis=2, bitorder="little")
    return [[int.from_bytes(mask.tobytes(), "little") for mask in line] for line in packed]


def _names(game: Game, mask: int) -> str:
    """Return the names of the objects in a mask, joined by `and`."""
    return " and ".join(game.objects[i] for i in bits(mask))


def _shown(mask: int, omitted: int) -> int:
    """Return the object mask of a cell without the objects of the mask `omitted`.

    If the cell has no other objects, return its full mask.
    """
    return mask & ~omitted or mask


def _with_background(game: Game, cells: list[list[int]]) -> list[list[int]]:
    """Return the cells, with the default background where a rule has removed the background.

    A text cannot express a cell without a background, because readers fill such cells.
    """
    layer = _background_layer(game)
    return [[m if m & layer else m | 1 << game.background for m in line] for line in cells]


def _background_layer(game: Game) -> int:
    """Return the mask of all objects in the background's collision layer."""
    layer = game.layer_of[game.background]
    return sum(1 << i for i, each in enumerate(game.layer_of) if each == layer)


def _omitted(game: Game, cells: list[list[int]]) -> int:
    """Return the mask of the background that `written` leaves out in cells with other objects.

    The mask is 0 (nothing is left out) if `parsed` would fill these cells with another background.
    """
    layer, by_column = _background_layer(game), _by_column(cells)
    background = next((m for m in by_column if m and not m & ~layer), 1 << game.background)
    seen = [_shown(mask, background) for mask in by_column]
    fill = fill_of(seen, layer, 1 << game.background)
    return background if fill == background else 0


def _by_column(cells: list[list[int]]) -> list[int]:
    """Return the cells of a level in the engine's order, column by column."""
    return [line[x] for x in range(len(cells[0])) for line in cells]


def _legend(game: Game, cells: list[list[int]], omitted: int) -> dict[int, str]:
    """Return a character for each object mask in `cells`: a glyph of the game, or a new letter."""
    known = {}
    for glyph, mask in game.glyphs.items():
        known.setdefault(_shown(mask, omitted), glyph)
    letters = (chr(code) for code in itertools.count(ord("a")))
    free = (c for c in letters if c.isalnum() and c == c.lower() and c not in game.glyphs)
    found: dict[int, str] = {}
    for mask in sorted({mask for line in cells for mask in line}):
        glyph = known.get(_shown(mask, omitted))
        found[mask] = next(free) if glyph is None else glyph
    return found


def written(game: Game, cells: list[list[int]]) -> str:
    """Return a level as text, one character (glyph) for each cell.

    Lines `glyph = names` follow the level. They define the glyphs that the game itself does not
    define. Cells whose background was removed are written with the default background.
    """
    cells = _with_background(game, cells)
    omitted = _omitted(game, cells)
    found = _legend(game, cells, omitted)
    lines = ["".join(found[mask] for mask in line) for line in cells]
    new = {mask: glyph for mask, glyph in found.items() if glyph not in game.glyphs}
    named = (f"{glyph} = {_names(game, _shown(mask, omitted))}" for mask, glyph in new.items())
    return "\n".join([*lines, *named])


def explained(game: Game, cells: list[list[int]]) -> str:
    """Return a line with the meaning of each character that `written` uses for `cells`."""
    cells = _with_background(game, cells)
    omitted = _omitted(game, cells)
    found = _legend(game, cells, omitted)
    return ", ".join(
        f"{glyph} {_names(game, _shown(mask, omitted))}" for mask, glyph in found.items()
    )


def boards_of(
    collection: Collection, inputs: Mapping[str, np.ndarray]
) -> Iterator[tuple[Game, list[list[int]]]]:
    """Yield, for each state of a batch, its game and the object masks of its cells.

    `inputs` has a batch of the arrays that `PuzzleScript.text_inputs` returns.
    """
    sizes = zip(inputs["width"].tolist(), inputs["height"].tolist(), strict=True)
    games = inputs["game"].tolist()
    for objects, game, size in zip(inputs["objects"], games, sizes, strict=True):
        yield collection.games[game], cells_of(objects, *size)


def description(game: Game, cells: list[list[int]], detail: str) -> str:
    """Return a board as text, after the game's title and the meaning of each character.

    With `detail="short"`, the meanings are left out.
    """
    title, board = game.prelude.get("title") or game.name, written(game, cells)
    if detail == "short":
        return board_text([f"{title}."], "", board, detail)
    return f"{title}. {explained(game, cells)}:\n{board}"


def parsed(game: Game, text: str) -> list[list[int]]:
    """Parse text in the format of `written`; return the object mask of each cell, line by line.

    As in a game's source, a line that is shorter than the first line is padded with its own last
    glyph, and the first background object of the level fills the cells without one. Raises
    `ValueError` for a mistake, with its line and column.
    """
    glyphs, lines = dict(game.glyphs), []
    for number, line in enumerate(text.strip("\n").splitlines(), 1):
        glyph, equals, names = line.lower().partition(" = ")
        if equals and len(glyph.strip()) == 1:
            glyphs[glyph.strip()] = _mask(game, names, number)
        elif line.strip():
            lines.append((number, line.strip().lower()))
    if not lines:
        raise ValueError(f"{game.name}: the level is empty")
    width = len(lines[0][1])
    rows = [[_cell(glyphs, line, x, number, game) for x in range(width)] for number, line in lines]
    for number, line in lines:  # like the engine, also check the glyphs beyond the level's width
        for x in range(width, len(line)):
            if not line[x].isspace():
                _cell(glyphs, line, x, number, game)
    layer = _background_layer(game)
    fill = fill_of(_by_column(rows), layer, 1 << game.background)
    return [[mask if mask & layer else mask | fill for mask in row] for row in rows]


def _cell(glyphs: Mapping[str, int], line: str, x: int, number: int, game: Game) -> int:
    glyph = line[x] if x < len(line) else line[-1]
    found = glyphs.get(glyph)
    if found is None:
        known = " ".join(sorted(glyphs))
        raise ValueError(
            f"{game.name}: line {number}, column {x + 1}: {glyph!r} is not a glyph of the game; "
            f"known are {known}"
        )
    return found


def _mask(game: Game, names: str, number: int) -> int:
    """Return the mask of the objects in `a and b`; raise `ValueError` if an object is unknown."""
    # An object that is listed twice has two numbers, and the last one counts.
    numbers, result = {name: i for i, name in enumerate(game.objects)}, 0
    for name in names.split(" and "):
        if name.strip() not in numbers:
            raise ValueError(
                f"{game.name}: line {number}: {name.strip()!r} is not an object; the objects are "
                f"{', '.join(game.objects)}"
            )
        result |= 1 << numbers[name.strip()]
    return result


def to_planes(
    collection: Collection, lines: list[list[int]]
) -> tuple[UInt32[np.ndarray, "objects side words"], int, int]:
    """Convert a level's object masks, line by line, to (bit planes, width, height).

    Raises `ValueError` if the level has more rows or columns than the environment's boards.
    """
    width, height, side = len(lines[0]), len(lines), collection.size.side
    if max(width, height) > side:
        raise ValueError(
            f"the level has {width} x {height} cells; this environment's levels have at most "
            f"{side} x {side}"
        )
    level = Level(0, width, height, tuple(_by_column(lines)))
    return board(level, collection.size), width, height
