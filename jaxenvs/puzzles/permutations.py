"""Tables of twisty puzzles (Rubik's cube, Skewb, Pyraminx), computed from their geometry.

The tables list the stickers of a puzzle and how each turn permutes them.
"""

import dataclasses
import functools
import itertools
from typing import NamedTuple

import numpy as np

from . import groups

_TRACKED = 4  # number of pieces that a pattern database tracks


class Pattern(NamedTuple):
    """A pattern database: the fewest turns that bring a few pieces home.

    The table has one entry for each combination of places where these pieces can be.
    """

    tracked: np.ndarray  # int32 (pieces,): index of one sticker of each piece
    # int32 (cells,): the places that the tracked stickers can reach, as indices of stickers.
    cells: np.ndarray
    # uint8 (len(cells) ** len(tracked),): fewest turns. The index is a number in base `len(cells)`.
    # Each of its digits is the place of a tracked sticker, as an index into `cells`.
    table: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Permutations:
    """Tables of a puzzle whose turns permute coloured stickers."""

    names: tuple[str, ...]  # names of the actions
    # int32 (actions, stickers): an action changes the colours to new[i] = old[source[action, i]].
    source: np.ndarray
    inverse: np.ndarray  # int32 (actions,): index of the action that undoes each action
    goal: np.ndarray  # uint8 (stickers,): colour of each sticker when the puzzle is solved
    # int32 (stickers,): index of the next sticker of the same piece, clockwise. A sticker is
    # identified by its `kind`, its own colour and the colour of the next sticker.
    next_on_piece: np.ndarray
    # int32 (stickers,): number of stickers on the sticker's piece. A turn takes a sticker only to
    # places of stickers with the same number.
    kind: np.ndarray

    @property
    def colours(self) -> int:
        """Number of colours."""
        return int(self.goal.max()) + 1

    @functools.cached_property
    def moves(self) -> np.ndarray:
        """Destination of each sticker under each turn, int32 (actions, stickers)."""
        return np.argsort(self.source, axis=1).astype(np.int32)

    @functools.cached_property
    def group(self) -> groups.Chain:
        """Group of all reachable permutations; its `order` is the number of reachable boards."""
        return groups.chain(self.moves)

    @functools.cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """Pattern databases with `_TRACKED` pieces each, which together cover all pieces."""
        found = []
        piece = np.minimum.reduce([np.arange(self.goal.size), *self._others])
        for cells in groups.orbits(self.moves):
            ones = np.array(sorted({int(piece[c]): int(c) for c in cells[::-1]}.values()), np.int32)
            for start in range(0, len(ones), _TRACKED):
                tracked = ones[max(0, min(start, len(ones) - _TRACKED)) :][:_TRACKED]
                table = groups.distances(self.moves, tracked, cells).reshape(-1)
                found.append(Pattern(tracked, cells, table))
        return tuple(found)

    @property
    def _others(self) -> tuple[np.ndarray, np.ndarray]:
        """For each sticker, the next sticker clockwise on its piece, and the sticker after that.

        Both arrays are int32 (stickers,), indices of stickers.
        """
        return self.next_on_piece, self.next_on_piece[self.next_on_piece]


class _Sticker(NamedTuple):
    # Identifier of the piece: the coordinates of its centre, or in the Pyraminx its vertices.
    piece: tuple[int, ...]
    # Identifier of the face: its outward direction, or in the Pyraminx its index.
    face: tuple[int, ...]


def _permutation(stickers: list, turned: dict) -> np.ndarray:
    """Return the source of each sticker's colour when the puzzle makes the turn, int32 (stickers,).

    The source is the index of the sticker whose colour the sticker gets. `turned` describes the
    turn: it maps each sticker that moves to the sticker whose place it takes.
    """
    index = {sticker: i for i, sticker in enumerate(stickers)}
    source = np.arange(len(stickers), dtype=np.int32)
    for old, new in turned.items():
        source[index[new]] = index[old]
    return source


