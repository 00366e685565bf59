"""The picture of the map in a Craft text: cells as characters, with their legend and their light.

The module writes and reads the picture and the lines `legend` and `light`.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from ...core.checks import counted
from ...levels import cells
from ...levels.blocks import Block as Text
from ...levels.blocks import Header
from ...levels.errors import LevelError
from ..env import CraftEnv
from ..ground import BLOCK, ITEM, LIT
from ..tables import Block, Rules
from . import values

SIGNS: dict[int, str] = {
    Block.GRASS: ".", Block.WATER: "~", Block.STONE: "#", Block.TREE: "T", Block.PATH: ",",
    Block.COAL: "c", Block.IRON: "i", Block.DIAMOND: "d", Block.SAND: ":", Block.LAVA: "!",
    Block.PLANT: "p", Block.RIPE_PLANT: "P", Block.CRAFTING_TABLE: "t", Block.FURNACE: "f",
    Block.WALL: "W", Block.DARKNESS: "'",
}  # fmt: skip
# Characters for cells whose block's sign is already taken: printable ASCII, then accented letters.
POOL = tuple(map(chr, (*range(33, 127), *range(192, 256))))
MARKS = {"item": ITEM, "lit": LIT}  # words after the block in a legend of the full game
HEXADECIMAL = set("0123456789abcdef")


def drawn(rules: Rules, grid: np.ndarray) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the lines `legend`, as (name, value), and the rows of the picture.

    `grid` has the bytes of all cells, uint8 (size, size), in the full game (floors, size, size).
    """
    signs = _signs(rules, np.unique(grid).tolist())
    legend = [("legend", f"{sign} {_name(rules, code)}") for code, sign in signs.items()]
    rows: list[str] = []
    for floor in (grid if rules.is_full else grid[None]).tolist():
        rows += ["".join(signs[code] for code in row) for row in floor] + [""]
    return legend, rows[:-1]


def _name(rules: Rules, code: int) -> str:
    """Return the words for a cell, such as `path item lit`; `code` is the byte of the cell."""
    if not rules.is_full:
        return Block(code).name.lower()
    marks = (word for word, bit in MARKS.items() if code & bit)
    return " ".join((Block(code & BLOCK).name.lower(), *marks))


def _code(rules: Rules, header: Header, text: str) -> int:
    """Return the byte of a cell from words: a block, and in the full game also `item` and `lit`."""
    word, *marks = text.split()
    known = {block.name.lower(): int(block) for block in rules.blocks}
    code = cells.named(header, word, known, "block")
    allowed = MARKS if rules.is_full else {}
    for mark in marks:
        if mark not in allowed or code & allowed[mark]:
            after = "`item` and `lit`, once each" if allowed else "nothing"
            raise header.error(f"{mark!r} does not fit here; after the block, write {after}")
        code |= allowed[mark]
    return code


def _signs(rules: Rules, codes: Sequence[int]) -> dict[int, str]:
    """Return a dict from each byte in `codes` to the character that stands for it in the picture.

    The character is the sign of the byte's block. If another byte already has this sign, the
    character is taken from POOL.
    """
    found: dict[int, str] = {}
    blocks = {code: code & BLOCK if rules.is_full else code for code in codes}
    for code, block in blocks.items():
        if block >= len(rules.blocks):
            raise ValueError(f"levels.write: the map has the byte {code}, which is no cell")
        own = SIGNS.get(block, Block(block).name[0])
        # Signs of the other blocks on the map. They are reserved for these blocks, so this byte
        # cannot take them.
        kept = {SIGNS.get(each) for each in blocks.values()} - {own}
        taken = kept | {*found.values()}
        found[code] = next(sign for sign in (own, *POOL) if sign not in taken)
    return found


def grid(env: CraftEnv, block: Text) -> np.ndarray:
    """Parse the picture of a text into the bytes of all cells.

    The result is uint8 (size, size), in the full game (floors, size, size).
    """
    known = {}
    for header in block.all("legend"):
        sign, name = header.value[:1], header.value[1:]
        if not name.startswith(" ") or not name.strip():
            raise header.error("write a character and a block, such as `legend: T tree`")
        if sign in known:
            raise header.error(f"the character {sign!r} is already explained; remove a line")
        known[sign] = _code(env.rules, header, name)
    shape = env.state_shape.map.shape
    rows = [(number, row) for number, row in enumerate(block.picture, block.line) if row.strip()]
    wanted = int(np.prod(shape[:-1]))
    if len(rows) != wanted:
        floors = f" ({shape[0]} floors of {shape[1]} rows)" if env.rules.is_full else ""
        raise LevelError(
            f"the picture has {counted(len(rows), 'row')}, expected {wanted}{floors}", block.line
        )
    for number, row in rows:
        if len(row) != shape[-1]:
            raise LevelError(
                f"the row has {counted(len(row), 'character')}, expected {shape[-1]}, one per cell",
                number,
                min(len(row), shape[-1]) + 1,
            )
        explained = "explain it, such as by `legend: T tree`"
        cells.check_characters(row, number, known, explained)
    return np.array([[known[sign] for sign in row] for _, row in rows], np.uint8).reshape(shape)


# The following functions write and read lines `light`. `levels.write` writes these lines only if
# pixels are observed. A line has two hexadecimal digits per cell; `ff*48` stands for 48 cells with
# the light ff.


def light_lines(light: np.ndarray) -> Iterator[tuple[str, str]]:
    """Yield one line `light` per floor, as (name, value); `light` is uint8 (floors, size, size)."""
    for floor, row in enumerate(light.reshape(light.shape[0], -1).tolist()):
        runs = [(value, len(list(run))) for value, run in itertools.groupby(row)]
        words = (f"{value:02x}*{count}" if count > 1 else f"{value:02x}" for value, count in runs)
        yield "light", f"floor {floor}, {' '.join(words)}"


def light(env: CraftEnv, block: Text, grid: np.ndarray) -> np.ndarray | None:
    """Return the light of all cells, 0 to 255 as uint8; None in Classic, whose cells have no light.

    A floor without a line `light` has the value 255 in lit cells and 0 in dark cells.
    """
    if not env.rules.is_full:
        return None
    found = np.where(grid & LIT, 255, 0).astype(np.uint8)
    for floor, (header, parts) in values.each_floor(env.rules, block.all("light")).items():
        if floor is None:
            raise header.error(values.NO_FLOOR)
        lit = _lit(header, " ".join(parts), found[floor].size)
        found[floor] = np.reshape(lit, found[floor].shape)
    return found


def _lit(header: Header, text: str, size: int) -> list[int]:
    """Parse the light of the `size` cells of a floor."""
    found: list[int] = []
    for word in text.split():
        digits, star, count = word.partition("*")
        if len(digits) != 2 or not set(digits) <= HEXADECIMAL:
            raise header.error(f"{word[:9]!r} is no light; write two digits 0 to f, such as ff*48")
        times = cells.integer(header, count, 1, size) if star else 1
        found += [int(digits, 16)] * times
        if len(found) > size:
            break
    if len(found) != size:
        more = "more" if len(found) > size else f"{len(found)}"
        raise header.error(f"the floor has {size} cells, the line {more}")
    return found
