"""Levels as text, in the characters of the game's legend."""

import itertools
from collections.abc import Iterator, Mapping

import numpy as np
from jaxtyping import UInt32

from ..core.texts import board_text
from .collection import Collection
from .game import Game
from .machine.packing import board
from .machine.sizes import WORD, bits
from .tables import Level


def cells_of(
    objects: UInt32[np.ndarray, "objects side words"], width: int, height: int
) -> list[list[int]]:
    """Return the object mask of each cell, line by line."""
    words = np.asarray(objects)[:, :height, :, None]
    bits_of = words >> np.arange(WORD, dtype=np.uint32) & np.uint32(1)
    cells = bits_of.reshape(len(bits_of), height, -1)[:, :, :width]
    packed = np.packbits(cells.transpose(1, 2, 0).astype(bool), axis=2, bitorder="little")
    return [[int.from_bytes(mask.tobytes(), "little") for mask in line] for line in packed]


def names_of(game: Game, mask: int) -> str:
    """Return the names of a cell's objects, joined by `and`.

    The default background is named only if it is the cell's only object.
    """
    return " and ".join(game.objects[i] for i in bits(shown(game, mask)))


def shown(game: Game, mask: int) -> int:
    """Return a cell's object mask without the default background, unless it is the only object."""
    return mask & ~(1 << game.background) or mask


def legend(game: Game, cells: list[list[int]]) -> dict[int, str]:
    """Return a character for each object mask in `cells`: a glyph of the game, or a new letter."""
    known = {}
    for glyph, mask in game.glyphs.items():
        known.setdefault(shown(game, mask), glyph)
    letters = (chr(code) for code in itertools.count(ord("a")))
    free = (c for c in letters if c.isalnum() and c == c.lower() and c not in game.glyphs)
    found: dict[int, str] = {}
    for mask in sorted({mask for line in cells for mask in line}):
        glyph = known.get(shown(game, mask))
        found[mask] = next(free) if glyph is None else glyph
    return found


def written(game: Game, cells: list[list[int]]) -> str:
    """Return a level as text, one character (glyph) for each cell.

    Lines `glyph = names` follow the level. They define the glyphs that the game itself does not
    define.
    """
    found = legend(game, cells)
    lines = ["".join(found[mask] for mask in line) for line in cells]
    new = {mask: glyph for mask, glyph in found.items() if glyph not in game.glyphs}
    return "\n".join(
        [*lines, *(f"{glyph} = {names_of(game, mask)}" for mask, glyph in new.items())]
    )


def explained(game: Game, cells: list[list[int]]) -> str:
    """Return a line with the meaning of each character that `written` uses for `cells`."""
    found = legend(game, cells)
    return ", ".join(f"{glyph} {names_of(game, mask)}" for mask, glyph in found.items())


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


def told(game: Game, cells: list[list[int]], detail: str) -> str:
    """Return the title, the characters' meaning (unless `detail` is "short") and the board."""
    title, board = game.prelude.get("title") or game.name, written(game, cells)
    if detail == "short":
        return board_text([f"{title}."], "", board, detail)
    return f"{title}. {explained(game, cells)}:\n{board}"


def parsed(game: Game, text: str) -> list[list[int]]:
    """Parse text in the format of `written`; return the object mask of each cell, line by line.

    A line that is shorter than the first line is padded with its own last glyph, as in a game's
    source. Raises `ValueError` for a mistake, with its line and column.
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
    width, missing = len(lines[0][1]), 1 << game.background
    background = game.layer_of[game.background]
    result = []
    for number, line in lines:
        row = [_cell(glyphs, line, x, number, game) for x in range(width)]
        has = [any(game.layer_of[i] == background for i in bits(mask)) for mask in row]
        result.append([m if ok else m | missing for m, ok in zip(row, has, strict=True)])
    return result


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
    result = 0
    for name in names.split(" and "):
        if name.strip() not in game.objects:
            raise ValueError(
                f"{game.name}: line {number}: {name.strip()!r} is not an object; the objects are "
                f"{', '.join(game.objects)}"
            )
        result |= 1 << game.objects.index(name.strip())
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
    by_column = tuple(line[x] for x in range(width) for line in lines)
    return board(Level(0, width, height, by_column), collection.size), width, height