def _with_powers(
    turns: list[tuple[str, np.ndarray]], half: bool
) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Return the names, `source` and `inverse` of all actions.

    Each turn gives two actions, the turn and its inverse. If `half`, it also gives a third action,
    which makes the turn twice.
    """
    names, sources, inverse = [], [], []
    for name, source in turns:
        first = len(names)
        names += [name, f"{name}'", f"{name}2"][: 3 if half else 2]
        sources += [source, np.argsort(source).astype(np.int32), source[source]][: 3 if half else 2]
        inverse += [first + 1, first, first + 2][: 3 if half else 2]
    return tuple(names), np.stack(sources), np.array(inverse, np.int32)


# Three directions for each face, seen from outside the cube: outward, right and down.
# The axes are x to the right, y up and z towards the viewer.
FACES = {
    "U": ((0, 1, 0), (1, 0, 0), (0, 0, 1)),
    "F": ((0, 0, 1), (1, 0, 0), (0, -1, 0)),
    "R": ((1, 0, 0), (0, 0, -1), (0, -1, 0)),
    "B": ((0, 0, -1), (-1, 0, 0), (0, -1, 0)),
    "L": ((-1, 0, 0), (0, 0, 1), (0, -1, 0)),
    "D": ((0, -1, 0), (1, 0, 0), (0, 0, -1)),
}


@functools.lru_cache
def cube(size: int, half_turns: bool, faces: str) -> Permutations:
    """Build the tables of Rubik's cube, in which only `faces` turn.

    `half_turns` says whether a half turn of a face is one action, besides the quarter turns.

    Stickers are ordered by the faces U F R B L D, and row by row within a face. Face U is seen with
    B on top, the four side faces with U on top, and D with F on top.
    """
    stickers = []
    at = range(1 - size, size, 2)
    for normal, right, down in np.array(list(FACES.values())):
        for row, column in itertools.product(at, at):
            piece = normal * (size - 1) + right * column + down * row
            stickers.append(_Sticker(tuple(map(int, piece)), tuple(map(int, normal))))
    turns = []
    for name in faces:
        normal = np.array(FACES[name][0])

        def turn(vector: tuple[int, ...], axis: np.ndarray = normal) -> tuple[int, ...]:
            turned = axis * (axis @ np.array(vector)) - np.cross(axis, vector)
            return tuple(map(int, turned))

        layer = [s for s in stickers if normal @ np.array(s.piece) == size - 1]
        turns.append(
            (
                name,
                _permutation(stickers, {s: _Sticker(turn(s.piece), turn(s.face)) for s in layer}),
            )
        )
    goal = np.repeat(np.arange(6, dtype=np.uint8), size * size)
    return Permutations(
        *_with_powers(turns, half_turns), goal, _next_on_piece(stickers), _kinds(stickers)
    )


@functools.lru_cache
def skewb() -> Permutations:
    """Build the tables of the Skewb.

    The stickers of a face are its centre, and then its four corners row by row, as on a cube. A
    turn rotates half of the cube about one of four corners. These four corners form a tetrad: no
    two of them are adjacent, and they all keep their places.
    """
    stickers = []
    for normal, right, down in np.array(list(FACES.values())):
        stickers.append(_Sticker(tuple(map(int, normal)), tuple(map(int, normal))))
        for row, column in itertools.product((-1, 1), (-1, 1)):
            corner = normal + right * column + down * row
            stickers.append(_Sticker(tuple(map(int, corner)), tuple(map(int, normal))))
    turns = []
    for name, corner in zip(
        "RULB", ((1, 1, 1), (-1, 1, -1), (-1, -1, 1), (1, -1, -1)), strict=True
    ):
        axis = np.array(corner)

        def turn(vector: tuple[int, ...], axis: np.ndarray = axis) -> tuple[int, ...]:
            # Rotate the vector by 120 degrees clockwise about the axis.
            v = np.array(vector)
            return tuple(map(int, (axis * (axis @ v) - v - np.cross(axis, v)) // 2))

        half = [s for s in stickers if axis @ np.array(s.piece) > 0]
        turns.append(
            (name, _permutation(stickers, {s: _Sticker(turn(s.piece), turn(s.face)) for s in half}))
        )
    goal = np.repeat(np.arange(6, dtype=np.uint8), 5)
    return Permutations(
        *_with_powers(turns, False), goal, _next_on_piece(stickers), _kinds(stickers)
    )


@functools.lru_cache
def pyraminx() -> Permutations:
    """Build the tables of the Pyraminx without its tips.

    The vertices are U L R B, and face i is opposite vertex i. An axial piece lies at a vertex, just
    below the tip. A face lists the stickers of its three axial pieces in the order of their
    vertices, and then its three edge stickers in the order of the vertices that are opposite to
    them.
    """
    stickers = []
    for face in range(4):
        corners = [v for v in range(4) if v != face]
        stickers += [_Sticker((v,), (face,)) for v in corners]
        stickers += [_Sticker(tuple(w for w in corners if w != v), (face,)) for v in corners]
    turns = []
    for vertex, name in enumerate("ULRB"):
        # A turn about a vertex cycles the other three vertices. The clockwise cycle is in ascending
        # order of their indices if the vertex has an odd index, else in descending order.
        others = [v for v in range(4) if v != vertex]
        others = others if vertex % 2 else others[::-1]
        turn = dict(zip(others, others[1:] + others[:1], strict=True)) | {vertex: vertex}
        moved = {
            s: _Sticker(tuple(sorted(turn[v] for v in s.piece)), (turn[s.face[0]],))
            for s in stickers
            if vertex in s.piece
        }
        turns.append((name, _permutation(stickers, moved)))
    goal = np.repeat(np.arange(4, dtype=np.uint8), 6)
    next_on_piece = np.empty(24, np.int32)
    for i, sticker in enumerate(stickers):
        same = [j for j, s in enumerate(stickers) if s.piece == sticker.piece]
        # A piece with three stickers is axial and belongs to a vertex. A turn about this vertex
        # takes each of the stickers to the place of the next.
        if len(same) == 3:
            table = turns[sticker.piece[0]][1]
            next_on_piece[i] = np.flatnonzero(table == i)[0]
        else:
            next_on_piece[i] = next(j for j in same if j != i)
    return Permutations(*_with_powers(turns, False), goal, next_on_piece, _kinds(stickers))


def _next_on_piece(stickers: list[_Sticker]) -> np.ndarray:
    """Return, for each sticker, the index of the next sticker of the same piece, int32 (stickers,).

    Next means clockwise around the piece, as seen from outside the puzzle.
    """
    next_on_piece = []
    for i, sticker in enumerate(stickers):
        same = [j for j, s in enumerate(stickers) if s.piece == sticker.piece]
        following = i
        for j in same:
            around = np.cross(sticker.face, stickers[j].face) @ np.array(sticker.piece)
            if j != i and (len(same) == 2 or around < 0):
                following = j
        next_on_piece.append(following)
    return np.array(next_on_piece, np.int32)


def _kinds(stickers: list[_Sticker]) -> np.ndarray:
    """Return the kind of each sticker: the number of stickers on its piece, int32 (stickers,).

    Centres, edges and corners have different kinds.
    """
    pieces = [s.piece for s in stickers]
    return np.array([pieces.count(piece) for piece in pieces], np.int32)
