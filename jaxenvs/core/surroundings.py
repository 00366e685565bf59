"""Text about the cells around the agent of a grid world: sentences and a character map.

People and language models read the text, through `describe`. The methods of `Writer` take batches:
arrays of tile bytes on the host, with a leading axis for the states. Repeated parts of texts are
cached.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt8

from .facts import away, listed
from .texts import Memo, row_bytes

CELLS_CHANGED = "The walls and free cells in view changed."
AGENT = ">v<^"  # character that stands for the agent, by `facing`
CODES = 256  # number of values of a tile byte
# Directions in which a text describes the cells -> offset (steps ahead, steps to the right).
DIRECTIONS = {"Ahead": (1, 0), "to the left": (0, -1), "to the right": (0, 1), "behind": (-1, 0)}


class Palette(NamedTuple):
    """Words and map characters for the tile bytes of a family of grid worlds, such as XLand.

    Each function takes a tile byte.
    """

    sign: Callable[[int], str]  # the characters that stand for a tile in a drawing
    meaning: Callable[[int], str]  # the words that explain the characters of a tile
    thing: Callable[[int], str]  # the name of a tile with an article, such as "a red key"
    is_object: np.ndarray  # bool (256,), whether the text lists the tile as an object


class Thing(NamedTuple):
    """An object that a text lists, with its position."""

    noun: str  # name of the object with an article, such as "a red key"
    place: str  # position relative to the agent in words

    @property
    def phrase(self) -> str:
        """Noun and position, such as `a red key 2 steps ahead`."""
        return f"{self.noun} {self.place}"


class Frame(NamedTuple):
    """Positions of all cells of an array relative to the agent."""

    shape: tuple[int, int]  # (rows, columns) of the array
    agent: int  # flat index of the agent's cell
    order: np.ndarray  # flat indices of all cells, the nearest to the agent first
    places: tuple[str, ...]  # position in words of each cell of `order`
    # Flat indices of the cells in each direction from the agent, in the order of `DIRECTIONS`.
    rays: tuple[np.ndarray, ...]


def inputs_of(env: Any, state: Any, whole: bool) -> dict[str, Array]:
    """Return a dict of arrays for a text: the cells, the agent's pose and the object it carries.

    If `whole` is true, the cells are the whole grid, and `agent` is the pose (row, column, facing)
    in the grid. Otherwise the cells are the agent's view, far row first, and `agent` is the pose in
    this view.
    """
    if whole:
        agent = jnp.stack([state.row, state.column, state.facing]).astype(jnp.int32)
        return {"cells": state.grid, "agent": agent, "carried": state.carried}
    size = env.view_size
    agent = jnp.array([size - 1, size // 2, 3], jnp.int32)
    return {"cells": env.seen_tiles(state).T, "agent": agent, "carried": state.carried}


@functools.lru_cache(maxsize=4096)
def frame_of(
    shape: tuple[int, int],
    row: int,
    column: int,
    facing: int,
    names: tuple[str, str] = ("ahead", "behind"),
) -> Frame:
    """Return the positions of an array's cells relative to an agent in one of the cells.

    `facing` is in MiniGrid's encoding, 0 right, 1 down, 2 left, 3 up. `names` are the words for
    steps ahead and behind.
    """
    down, right = ((0, 1), (1, 0), (0, -1), (-1, 0))[facing]
    at = {}
    for index, (r, c) in enumerate(np.ndindex(*shape)):
        rows, columns = r - row, c - column
        at[rows * down + columns * right, rows * right - columns * down] = index
    near = sorted(at, key=lambda place: (abs(place[0]) + abs(place[1]), -place[0], place[1]))
    rays = (np.array([*_along(at, *step)], np.intp) for step in DIRECTIONS.values())
    order = np.array([at[place] for place in near])
    return Frame(
        shape, at[0, 0], order, tuple(away(*place, names=names) for place in near), tuple(rays)
    )


def _along(at: dict[tuple[int, int], int], ahead: int, right: int) -> Iterator[int]:
    place = (ahead, right)
    while place in at:
        yield at[place]
        place = (place[0] + ahead, place[1] + right)


def groups(agents: Int[np.ndarray, "batch 3"]) -> Iterator[tuple[tuple[int, int, int], np.ndarray]]:
    """Yield each pose (row, column, facing) in a batch of states, with the indices of its states.

    `agents` has the agent's pose in each state.
    """
    if len(agents) and (agents == agents[0]).all():
        yield tuple(agents[0].tolist()), np.arange(len(agents))
        return
    poses, which = np.unique(agents, axis=0, return_inverse=True)
    for number, pose in enumerate(poses.tolist()):
        yield tuple(pose), np.flatnonzero(which.reshape(-1) == number)


class Writer:
    """Writes sentences and character maps with the words of a `Palette`; caches repeated parts."""

    def __init__(self, palette: Palette, line: Callable[[bytes], str] | None = None) -> None:
        """Create empty caches.

        `line` describes in words the tile bytes of the cells in one direction from the agent, the
        nearest cell first; the agent's own cell is left out.
        """
        self.palette = palette
        self.thing = Memo(lambda key: Thing(palette.thing(key[0]), key[1]))
        self.line = Memo(line) if line else None
        self.signs = [_sign_or_none(palette.sign, code) for code in range(CODES)]
        self.wide = np.array([len(sign) for sign in self.signs])
        self.meaning = Memo(palette.meaning)
        self.row = Memo(self._row)
        self.legend = Memo(self._legend)

    def things(self, cells: UInt8[np.ndarray, "batch cells"], frame: Frame) -> list[list[Thing]]:
        """Return the objects in the cells of each state, the nearest to the agent first."""
        near = cells[:, frame.order]
        state, place = np.nonzero(self.palette.is_object[near])
        found: list[list[Thing]] = [[] for _ in range(len(cells))]
        tiles = near[state, place].tolist()
        for one, where, tile in zip(state.tolist(), place.tolist(), tiles, strict=True):
            found[one].append(self.thing[tile, frame.places[where]])
        return found

    def lines(self, cells: UInt8[np.ndarray, "batch cells"], frame: Frame, count: int) -> list[str]:
        """Return one sentence per state about the cells in the first `count` of `DIRECTIONS`."""
        assert self.line is not None
        names = [*DIRECTIONS][:count]
        rays = [row_bytes(cells[:, ray]) for ray in frame.rays[:count]]
        line = self.line
        return [
            "; ".join([f"{name}: {line[ray]}" for name, ray in zip(names, found, strict=True)])
            + "."
            for found in zip(*rays, strict=True)
        ]

    def drawings(
        self, cells: UInt8[np.ndarray, "batch cells"], frame: Frame, facing: int, where: str
    ) -> list[str]:
        """Return a character map of each state's cells, below a line that explains it."""
        you, legend = AGENT[facing], self.legend
        both = zip(self.present(cells, frame), self.pictures(cells, frame, you), strict=True)
        return [f"{where}; {you} is you, {legend[key]}:\n{picture}" for key, picture in both]

    def present(self, cells: UInt8[np.ndarray, "batch cells"], frame: Frame) -> list[bytes]:
        """Return the set of tile bytes in each state, as packed bits that `tiles_of` unpacks.

        The tile byte of the agent's cell is left out.
        """
        seen = np.zeros((len(cells), CODES), bool)
        seen[np.arange(len(cells))[:, None], np.delete(cells, frame.agent, axis=1)] = True
        return row_bytes(np.packbits(seen, axis=1))

    def pictures(
        self, cells: UInt8[np.ndarray, "batch cells"], frame: Frame, you: str
    ) -> list[str]:
        """Return a character map of each state's cells, in which `you` stands for the agent."""
        width = self.wide[np.delete(cells, frame.agent, axis=1)].max(axis=1).tolist()
        number, column = divmod(frame.agent, frame.shape[1])
        grid = cells.reshape(-1, *frame.shape)
        rows = [row_bytes(grid[:, i]) for i in range(frame.shape[0])]
        places = [column if i == number else -1 for i in range(len(rows))]
        row = self.row
        return [
            "\n".join([row[line, wide, at, you] for line, at in zip(lines, places, strict=True)])
            for wide, *lines in zip(width, *rows, strict=True)
        ]

    def _row(self, key: tuple[bytes, int, int, str]) -> str:
        """Draw a row of tiles as text, with cells of equal width.

        `key` is (tile bytes, width of a cell, column of the agent or -1, character of the agent).
        """
        line, wide, place, you = key
        signs = [self.signs[tile] for tile in line]
        if place >= 0:
            signs[place] = you
        return " ".join(f"{sign:<{wide}}" for sign in signs).rstrip()

    def _legend(self, key: bytes) -> str:
        """Return text that explains the map characters for a set of tile bytes (packed bits)."""
        meanings = {self.signs[tile]: self.meaning[tile] for tile in tiles_of(key)}
        return ", ".join(f"{sign} {meanings[sign]}" for sign in sorted(meanings))


def _sign_or_none(sign: Callable[[int], str], code: int) -> str:
    """Return the map characters for a tile byte; "" if the byte stands for no tile."""
    try:
        return sign(code)
    except (KeyError, ValueError):
        return ""


def tiles_of(present: bytes) -> list[int]:
    """Return the tile bytes of a set that `Writer.present` returned."""
    return np.flatnonzero(np.unpackbits(np.frombuffer(present, np.uint8))).tolist()


def sighted(things: Sequence[Thing]) -> str:
    """Return a sentence that lists objects and their positions."""
    return f"You see {listed([t.phrase for t in things])}." if things else "You see no objects."


def sighting_changes(old: Sequence[Thing], new: Sequence[Thing]) -> Iterator[str]:
    """Yield sentences about objects that appeared, moved or vanished between two states."""
    before = {*old}
    after = [thing for thing in new if thing not in before]
    if after:
        yield f"You now see {listed([thing.phrase for thing in after])}."
    nouns = [thing.noun for thing in new]
    gone = []
    for thing in old:
        if thing.noun in nouns:
            nouns.remove(thing.noun)
        else:
            gone.append(thing.noun)
    if gone:
        yield f"You no longer see {listed(gone)}."
