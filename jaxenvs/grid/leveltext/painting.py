"""Conversion of a level of MiniGrid or BabyAI from its text to the level editor's grid, and back.

A sign is the two characters of one cell, see `jaxenvs.levels.palette`. Text and editor differ in
the sign of a grey box that contains a key. In the editor it is `?` plus the letter of the key's
colour. In a text it is `Be`, and a line `contents:` names the key.
"""

import functools
from typing import Any

import numpy as np

from ...core import looks
from ...levels.blocks import Block
from ...levels.cells import Cell, cells
from ...levels.palette import Headers, Palette, Picture, Tool, joined, split
from .. import tiles
from ..tiles import Colour, Kind
from . import goals, kinds, picture

COLOURS = tuple(colour.name.lower() for colour in Colour)
LETTERS = dict(zip(Colour, "rgbpye", strict=True))  # colour -> letter that no other colour has
FILLED = "?"  # first character of the sign of a box with a key
# Name of a tool -> kind of object, keyboard key, and first character of the tool's signs.
COLOURED = {
    "key": (Kind.KEY, "k", "K"),
    "ball": (Kind.BALL, "a", "A"),
    "box": (Kind.BOX, "b", "B"),
    "closed door": (Kind.CLOSED_DOOR, "d", "D"),
    "locked door": (Kind.LOCKED_DOOR, "l", "L"),
    "open door": (Kind.DOOR, "o", "_"),
    "floor tile": (Kind.FLOOR, "f", "F"),
}
PLAIN = {"goal": (Kind.GOAL, "g", "GG"), "lava": (Kind.LAVA, "j", "VR")}
CODES = {
    **picture.PAIRS,
    **{FILLED + letter: Kind.KEY_BOX | colour << 4 for colour, letter in LETTERS.items()},
}


def palette(env: Any) -> Palette:
    """Return the palette of signs for editing levels of `env`."""
    known = kinds.of(env)
    return _palette(None if known is None else frozenset(known))


@functools.cache
def _palette(known: frozenset[Kind] | None) -> Palette:
    """Return the palette with a tool for each kind of object in `known`; None means all kinds."""
    found = [Tool("empty", "e", ("  ",)), Tool("wall", "w", ("WG",))]
    usual = known if known is None or not known & set(goals.DOORS) else known | set(goals.DOORS)
    for name, (kind, key, sign) in PLAIN.items():
        if usual is None or kind in usual:
            found.append(Tool(name, key, (sign,)))
    for name, (kind, key, letter) in COLOURED.items():
        if usual is None or kind in usual:
            signs = tuple(letter + LETTERS[colour] for colour in Colour)
            found.append(Tool(name, key, signs, COLOURS))
    if usual is None or Kind.KEY_BOX in usual:
        signs = tuple(FILLED + LETTERS[colour] for colour in Colour)
        found.append(Tool("key in a grey box", "i", signs, COLOURS))
    agents = {pair: (direction, "  ") for direction, pair in enumerate(picture.AGENT)}
    return Palette(tuple(found), "  ", 2, agents=agents, under=_under())


def _under() -> dict[str, str]:
    """Return a dict from the sign of each walkable tile to its name in a line `under:`.

    The line names the tile in the agent's cell.
    """
    walkable = (Kind.FLOOR, Kind.GOAL, Kind.LAVA, Kind.DOOR)
    found = {}
    for sign, code in picture.PAIRS.items():
        exact = sign in picture.PLAIN or sign[1] in picture.EXACT
        if code & 15 in walkable and exact:
            found[sign] = tiles.name(code)
    return found


def unpacked(env: Any, block: Block) -> Picture:
    """Convert a block, the text of a level, to a picture of the editor.

    Raises `LevelError` if the block is invalid.
    """
    return unpacked_with(env, block, fills=True)


