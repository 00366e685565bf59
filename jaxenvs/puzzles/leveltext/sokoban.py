"""Levels of Sokoban as text: the format XSB, and the files of Boxoban.

A row may be run-length encoded (`3#2-`) and shorter than the grid; `-` and `_` are floor. Cells
outside of the outer walls become walls. A line `; NAME` or `Title: NAME` before the map is the
level's name.
"""

import re
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...core.random import Key, below, choose, words
from ...levels import cells
from ...levels.blocks import GRID, NOTES, SEPARATOR, Block, Header
from ...levels.errors import LevelError
from ...levels.palette import Picture
from ..puzzle import PuzzleLevel
from ..sokoban import Sokoban
from ..sokoban_levels import CHARACTERS, WALL, push_distances
from . import board, painting

FORMS = (None,)
palette, packed, sprites = painting.palette, painting.packed, painting.sprites
place = painting.place
KNOWN = (
    "known are # wall, space - or _ floor, @ player, $ box, . target, * box on target and + player "
    "on target"
)
_RUN = re.compile(r"(\d+)(\D)")
_NOTE = re.compile(r";?\s*([A-Za-z]+):\s*(.*)")


def names(env: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (names of headers that may occur once, names that may repeat): here there are none."""
    return (), ()


def split(text: str) -> Iterator[tuple[str, int]]:
    """Yield (text, line number of its first line) for each level of a file.

    A level ends at an empty line, at a line `---`, or at a comment after its map.
    """
    lines, first, mapped = [], 1, False
    for number, line in enumerate([*text.split("\n"), SEPARATOR], 1):
        ends = not line.strip() or line.rstrip() == SEPARATOR
        if mapped and (ends or _is_note(line)):
            yield "\n".join(lines), first
            lines, mapped = [], False
        if ends:
            continue
        if not lines:
            first = number
        lines.append(line)
        mapped = mapped or not (_is_note(line) or line.rstrip() == GRID)


def _is_note(line: str) -> bool:
    return line.startswith(";") or _NOTE.fullmatch(line.strip()) is not None


def block(text: str, first: int, form: str | None) -> Block | None:
    """Parse the text of a level to a `Block` of headers and a map.

    Return None if a line is `grid:`, which separates headers from a picture. The caller then parses
    the text with `levels.blocks.parse`. first: line number of the text's first line in its file.
    """
    lines = text.split("\n")
    if any(line.rstrip() == GRID for line in lines):
        return None
    headers = []
    while lines and (not lines[0] or _is_note(lines[0])):
        if lines[0]:
            headers.append(_note(lines[0], first))
        lines, first = lines[1:], first + 1
    while lines and (not lines[-1] or _is_note(lines[-1])):
        lines = lines[:-1]
    if not lines:
        raise LevelError("there is no map; draw one row per line", first)
    return board.board(lines, first, tuple(headers))


def _note(line: str, number: int) -> Header:
    found = _NOTE.fullmatch(line.strip())
    if found and found[1].lower() in (*NOTES, "id", "limit"):
        return Header(found[1].lower(), found[2], number)
    return Header("title", line.removeprefix(";").strip(), number)


def unpacked(env: Sokoban, block: Block) -> Picture:
    """Convert a `Block` to a `Picture` for the editor: expand run lengths, and add walls.

    If the map is smaller than the grid, the grid's other cells become walls. Raises `LevelError`
    for an unknown character and for a second player.
    """
    rows = [_expanded(row, number) for number, row in enumerate(block.picture, block.line)]
    wide, high = env.size if max(map(len, rows)) <= env.size else 0, env.size - len(rows)
    rows = [row.ljust(wide, "#") for row in rows] + ["#" * wide] * high
    return painting.unpacked(env, Block(block.headers, tuple(rows), block.line))


def read(env: Sokoban, block: Block, *, strict: bool) -> PuzzleLevel:
    """Parse the map of a `Block` as a level; raise `LevelError` if Sokoban cannot play it."""
    rows = [_expanded(row, number) for number, row in enumerate(block.picture, block.line)]
    width = max(map(len, rows))
    if max(width, len(rows)) > env.size:
        raise LevelError(
            f"the map has {len(rows)} rows and {width} columns, the grid of this environment has "
            f"{env.size}; make it with size={max(width, len(rows))}",
            block.line,
        )
    shown = np.full((env.size + 2, env.size + 2), " ")
    for number, row in enumerate(rows, 1):
        shown[number, 1 : 1 + len(row)] = list(row)
    inner = _walled(shown, block)[1:-1, 1:-1]
    try:
        return env.read_level("\n".join("".join(row) for row in inner))
    except ValueError as error:
        raise LevelError(str(error).partition(": ")[2] or str(error), block.line) from None


def _expanded(row: str, number: int) -> str:
    """Return a row with its run lengths expanded: `3#` becomes `###`.

    Raises `LevelError` for an unknown character, and for a run length of more than three digits.
    """
    long = next((run for run in _RUN.finditer(row) if len(run[1]) > 3), None)
    if long is not None:
        raise LevelError(f"the run {long[0]!r} is too long", number, long.start() + 1)
    plain = _RUN.sub(lambda run: run[2] * int(run[1]), row).replace("-", " ").replace("_", " ")
    cells.check_characters(plain, number, CHARACTERS, KNOWN)
    return plain.rstrip()


def _walled(shown: np.ndarray, block: Block) -> np.ndarray:
    """Return the map `shown` with walls in all cells outside of its outer walls.

    Raises `LevelError` if the outer walls have a gap.
    """
    edge = np.ones(shown.shape, bool)
    edge[1:-1, 1:-1] = False
    outside = cells.flooded(edge, shown != "#")
    open_cells = np.argwhere(outside & (shown != " "))
    if len(open_cells):
        row, column = open_cells[0].tolist()
        raise LevelError(
            "the walls around this cell have a gap; draw # all around the map",
            block.line + row - 1,
            column,
        )
    return np.where(outside, "#", shown)


def write(env: Sokoban, value: Any, form: str | None) -> tuple[list[tuple[str, str]], list[str]]:
    """Return ([], rows): no headers, and the map of a level or state as rows of text."""
    return board.write(env, value, form)


def layout(headers: list[tuple[str, str]], picture: list[str]) -> str:
    """Return the text of a level: its headers as comments, then its map."""
    lines = [f"; {value}" if name == "title" else f"; {name}: {value}" for name, value in headers]
    return "\n".join([*lines, *picture])


def mutate(env: Sokoban, key: Key, level: PuzzleLevel, edits: int | Array) -> PuzzleLevel:
    """Return the level after `edits` random edits; each moves a box, a target or the player."""

    def edit(number: Array, level: PuzzleLevel) -> PuzzleLevel:
        word = words(jax.random.fold_in(key, number), 2 + 2 * env.size**2)
        return _edited(env, word[:2], word[2:].reshape(2, -1), level)

    return jax.lax.fori_loop(0, edits, edit, level)


def _edited(env: Sokoban, word: Array, places: Array, level: PuzzleLevel) -> PuzzleLevel:
    """Move a random box, a random target or the player to a free cell, if there is one.

    A free cell has no wall, box, target or player.
    """
    boxes, player, pushes = level.board.boxes, level.board.player, level.instance
    index = np.arange(env.size**2, dtype=np.uint8)
    has_box, target = (index[:, None] == boxes).any(axis=1), pushes == 0
    bare = (pushes != WALL) & ~has_box & (index != player)
    new = choose(places[0], bare & ~target).astype(jnp.uint8)
    found = (bare & ~target).any()
    what = below(word[0], 3)
    gone = below(word[1], env.boxes)
    moved = jnp.where(np.arange(env.boxes, dtype=np.int32) == gone, new, boxes)
    boxes = jnp.where(found & (what == 0), jnp.sort(moved), boxes)
    dropped = choose(places[1], target).astype(jnp.uint8)
    shifted = (target & (index != dropped)) | (index == new)
    target = jnp.where(found & (what == 1), shifted, target)
    player = jnp.where(found & (what == 2), new, player)
    shape = (env.size, env.size)
    pushes = push_distances((pushes != WALL).reshape(shape), target.reshape(shape))
    return level.replace(board=level.board.replace(boxes=boxes, player=player), instance=pushes)
