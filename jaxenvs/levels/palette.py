"""Palettes: the signs from which an editor composes the picture of a level.

A sign is the text of one cell. The agent has no separate sign. In the agent's cell, the text
depends on the cell's sign and on the agent's direction (see `Palette.agents`). Editing needs
further functions in the module that `Env.level_format` names: `palette`, `unpacked`, `packed`,
`sprites` and `place`, and `missions` if levels have a mission.
"""

import dataclasses
import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from ..core.env import Env
from . import api, blocks
from .blocks import Block
from .cells import Cell
from .errors import LevelError

Headers = tuple[tuple[str, str], ...]  # header lines of a level, as pairs (name, value)
Signs = tuple[tuple[str, ...], ...]  # sign (text) of each cell, row by row


class Tool(NamedTuple):
    """A kind of object that an editor paints, with one sign per variant, such as per colour."""

    name: str
    key: str  # key that selects the tool; "" if no key does
    signs: tuple[str, ...]
    variants: tuple[str, ...] = ("",)  # name of the variant of each sign, such as its colour


@dataclasses.dataclass(frozen=True)
class Palette:
    """The signs of an environment's levels."""

    tools: tuple[Tool, ...]
    empty: str  # sign of an erased cell
    width: int = 1  # number of characters of a sign
    outside: str = ""  # sign of cells that are not part of the board; "" for none
    # Text of the agent's cell -> (direction, sign below the agent); empty if levels have no agent.
    agents: Mapping[str, tuple[int, str]] = dataclasses.field(default_factory=dict)
    agent: str = "agent"  # name of the agent, for messages
    # Sign below the agent -> name of this sign in the line `under:` of a level. The dict has the
    # signs on which the agent can stand, but for which `agents` has no text.
    under: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def directions(self) -> int:
        """Number of directions of the agent; 0 without an agent."""
        return len({direction for direction, _ in self.agents.values()})

    def can_stand(self, sign: str) -> bool:
        """Return whether the agent can stand on a cell with this sign."""
        return sign in self.under or any(sign == below for _, below in self.agents.values())

    def name_of(self, sign: str) -> str:
        """Return the name of a sign, such as `red key`; the sign itself if no tool has it."""
        for tool in self.tools:
            if sign in tool.signs:
                variant = tool.variants[tool.signs.index(sign)]
                return f"{variant} {tool.name}".strip()
        return repr(sign)


class Picture(NamedTuple):
    """The parts of a level's text that an editor changes."""

    headers: Headers
    cells: Signs
    agent: tuple[int, int, int] | None  # row, column and direction of the agent; None: no agent


def format_of(env: Env) -> Any:
    """Return the module that edits pictures of levels of `env`.

    Raises `NotImplementedError` with the reason if cells cannot be edited one by one.
    """
    name, found = api.bare(env).level_format, None
    if name:
        found = importlib.import_module(name)
    if not hasattr(found, "palette"):
        raise NotImplementedError(
            f"levels of {type(api.bare(env)).__name__} cannot be edited cell by cell; families "
            "that can are Grid, BabyAI and puzzles whose text has a sign for each cell"
        )
    return found


def of(env: Env) -> Palette:
    """Return the palette of an environment; raise `NotImplementedError` if it has none."""
    return format_of(env).palette(api.bare(env))


def missions(env: Env) -> tuple[str, ...] | None:
    """Return all missions of an environment, or examples; None if users cannot choose a mission."""
    module = format_of(env)
    return module.missions(api.bare(env)) if hasattr(module, "missions") else None


def read(env: Env, block: Block) -> Picture:
    """Parse a block, which need not be a valid level; raise `LevelError` for unknown signs."""
    return format_of(env).unpacked(api.bare(env), block)


def text(env: Env, picture: Picture) -> str:
    """Convert a picture to the text of a level, without a newline at its end."""
    module = format_of(env)
    headers, rows = module.packed(api.bare(env), picture)
    return getattr(module, "layout", blocks.format)([*headers], [*rows])


def sprites(env: Env, picture: Picture, level: Any) -> Int[np.ndarray, "rows columns"]:
    """Return the index of each cell's sprite in `env.atlas`.

    level: the level of the picture; None if the picture is not a valid level.
    """
    return format_of(env).sprites(api.bare(env), picture, level)


def place(env: Env, state: Any) -> Cell | None:
    """Return the row and the column of the agent in a state; None without an agent."""
    return format_of(env).place(api.bare(env), state)


def split(palette: Palette, block: Block, headers: Headers) -> Picture:
    """Split the rows of a block into cells, and find the agent; short rows are padded with spaces.

    Raises `LevelError` for a second agent.
    """
    longest = max(len(row) for row in block.picture)
    width = palette.width * -(-longest // palette.width)
    rows = [[*_signs(row.ljust(width), palette.width)] for row in block.picture]
    agent = None
    for place, text in _agents(palette, rows):
        if agent is not None:
            column = 1 + palette.width * place[1]
            raise LevelError(f"a second {palette.agent}", block.line + place[0], column)
        direction, below = palette.agents[text]
        agent = (*place, direction)
        rows[place[0]][place[1]] = below
    return Picture(headers, tuple(map(tuple, rows)), agent)


def _signs(row: str, width: int) -> Iterator[str]:
    return (row[at : at + width] for at in range(0, len(row), width))


def _agents(palette: Palette, rows: Sequence[Sequence[str]]) -> list[tuple[Cell, str]]:
    return [
        ((r, c), sign) for r, row in enumerate(rows) for c, sign in enumerate(row)
        if sign in palette.agents
    ]  # fmt: skip


def joined(palette: Palette, picture: Picture) -> list[str]:
    """Return the rows of a picture as text, with the agent."""
    rows = [list(row) for row in picture.cells]
    if picture.agent is not None:
        row, column, direction = picture.agent
        below = rows[row][column]
        below = below if (direction, below) in palette.agents.values() else palette.empty
        rows[row][column] = next(
            sign for sign, what in palette.agents.items() if what == (direction, below)
        )
    return ["".join(row) for row in rows]
