"""Tables of twisty puzzles, built from their geometry: stickers, and where turns take them."""

import dataclasses
import functools
import itertools
from typing import NamedTuple

import numpy as np

from . import groups

_TRACKED = 4  # pieces of a pattern database


class Pattern(NamedTuple):
    """A pattern database: the least turns for each placement of some pieces."""

    tracked: np.ndarray  # int32, a sticker of each piece
    cells: np.ndarray  # int32, stickers to which they can go
    table: np.ndarray  # uint8, flat: an axis of cells for each tracked sticker


@dataclasses.dataclass(frozen=True, eq=False)
class Permutations:
    """A puzzle of coloured stickers that turns permute."""

    names: tuple[str, ...]  # of the actions
    source: np.ndarray  # int32 (actions, stickers): new[i] = old[source[action, i]]
    inverse: np.ndarray  # int32 (actions,)
    goal: np.ndarray  # uint8 (stickers,): colour of each when solved
    # The next sticker of the same piece, clockwise: two colours tell which sticker it is.
    beside: np.ndarray  # int32 (stickers,)
    kind: np.ndarray  # int32 (stickers,): stickers of different kinds never change places

    @property
    def colours(self) -> int:
        """Number of colours."""
        return int(self.goal.max()) + 1

    @functools.cached_property
    def moves(self) -> np.ndarray:
        """Place to which each turn takes each sticker, int32 (actions, stickers)."""
        return np.argsort(self.source, axis=1).astype(np.int32)

    @functools.cached_property
    def group(self) -> groups.Chain:
        """The group of all boards; `order` is their number."""
        return groups.chain(self.moves)

    @functools.cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """Pattern databases that cover all pieces, four by four."""
        found = []
        piece = np.minimum.reduce([np.arange(self.goal.size), *self._further])
        for cells in groups.orbits(self.moves):
            ones = np.array(sorted({int(piece[c]): int(c) for c in cells[::-1]}.values()), np.int32)
            for start in range(0, len(ones), _TRACKED):
                tracked = ones[max(0, min(start, len(ones) - _TRACKED)) :][:_TRACKED]
                table = groups.distances(self.moves, tracked, cells).reshape(-1)
                found.append(Pattern(tracked, cells, table))
        return tuple(found)

    @property
    def _further(self) -> tuple[np.ndarray, np.ndarray]:
        """The other stickers of each piece."""
        return self.beside, self.beside[self.beside]


class _Sticker(NamedTuple):
    piece: tuple[int, ...]  # centre of the piece, or another identifier
    face: tuple[int, ...]  # outward direction, or another identifier


def _permutation(stickers: list, turned: dict) -> np.ndarray:
    """Source of each sticker's colour, from where each sticker goes."""
    index = {sticker: i for i, sticker in enumerate(stickers)}
    source = np.arange(len(stickers), dtype=np.int32)
    for old, new in turned.items():
        source[index[new]] = index[old]
    return source


def _with_powers(
    turns: list[tuple[str, np.ndarray]], half: bool
) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Each turn clockwise and anticlockwise, and with `half` also twice."""
    names, sources, inverse = [], [], []
    for name, source in turns:
        first = len(names)
        names += [name, f"{name}'", f"{name}2"][: 3 if half else 2]
        sources += [source, np.argsort(source).astype(np.int32), source[source]][: 3 if half else 2]
        inverse += [first + 1, first, first + 2][: 3 if half else 2]
    return tuple(names), np.stack(sources), np.array(inverse, np.int32)


# Face: outward, to the right and down, as seen from outside; x right, y up, z towards the eye.
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
    """Rubik's cube: faces U F R B L D, row by row (U with B on top, the sides with U on top, D with
    F on top); `faces` may turn, clockwise and back, and by half."""
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
    return Permutations(*_with_powers(turns, half_turns), goal, _beside(stickers), _kinds(stickers))


@functools.lru_cache
def skewb() -> Permutations:
    """Skewb: each face a centre and four corners (in the order of a cube's); turns about the four
    corners of one tetrad, which keep their places."""
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
            v = np.array(vector)  # a third of a turn clockwise about the axis
            return tuple(map(int, (axis * (axis @ v) - v - np.cross(axis, v)) // 2))

        half = [s for s in stickers if axis @ np.array(s.piece) > 0]
        turns.append(
            (name, _permutation(stickers, {s: _Sticker(turn(s.piece), turn(s.face)) for s in half}))
        )
    goal = np.repeat(np.arange(6, dtype=np.uint8), 5)
    return Permutations(*_with_powers(turns, False), goal, _beside(stickers), _kinds(stickers))


@functools.lru_cache
def pyraminx() -> Permutations:
    """Pyraminx without its tips: vertices U L R B, face i opposite vertex i; on each face the three
    axial stickers by vertex, then the three edge stickers, each opposite a vertex of the face."""
    stickers = []
    for face in range(4):
        corners = [v for v in range(4) if v != face]
        stickers += [_Sticker((v,), (face,)) for v in corners]
        stickers += [_Sticker(tuple(w for w in corners if w != v), (face,)) for v in corners]
    turns = []
    for vertex, name in enumerate("ULRB"):
        # An even permutation of the vertices that leaves one in place: a third of a turn.
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
    beside = np.empty(24, np.int32)
    for i, sticker in enumerate(stickers):
        same = [j for j, s in enumerate(stickers) if s.piece == sticker.piece]
        if len(same) == 3:  # the axial piece of a vertex: turn it to find the next
            table = turns[sticker.piece[0]][1]
            beside[i] = np.flatnonzero(table == i)[0]
        else:
            beside[i] = next(j for j in same if j != i)
    return Permutations(*_with_powers(turns, False), goal, beside, _kinds(stickers))


def _beside(stickers: list[_Sticker]) -> np.ndarray:
    """Next sticker of each piece, clockwise seen from outside."""
    beside = []
    for i, sticker in enumerate(stickers):
        same = [j for j, s in enumerate(stickers) if s.piece == sticker.piece]
        following = i
        for j in same:
            around = np.cross(sticker.face, stickers[j].face) @ np.array(sticker.piece)
            if j != i and (len(same) == 2 or around < 0):
                following = j
        beside.append(following)
    return np.array(beside, np.int32)


def _kinds(stickers: list[_Sticker]) -> np.ndarray:
    """Number of stickers on the piece of each, which distinguishes kinds of pieces."""
    pieces = [s.piece for s in stickers]
    return np.array([pieces.count(piece) for piece in pieces], np.int32)