def unpacked_with(env: Any, block: Block, fills: bool) -> Picture:
    """Convert a block, the text of a level, to a picture of the editor.

    Raises `LevelError` if the block is invalid.

    fills: whether to convert each line `contents:` that names the key in a box. The box then gets
        the sign of a box with this key, and the line is removed from the headers.
    """
    shape = (len(block.picture), len(block.picture[0]) // 2)
    pairs = [picture.pairs(block, number) for number in range(shape[0])]
    header = block.get("grey")
    grey = [] if header is None else cells(header, header.value, shape)
    rows = [
        "".join(_exact(pair, (r, c) in grey) for c, pair in enumerate(row))
        for r, row in enumerate(pairs)
    ]
    kept = [h for h in block.headers if h.name not in ("grey", "under")]
    found = split(palette(env), Block((), tuple(rows), block.line), ())
    grid = [list(row) for row in found.cells]
    if (header := block.get("under")) and found.agent is not None:
        sign = {name: sign for sign, name in _under().items()}.get(header.value)
        if sign is None:
            raise header.error("the agent cannot stand on this; write such as `under: goal`")
        grid[found.agent[0]][found.agent[1]] = sign
    for header in block.all("contents") if fills else ():
        place, content = picture.content_of(header, shape)
        if content & 15 == Kind.KEY and grid[place[0]][place[1]] == "Be":
            grid[place[0]][place[1]] = FILLED + LETTERS[Colour(content >> 4)]
            kept.remove(header)
    headers = tuple((header.name, header.value) for header in kept)
    return Picture(headers, tuple(map(tuple, grid)), found.agent)


def _exact(pair: str, is_grey: bool) -> str:
    """Convert a cell's two characters in a text to the editor's sign, whose colour is unambiguous.

    is_grey: whether the ambiguous letter `G` means grey.
    """
    if pair in picture.AGENT or pair in picture.PLAIN:
        return pair
    code = picture.PAIRS[pair]
    colour = Colour.GREY if is_grey and pair[1] == "G" else Colour(code >> 4)
    return pair[0] + LETTERS[colour]


def packed(env: Any, found: Picture) -> tuple[Headers, list[str]]:
    """Convert a picture to the headers and the rows of a level's text."""
    boxes = [
        ("contents", f"{r},{c} {COLOURS['rgbpye'.index(sign[1])]} key")
        for r, row in enumerate(found.cells) for c, sign in enumerate(row) if sign[0] == FILLED
    ]  # fmt: skip
    bare = tuple(tuple("Be" if s[0] == FILLED else s for s in row) for row in found.cells)
    below = "  " if found.agent is None else bare[found.agent[0]][found.agent[1]]
    under = [("under", _under()[below])] if below in _under() else []
    rows = joined(palette(env), found._replace(cells=bare))
    usual = [_usual(row) for row in rows]
    return (*found.headers, *under, *boxes), usual


def _usual(row: str) -> str:
    """Convert a row of the editor's signs to a row of a level's text, such as `Kr` to `KR`.

    The sign `Ke` of a grey key stays, because `KG` could be a grey or a green key.
    """
    pairs = [row[at : at + 2] for at in range(0, len(row), 2)]
    return "".join(
        pair if pair in picture.AGENT or pair in picture.PLAIN else picture.OURS[CODES[pair]]
        for pair in pairs
    )


def sprites(env: Any, found: Picture, level: Any) -> np.ndarray:
    """Return the index of each cell's sprite in the atlas of `env`."""
    codes = np.array([[CODES[sign] for sign in row] for row in found.cells], np.int32)
    lit = tiles.NUM_CODES * looks.NUM_AGENTS
    if found.agent is not None:
        row, column, direction = found.agent
        codes[row, column] += tiles.NUM_CODES * (1 + direction)
    return codes + lit


def missions(env: Any) -> tuple[str, ...] | None:
    """Return all possible missions of `env`; None if all levels have the same mission."""
    found = tuple(goals.sentences(env))
    return found if len(found) > 1 else None


def place(env: Any, state: Any) -> Cell:
    """Return the row and the column of the agent in a state."""
    return int(state.row), int(state.column)
