"""Twisty puzzles: Rubik's cube, Pyraminx and Skewb, with a common base class.

A board stores the colour of every sticker, and an action permutes the stickers. The puzzles differ
in their tables of permutations. Levels are drawn uniformly from all reachable boards, without a
random walk or rejection. The Schreier-Sims algorithm gives a list of sets of permutations
(transversals of a stabiliser chain). Each reachable permutation of the stickers is the product of
exactly one choice of a permutation from each set, so a level needs one random choice per set.
"""

from abc import abstractmethod
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt8, UInt32

from ..core import bits, checks
from ..core.controls import Controls, keyed
from ..core.pixels import compose
from ..core.random import Key, below, hashed
from ..core.registry import register
from ..core.spaces import Box, Space
from ..core.texts import written_by_row
from . import groups, permutations, pictures, sprites
from .permutations import Permutations
from .puzzle import Move, Puzzle, PuzzleLevel, PuzzleState, characters_of

TURNS = ("quarter", "half")
_PYRAMINX = np.array([1, 2, 3, 5], np.int32)  # Pyraminx colours as indices into the cube's colours
_COLOURS = {"W": "white", "G": "green", "R": "red", "B": "blue", "O": "orange", "Y": "yellow"}


class TwistyPuzzle(Puzzle):
    """Base class of twisty puzzles.

    A subclass defines `tables`, `faces`, `letters`, `tiles` and `picture`.

    State: the board has the same values as the observation, as a vector.
    """

    # Number of random turns that make a level from the goal.
    # None: all reachable boards are equally likely.
    scramble: int | None = None

    letters: ClassVar[str] = ""  # one letter for each colour, used by `text` and `read_level`

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        if self.scramble is not None:
            checks.integer_field(type(self).__name__, "scramble", self.scramble, 0)

    @property
    @abstractmethod
    def tables(self) -> Permutations:
        """Constants of the puzzle: its stickers, and how each turn permutes them."""
        raise NotImplementedError

    @property
    def group(self) -> groups.Chain:
        """Group of all reachable permutations; its `order` is the number of reachable boards."""
        return self.tables.group

    @property
    def action_names(self) -> tuple[str, ...]:
        """The face or vertex to turn: `U` clockwise, `U'` anticlockwise, `U2` by half a turn."""
        return self.tables.names

    @property
    def controls(self) -> Controls:
        """Letter keys turn clockwise, letters with Shift anticlockwise; digits make half turns."""
        halves = [name for name in self.action_names if name.endswith("2")]

        def key(name: str) -> str:
            half = str(halves.index(name) + 1) if name in halves else ""
            return {"": name[0].lower(), "'": name[0], "2": half}[name[1:]]

        return Controls(keyed(*((name, key(name)) for name in self.action_names)))

    @property
    def inverse(self) -> np.ndarray:
        """For each turn, the index of the turn that undoes it."""
        return self.tables.inverse

    @property
    def observation_space(self) -> Space:
        """Colour of each sticker, as an index into `letters`."""
        return Box(0, self.tables.colours - 1, self.shape, np.uint8)

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Return pairs (index, meaning) that document the values of the observation.

        The pairs name the colours, and explain the order of the stickers of each face.
        """
        colours = ", ".join(f"{i} {_COLOURS[c]}" for i, c in enumerate(self.letters))
        return (("`[face, ...]`", f"colours of stickers: {colours}"), *self.faces)

    @property
    def legend(self) -> str:  # type: ignore[override]  # the legend depends on the faces
        """Text that explains the letters, and the order of the stickers in each line."""
        colours = ", ".join(f"{letter} {_COLOURS[letter]}" for letter in self.letters)
        lines = "; ".join(f"{index.strip('`')} {meaning}" for index, meaning in self.faces)
        return f"The stickers, a line for each face ({colours}); {lines}"

    @property
    @abstractmethod
    def faces(self) -> tuple[tuple[str, str], ...]:
        """Pairs (index, meaning) that explain the order of the stickers in the observation.

        The index is an index into the observation, as text.
        """
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the observation: number of faces, and number of stickers per face."""
        return (self.tables.colours, self.tables.goal.size // self.tables.colours)

    def apply(self, instance: Any, board: UInt8[Array, " stickers"], action: Array) -> Move:
        """Turn a face, or turn about a vertex; every turn is legal."""
        turned = board[jnp.asarray(self.tables.source)[action]]
        return Move(turned, jnp.ones((), jnp.float32), jnp.ones((), jnp.bool_))

    def is_goal(self, instance: Any, board: UInt8[Array, " stickers"]) -> Bool[Array, ""]:
        """Return whether every sticker has the colour that it has on the goal board."""
        return (board == self.tables.goal).all()

    def goal(self, instance: Any) -> UInt8[Array, " stickers"]:
        """Return the solved board.

        A 2x2 cube with `all_faces` has 24 solved boards, one for each orientation of the cube.
        The returned board has white on face U and green on face F.
        """
        return jnp.asarray(self.tables.goal)

    def pack(self, board: UInt8[Array, " stickers"]) -> UInt32[Array, " words"]:
        """Encode the board in uint32 words, with two or three bits per sticker."""
        return bits.pack(board, self._bits)

    def unpack(self, words: UInt32[Array, " words"]) -> UInt8[Array, " stickers"]:
        """Return the board that `pack` encoded in these words."""
        return bits.unpack(words, self.tables.goal.size, self._bits)

    @property
    def _bits(self) -> int:
        return (self.tables.colours - 1).bit_length()

    def observe_board(self, instance: Any, board: UInt8[Array, " stickers"]) -> UInt8[Array, "..."]:
        """Return the board in the shape of the observation."""
        return board.reshape(self.shape)

    def heuristic(self, instance: Any, board: UInt8[Array, " stickers"]) -> Float32[Array, ""]:
        """Return the largest lower bound from the pattern databases.

        Each database covers at most four pieces. Its bound is the fewest turns that bring these
        pieces to their places, if all other pieces are ignored.
        """
        bound = jnp.int32(0)
        for pattern in self.tables.patterns:
            at = jnp.int32(0)
            for sticker in pattern.tracked:
                goal, following = self.tables.goal, self.tables.next_on_piece
                here = (board[pattern.cells] == goal[sticker]) & (
                    board[following[pattern.cells]] == goal[following[sticker]]
                )
                cell = jnp.where(here, np.arange(len(pattern.cells), dtype=np.int32), 0)
                at = at * len(pattern.cells) + cell.sum(dtype=jnp.int32)
            bound = jnp.maximum(bound, jnp.asarray(pattern.table)[at].astype(jnp.int32))
        return bound.astype(jnp.float32)

    def draw_level(self, key: Key, params: Any) -> PuzzleLevel:
        """Draw a board; all reachable boards are equally likely unless `scramble` is set.

        With `scramble`, make that many random turns from the goal, none of which undoes the
        previous one.
        """
        if self.scramble is not None:
            return PuzzleLevel(board=self.walk(key, (), self.goal(()), self.scramble))
        chain = self.group
        # XLA fuses all gathers of this unrolled loop into one GPU kernel, in which the index of
        # each gather is the expression of the previous gather. The mode "promise_in_bounds"
        # evaluates the index once. Other modes evaluate it twice, so each gather would double the
        # code of the kernel.
        count = self.tables.goal.size
        sticker = jnp.arange(count, dtype=jnp.uint32)
        for i in reversed(range(len(chain.sizes))):
            element = below(hashed(key, i), int(chain.sizes[i])).astype(jnp.uint32)
            flat = jnp.asarray(chain.transversals[i].reshape(-1)).at[
                element * np.uint32(count) + sticker
            ]
            sticker = flat.get(mode="promise_in_bounds").astype(jnp.uint32)
        return PuzzleLevel(board=jnp.asarray(self.tables.goal)[sticker])

    def read_level(self, text: str) -> PuzzleLevel:
        """Parse a level: turns of the solved puzzle, or the letters of all stickers.

        The letters are in the order of the observation. Raises `ValueError` for an unknown turn or
        colour, and for an unreachable board.
        """
        tables = self.tables
        flat = "".join(text.split())
        if len(flat) == tables.goal.size and set(flat.upper()) <= set(self.letters):
            board = np.array([self.letters.index(c) for c in flat.upper()], np.uint8)
            self._check_reachable(board)
            return PuzzleLevel(board=jnp.asarray(board))
        board = tables.goal
        for name in text.split():
            if name not in tables.names:
                raise ValueError(
                    f"{self.name}: {name!r} is not a turn; "
                    f"give turns of {' '.join(tables.names)}, or "
                    f"the {tables.goal.size} stickers as letters of {self.letters}"
                )
            board = board[tables.source[tables.names.index(name)]]
        return PuzzleLevel(board=jnp.asarray(board))

    def _check_reachable(self, board: np.ndarray) -> None:
        tables = self.tables
        seen = zip(tables.kind, board, board[tables.next_on_piece], strict=True)
        known = zip(tables.kind, tables.goal, tables.goal[tables.next_on_piece], strict=True)
        number = {name: i for i, name in enumerate(known)}
        stickers = np.array([number.get(name, -1) for name in seen])
        if not groups.contains(self.group, stickers):
            raise ValueError(
                f"{self.name}: this board is unreachable (a piece does not exist, is twisted, or "
                "two are exchanged); check the colours"
            )

    def written(self, boards: np.ndarray) -> list[str]:
        """Write the letters of the stickers, one line per face."""
        faces = boards.reshape(len(boards), self.shape[0], -1)
        return written_by_row(faces, characters_of(self.letters))

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return sprites of an empty tile and six stickers, uint8 (7, tile_size, tile_size, 3)."""
        return sprites.stickers(tile_size)


@register("Puzzle-Cube-2x2-v0", size=2)
@register("Puzzle-Cube-2x2-Half-v0", size=2, turns="half")
@register("Puzzle-Cube-3x3-v0", size=3)
@register("Puzzle-Cube-3x3-Half-v0", size=3, turns="half")
class Cube(TwistyPuzzle):
    """Rubik's cube: turn faces until each has one colour.

    In the 2x2 cube only the faces U, F and R turn. The corner opposite them therefore stays in
    place, and only one board is solved. With `all_faces` all six faces turn, and the solved cube
    may have any of 24 orientations.

    Actions: for each face of U F R (B L D) a quarter turn clockwise, one anticlockwise, and with
        `turns="half"` a half turn.
    Observation: uint8 (6, size, size), colours 0 to 5 (white, green, red, blue, orange, yellow) of
        the faces U F R B L D: U seen with B on top, the sides with U on top, D with F on top.
    Reward: 1 when solved. Episode ends: when solved, or at the time limit.
    """

    size: int = 3  # stickers per side of a face, 2 or 3
    turns: str = "quarter"  # "quarter": only quarter turns; "half": quarter and half turns
    all_faces: bool = False  # whether all six faces turn in a 2x2 cube, as in a 3x3 cube

    letters: ClassVar[str] = "WGRBOY"

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        checks.one_of("Cube", "turns", self.turns, TURNS)
        checks.integer_field("Cube", "size", self.size, 2, 3)

    @property
    def tables(self) -> Permutations:
        """Constants of the cube: its stickers, and how each turn permutes them."""
        every = self.size == 3 or self.all_faces
        return permutations.cube(self.size, self.turns == "half", "UFRBLD" if every else "UFR")

    @property
    def faces(self) -> tuple[tuple[str, str], ...]:
        """Pairs (index, meaning), where the index is an index into the observation, as text.

        The pairs explain the order of the faces, and of the rows and columns of each face.
        """
        places = ("`[face, row, column]`", "rows from above, columns from the left")
        return (places, *_faces_of_a_cube())

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the observation: 6 faces, rows and columns of stickers per face."""
        return (6, self.size, self.size)

    def is_goal(self, instance: Any, board: UInt8[Array, " stickers"]) -> Bool[Array, ""]:
        """Return whether every face has one colour."""
        if not self._rolls:
            return super().is_goal(instance, board)
        faces = board.reshape(6, -1)
        return (faces == faces[:, :1]).all()

    @property
    def _rolls(self) -> bool:
        """True if turns can change the orientation of the whole cube."""
        return self.all_faces and self.size == 2

    def heuristic(self, instance: Any, board: UInt8[Array, " stickers"]) -> Float32[Array, ""]:
        """Return the lower bound of the pattern databases.

        The databases assume that only one board is solved. Return 0 instead if the solved cube may
        have any orientation.
        """
        return jnp.zeros((), jnp.float32) if self._rolls else super().heuristic(instance, board)

    def tiles(self, state: PuzzleState) -> Int32[Array, "rows columns"]:
        """Return the unfolded cube as sprite indices: U above, L F R B in a row, D below.

        The indices are 0 nothing and 1 + c for a sticker of colour c.
        """
        faces = state.board.reshape(6, self.size, self.size).astype(jnp.int32) + 1
        up, front, right, back, left, down = faces
        nothing = jnp.zeros_like(up)
        rows = [[nothing, up, nothing, nothing], [left, front, right, back]]
        rows.append([nothing, down, nothing, nothing])
        return jnp.block(rows)

    def picture(
        self, state: PuzzleState, tile_size: int, params: Any = None
    ) -> UInt8[Array, "height width 3"]:
        """Draw the unfolded cube, and next to it the solid cube from two sides."""
        return self._drawn(state, tile_size, pictures.solids(self.size, tile_size))

    def picture_between(
        self, state: PuzzleState, action: int, share: float, tile_size: int
    ) -> UInt8[Array, "height width 3"]:
        """Draw the picture that is shown while an action turns a face.

        `share` is the completed fraction of the turn, from 0 to 1.
        """
        name = self.action_names[action]
        face, quarters = "UFRBLD".index(name[0]), {"": 1, "'": -1, "2": 2}[name[1:]]
        return self._drawn(
            state, tile_size, pictures.solids(self.size, tile_size, face, quarters * share)
        )

    def _drawn(
        self, state: PuzzleState, tile_size: int, solids: tuple[np.ndarray, np.ndarray]
    ) -> UInt8[Array, "height width 3"]:
        net = compose(self.tiles(state), self.atlas(tile_size))
        return pictures.cube(net, state.board, solids)


@register("Puzzle-Pyraminx-v0")
class Pyraminx(TwistyPuzzle):
    """Pyraminx without its tips: turn the corners of a tetrahedron until each face has one colour.

    Actions: for each vertex U L R B a turn by 120 degrees clockwise, and one anticlockwise.
    Observation: uint8 (4, 6), colours 0 to 3 of each face, where face i is opposite vertex i: three
        axial stickers (one at each vertex of the face, in the order U L R B), then the edge
        stickers opposite these vertices.
    Reward: 1 when solved. Episode ends: when solved, or at the time limit.
    """

    letters: ClassVar[str] = "GRBY"

    @property
    def tables(self) -> Permutations:
        """Constants of the Pyraminx: its stickers, and how each turn permutes them."""
        return permutations.pyraminx()

    @property
    def faces(self) -> tuple[tuple[str, str], ...]:
        """Pairs (index, meaning), where the index is an index into the observation, as text.

        The pairs explain at which vertices the axial and edge stickers of each face are.
        """
        rows = []
        for face, opposite in enumerate("ULRB"):
            corners = [vertex for vertex in "ULRB" if vertex != opposite]
            edges = ["".join(w for w in corners if w != vertex) for vertex in corners]
            places = f"axial stickers at {', '.join(corners)}, then edges {', '.join(edges)}"
            rows.append((f"`[{face}]`", f"the face opposite vertex {opposite}: {places}"))
        return tuple(rows)

    def tiles(self, state: PuzzleState) -> Int32[Array, "rows columns"]:
        """Return the stickers of each face as a row of sprite indices.

        The sprites are as in `Cube`: index 1 + c is a sticker of the cube's colour c.
        """
        return jnp.asarray(_PYRAMINX)[state.board.reshape(self.shape).astype(jnp.int32)] + 1

    def picture(
        self, state: PuzzleState, tile_size: int, params: Any = None
    ) -> UInt8[Array, "height width 3"]:
        """Draw the unfolded Pyraminx: the face opposite B, with the other faces around it."""
        colours = jnp.asarray(_PYRAMINX)[state.board.astype(jnp.int32)]
        return pictures.painted(pictures.pyraminx(tile_size), colours)


@register("Puzzle-Skewb-v0")
class Skewb(TwistyPuzzle):
    """Skewb: turn halves of a cube about its corners until each face has one colour.

    Actions: for each of four corners, no two of them adjacent, a turn by 120 degrees clockwise, and
        one anticlockwise.
    Observation: uint8 (6, 5), colours 0 to 5 of the faces U F R B L D: the centre, then the corners
        row by row, seen as in `Cube`.
    Reward: 1 when solved. Episode ends: when solved, or at the time limit.
    """

    letters: ClassVar[str] = "WGRBOY"

    @property
    def tables(self) -> Permutations:
        """Constants of the Skewb: its stickers, and how each turn permutes them."""
        return permutations.skewb()

    @property
    def faces(self) -> tuple[tuple[str, str], ...]:
        """Pairs (index, meaning), where the index is an index into the observation, as text.

        The pairs explain the order of the faces, and of the centre and corners of each face.
        """
        corners = "corners: upper left, upper right, lower left, lower right"
        return (("`[face, 0]`", "centre"), ("`[face, 1:5]`", corners), *_faces_of_a_cube())

    def tiles(self, state: PuzzleState) -> Int32[Array, "rows columns"]:
        """Return the unfolded Skewb as sprite indices: 0 nothing, 1 + c a sticker of colour c.

        A face has 3 x 3 tiles, with stickers in the corners and in the centre.
        """
        stickers = jnp.concatenate([jnp.zeros(1, jnp.int32), state.board.astype(jnp.int32) + 1])
        return stickers[_skewb_net()]

    def picture(
        self, state: PuzzleState, tile_size: int, params: Any = None
    ) -> UInt8[Array, "height width 3"]:
        """Draw the unfolded Skewb, with the centre of each face as a diamond."""
        return pictures.painted(pictures.skewb(tile_size), state.board)


def _faces_of_a_cube() -> tuple[tuple[str, str], ...]:
    """Return a pair (index, meaning) for each face of a cube.

    The meaning names the face, the face above it and the face on its left.
    """
    outward = {normal: name for name, (normal, _, _) in permutations.FACES.items()}
    rows = []
    for face, (name, (_, right, down)) in enumerate(permutations.FACES.items()):
        above, left = (outward[-way[0], -way[1], -way[2]] for way in (down, right))
        rows.append((f"`[{face}]`", f"face {name}, with {above} above it and {left} on its left"))
    return tuple(rows)


def _skewb_net() -> np.ndarray:
    """Return 1 + the index of the sticker in each tile of the unfolded Skewb, 0 in empty tiles."""
    net = np.zeros((9, 12), np.int32)
    # Row and column of each face in the unfolded Skewb, in units of faces.
    places = ((0, 1), (1, 1), (1, 2), (1, 3), (1, 0), (2, 1))
    inside = ((1, 1), (0, 0), (0, 2), (2, 0), (2, 2))
    for face, (row, column) in enumerate(places):
        for i, (down, right) in enumerate(inside):
            net[row * 3 + down, column * 3 + right] = 1 + face * 5 + i
    return net
