"""Shapes of the compiled interpreter, and the tables that it reads."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int8, Int16, Int32, UInt8, UInt32

from ..tables import BITS

WORD = 32  # number of bits of a word; a bit stands for a cell, a plane or an object
# A literal is an integer that stands for a set of cells (see `Tables`); -n stands for the cells of
# the level that are not in the set of n.
TRUE = 1  # literal for all cells of the level, so -TRUE stands for no cell
# Literal for the cells of bit plane 0. The next bit planes have the next integers: 3, 4, ...
FIRST = 2
DIRECTIONS = ("right", "down", "left", "up")  # directions of rules, by index in the tables
CANCEL, RESTART, CHECKPOINT, WIN, AGAIN, OTHER = (1 << i for i in range(6))
# Bit of each command in a mask. All commands without an effect on the board share the bit OTHER.
COMMANDS = {
    "cancel": CANCEL,
    "restart": RESTART,
    "checkpoint": CHECKPOINT,
    "win": WIN,
    "again": AGAIN,
}
KINDS = ("all", "some", "no")  # types of win conditions, by index in the tables


class Size(NamedTuple):
    """Static shape of the interpreter's arrays: the largest numbers that a game may need."""

    side: int  # number of cells on the longer side of a level
    objects: int  # number of objects
    layers: int  # number of collision layers
    rules: int  # number of rules after expansion, each for one direction (see `expand.py`)
    rows: int  # number of rows (pairs of brackets) of a rule
    cells: int  # number of cells of a row before its first ellipsis
    tail: int  # number of cells of a row after its last ellipsis; 0 if no rule has an ellipsis
    tests: int  # number of literals (see `Tables`) in the condition of a pattern
    changes: int  # number of literals that show whether a replacement changes a cell
    sets: int  # number of sets of bit planes (see `Tables.sets`) that literals name
    patterns: int  # number of different patterns, which are cells of rules
    wins: int  # number of win conditions
    draws: bool  # whether rules may draw random numbers
    rigid: int = 0  # number of rigid groups
    middle: int = 0  # number of cells of a row between two ellipses
    # Number of rules that an iteration of the interpreter tests together; see `usual_window`.
    window: int = 8

    @property
    def words(self) -> int:
        """Number of uint32 words in which a bit plane stores a line of cells, one bit per cell."""
        return -(-self.side // WORD)

    @property
    def width(self) -> int:
        """Number of cells of a row, the cells before, between and after its ellipses together."""
        return self.cells + self.middle + self.tail

    @property
    def planes(self) -> int:
        """Number of bit planes: one for each object, and five movements for each layer."""
        return self.objects + BITS * self.layers

    @property
    def group_bits(self) -> int:
        """Number of bits that store the number of a rigid group; groups are numbered from 1."""
        return self.rigid.bit_length()

    @property
    def known(self) -> int:
        """Number of bit planes for which there are literals: `planes`, plus `Rigid.records`."""
        return self.planes + self.group_bits * self.layers

    @property
    def gaps(self) -> int:
        """Number of different values of `Place.gap`, the number of cells that an ellipsis skips.

        If a row may have two ellipses, this is the number of pairs in `skips`.
        """
        if self.middle:
            return self.side * (self.side + 1) // 2
        return self.side if self.tail else 1

    @property
    def skips(self) -> Int32[np.ndarray, "gaps two"]:
        """Pairs (cells that the first ellipsis of a row skips, cells that the second one skips).

        The pairs are in the order in which PuzzleScript's engine tries them.
        """
        pairs = [(a, b) for a in range(self.side) for b in range(self.side - a)]
        return np.array(pairs, np.int32)

    @classmethod
    def over(cls, sizes: Iterable["Size"]) -> "Size":
        """Return the smallest size that holds all of `sizes`."""
        return cls(*(max(values) for values in zip(*sizes, strict=True)))

    def extended(self, other: "Size") -> "Size":
        """Return this size, extended by the rare features that `other` has.

        The rare features are random numbers, rigid groups and two ellipses. The number of rigid
        groups is rounded up to 2^n - 1, which needs no more bits. Games with similar numbers of
        groups therefore share a compiled program.
        """
        rigid = (1 << other.group_bits) - 1
        return self._replace(draws=other.draws, rigid=rigid, middle=other.middle)

    def holds(self, other: "Size") -> bool:
        """Return whether tables of the size `other` fit into this size."""
        return all(mine >= theirs for mine, theirs in zip(self[:-1], other[:-1], strict=True))


def usual_window(rules: int) -> int:
    """Return the number of rules that are tested together in a game with `rules` rules.

    A larger number needs fewer iterations to find a rule with an effect, but each takes longer. On
    one CPU core, cakemonsters (136 rules) played 1,190, 1,790, 2,670 and 3,200 turns/s with 4, 8,
    16 and 32; crates (4 rules) played 82,000, 77,000 and 59,000 turns/s with 4, 8 and 16. A cost
    model for an H200 predicts that with 32 an iteration of size `large` takes 1.6 times as long as
    with 8. Games with 239 and 449 rules needed 70 % and 40 % of the iterations.
    """
    return min(rules, max(8, min(rules // 8, 16)))


# Sizes that many games share. They hold 52, 76 and 95 % of a sample of 906 games that are not
# shipped with jaxenvs. For games with random numbers, rigid groups or two ellipses, `extended`
# enlarges the size. Random numbers add 17 kernels to a micro-step of size `small` on a GPU. Rigid
# groups and two ellipses (28 games of the sample) also enlarge the state of a turn: in size `small`
# it grows from 13 kB to 15 kB for 1 to 7 rigid groups, and to 28 kB for two ellipses.
SIZES = {
    "small": Size(16, 32, 6, 128, 2, 4, 3, 6, 5, 64, 160, 3, False),
    "medium": Size(32, 64, 12, 512, 3, 6, 4, 8, 6, 160, 512, 4, False),
    "large": Size(64, 160, 30, 4096, 5, 16, 8, 12, 8, 640, 2048, 8, False),
}
MOST = np.iinfo(np.int16).max  # largest number of rules or patterns that the tables can index


class Tables(NamedTuple):
    """The rules and win conditions of a game as arrays, whose shapes a `Size` determines.

    A bit plane is a set of cells. The plane with index o has the cells of object o. After the
    planes of all objects, there are five planes for each layer, one for each movement. The planes
    of `Rigid.records` follow if the size has rigid groups.

    A pattern is a cell of a rule: a condition and a replacement. A condition is a list of literals.
    A literal is an integer that stands for a set of cells. `TRUE` stands for all cells of the
    level. The literals from FIRST on stand for the planes, in order. The literals after them stand
    for the unions of the planes in `sets[0]`, `sets[1]` and so on. A literal -n stands for the
    cells of the level that are not in the set of n.
    """

    sets: UInt32[np.ndarray, "sets plane_words"]  # bit mask of the planes in each union
    # First `Size.tests` literals of the condition: a cell matches the pattern if all of them hold
    # there. Then `Size.changes` literals: the replacement of the pattern changes a cell if one of
    # them holds there.
    literals: Int16[np.ndarray, "patterns literals"]
    # Bit mask of the planes from which the replacement removes the cell.
    clear: UInt32[np.ndarray, "patterns plane_words"]
    # Bit mask of the planes to which the replacement then adds the cell.
    set: UInt32[np.ndarray, "patterns plane_words"]
    # Bit mask of the objects from which `random` draws the object that the replacement adds.
    chosen: UInt32[np.ndarray, "patterns object_words"]
    # Bit mask of the random numbers that the replacement draws. Bit 0: one for the object of
    # `random`. Bit 1 + l: one for the direction (`randomdir`) of layer l.
    draw: UInt32[np.ndarray, "patterns draw_words"]
    # Pattern index of each cell of a row: `Size.cells` before the first ellipsis, `Size.middle`
    # between two ellipses, and `Size.tail` after the last ellipsis.
    cells: Int16[np.ndarray, "rules rows width"]
    length: Int8[np.ndarray, "rules rows"]  # number of cells before the first ellipsis; 0: no row
    tail_length: Int8[np.ndarray, "rules rows"]  # number of cells after an ellipsis; 0: no ellipsis
    direction: Int8[np.ndarray, " rules"]  # direction of the rule, as an index in DIRECTIONS
    # Whether the rule has one row (pair of brackets), no ellipsis and no random draw.
    simple: Bool[np.ndarray, " rules"]
    draws: Bool[np.ndarray, " rules"]  # whether applying the rule draws random numbers
    commands: UInt8[np.ndarray, " rules"]  # bit mask of the rule's commands
    first: Int16[np.ndarray, " rules"]  # index of the first rule of the rule's group
    final: Int16[np.ndarray, " rules"]  # index of the last rule of the rule's group
    last: Bool[np.ndarray, " rules"]  # whether the rule is the last one of its group
    # Index of the first rule of the loop that ends with this rule; -1 if no loop ends here.
    loop: Int16[np.ndarray, " rules"]
    random: Bool[np.ndarray, " rules"]  # whether the rule's group is random
    late: Int32[np.ndarray, ""]  # index of the first late rule
    end: Int32[np.ndarray, ""]  # number of rules, late rules included
    layer: Int8[np.ndarray, " objects"]  # collision layer of each object
    win_kind: Int8[np.ndarray, " wins"]  # type of the win condition, an index in KINDS; -1: unused
    win_x: Int16[np.ndarray, " wins"]  # pattern index of X in a win condition such as `all X on Y`
    win_y: Int16[np.ndarray, " wins"]  # pattern index of Y in a win condition such as `all X on Y`
    player: Int16[np.ndarray, ""]  # index of the pattern that matches cells with a player
    movers: Bool[np.ndarray, " objects"]  # whether the object is one that the name PLAYER means
    must_move: Bool[np.ndarray, ""]  # whether the game has `require_player_movement`
    at_start: Bool[np.ndarray, ""]  # whether the game has `run_rules_on_level_start`
    # Number of cells between two ellipses; None if the size has no rows with two ellipses.
    middle_length: Int8[np.ndarray, "rules rows"] | None
    # The following tables are None if the size has no rigid groups, which are numbered from 1.
    rigid: Int8[np.ndarray, " rules"] | None  # number of the rule's rigid group; 0: not rigid
    rigid_groups: Int8[np.ndarray, ""] | None  # number of rigid groups
    # Number of the rigid group that the pattern's replacement records for a layer; 0: none.
    recorded: Int8[np.ndarray, "patterns layers"] | None


def bits(mask: int) -> list[int]:
    """Return the positions of the bits that are set in a mask, the lowest first."""
    return [i for i in range(mask.bit_length()) if mask >> i & 1]
