"""State of the interpreter: a level in play, and a turn that is not over yet."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt8, UInt32

from . import planes
from .sizes import BITS, Size, Tables

# Phases of a turn: rules, movement of objects, late rules, commands and win conditions, turn over.
RULES, MOVES, LATE, ENDS, DONE = range(5)


class Board(NamedTuple):
    """A level in play. A set of cells is a bit plane: one bit for each cell, see `planes.py`."""

    objects: UInt32[Array, "objects side words"]  # bit plane of each object's cells
    start: UInt32[Array, "objects side words"]  # the objects' cells that `restart` restores
    width: Int32[Array, ""]
    height: Int32[Array, ""]
    won: Bool[Array, ""]  # whether a turn has won the level
    # Whether an action was stopped because it had too many `again` turns (turns that the command
    # `again` adds) or micro-steps.
    stuck: Bool[Array, ""]


class Place(NamedTuple):
    """A match of a row (pair of brackets) of a rule: its start cell and its gap.

    The start cell is in column `x` and line `y`.
    """

    x: Int32[Array, "*batch"]
    y: Int32[Array, "*batch"]
    # Number of cells that the ellipsis skips. If rows may have two ellipses, an index into
    # `Size.skips`, a table of pairs of these numbers.
    gap: Int32[Array, "*batch"]


class Rigid(NamedTuple):
    """State of rigid rules in a turn, see `rigid.py`; group numbers start at 1."""

    # For each layer and cell: number of the rigid group whose rule set the movement of the objects;
    # 0: none. Each binary digit of the number is stored as a bit plane.
    records: UInt32[Array, "layers bits side words"]
    # Movements that the action gave to the player at the start of the turn.
    pushed: UInt32[Array, "layers five side words"]
    # For each group number: whether this turn skips the rules of the group.
    banned: Bool[Array, " numbers"]


class Turn(NamedTuple):
    """A turn that is not over yet, between two iterations (micro-steps) of the interpreter."""

    # Bit plane of each object's current cells, and then five planes for each layer: cells whose
    # objects have the movement up, down, left, right or action.
    planes: UInt32[Array, "planes side words"]
    before: UInt32[Array, "objects side words"]  # each object's cells at the turn's start
    # Cells with a player at the start of the turn; none in a turn without input.
    players: UInt32[Array, "side words"]
    # The board before the action. No turn changes its `objects`. At the end of each turn, `won` and
    # `stuck` are updated, and also `start` if a rule has queued the command `checkpoint`.
    board: Board
    phase: Int32[Array, ""]  # RULES, MOVES, LATE, ENDS or DONE
    rule: Int32[Array, ""]  # index of the next rule, or of the rule that is being applied
    changed: Bool[Array, ""]  # whether the current pass over the group of `rule` changed something
    passes: Int32[Array, ""]  # number of times that the group of `rule` has been repeated
    # Whether any group changed something since the last jump back from `endloop` to `startloop`.
    any_changed: Bool[Array, ""]
    loops: Int32[Array, ""]  # number of jumps from `endloop` to `startloop` in this phase
    # Commands of applied rules, which the end of the turn carries out, as bits of `sizes.COMMANDS`.
    commands: UInt8[Array, ""]
    applying: Bool[Array, ""]  # whether `rule` still has matches to apply
    # Start cells of the matches that `rule` had before any of them was applied. If the rule is
    # simple (see `Tables.simple`), a match is removed when it is applied or dropped.
    waiting: UInt32[Array, "rows gaps side words"]
    # Numbers (see `matches.numbers`) of the matches to which `rule` was applied last, one for each
    # row (bracket) of the rule.
    pointer: Int32[Array, " rows"]
    # For each layer: cells that an object has left since the movement of objects began.
    vacated: UInt32[Array, "layers side words"]
    # -2 if a micro-step moves objects of all cells together. If it moves objects of one cell only
    # (see `movement.py`): index of the last cell whose objects moved, counted column by column; -1
    # at the start of a pass over the cells.
    place: Int32[Array, ""]
    # Whether this is the turn that starts a level, or a turn after a `restart` in that turn. It
    # cannot win the level.
    is_start: Bool[Array, ""]
    # Whether the turn follows a command `restart`. It ignores the commands `restart` and `win`, but
    # it can win by the win conditions.
    is_restart: Bool[Array, ""]
    # Whether the turn is a trial, which only decides whether an `again` turn follows.
    is_trial: Bool[Array, ""]
    agains: Int32[Array, ""]  # number of `again` turns since the action
    drawn: Int32[Array, ""]  # number of random numbers used since the action
    # Number of tuples of those rules of the random group that precede `rule`. It is -1 outside of a
    # random group, and until the tuples of the group's first rule are counted. A tuple is one match
    # for each row (pair of brackets) of a rule.
    counted: Int32[Array, ""]
    # Index of the drawn tuple among all tuples of the random group; -1: not drawn yet.
    target: Int32[Array, ""]
    rigid: Rigid | None  # state of rigid rules; None if the size has no rigid groups

    @property
    def objects(self) -> UInt32[Array, "objects side words"]:
        """Bit plane of each object's current cells."""
        return self.planes[: len(self.before)]

    @property
    def moves(self) -> UInt32[Array, "layers five side words"]:
        """For each layer: cells whose objects have the movement up, down, left, right or action."""
        moves = self.planes[len(self.before) :]
        return moves.reshape(-1, BITS, *moves.shape[1:])


class Row:
    """View of one game's entries in an array whose first axis is the games.

    Indexing the view gathers only the elements that are read.
    """

    def __init__(self, table: Any, game: Array) -> None:
        self.table, self.game = jnp.asarray(table), game
        # Not computed in `__getitem__`, because a loop would repeat it in each iteration.
        self.start = game * np.int32(self.table.shape[1]) if self.table.ndim > 1 else game

    def __getitem__(self, index: Array) -> Array:
        """Return this game's entries at `index`, an index on the array's second axis.

        An index after the end gives an unspecified result. The array's first two axes (game, entry)
        are flattened before indexing, because XLA would launch a separate kernel to combine the two
        indices.
        """
        games, count, *shape = self.table.shape
        joined = self.table.reshape(games * count, *shape)
        place = self.start + index.astype(jnp.int32)
        return _wide(joined.at[place].get(mode="promise_in_bounds"))

    @property
    def all(self) -> Array:
        """All entries of this game, as an array without the axis of the games."""
        return _wide(self.table.at[self.game].get(mode="promise_in_bounds"))


def _wide(read: Array) -> Array:
    """Convert int8 and int16 arrays to int32: JAX's strict promotion does not mix integer types."""
    return read.astype(jnp.int32) if read.dtype in (jnp.int8, jnp.int16) else read


class Program(NamedTuple):
    """A game for the interpreter: the tables of its rules, and the static size of all arrays."""

    size: Size
    tables: Any  # tables of the game: `Tables` whose fields are `Row`s
    again_limit: int = 200  # maximum number of turns that the command `again` adds to an action
    inside: Any = None  # bit plane of all cells of the level, which may be smaller than the plane
    # For each set of `Tables.sets`, whether it has each bit plane, bool (sets, planes); None if the
    # sets are too many to store this.
    members: Any = None
    layers: Any = None  # collision layer of each plane of `Turn.planes`, int32

    @classmethod
    def of(cls, size: Size, tables: Tables, game: Array, again_limit: int) -> "Program":
        """Return the program of the game with index `game` in `tables`.

        The leaves of `tables` have the games as their first axis.
        """
        return cls(size, jax.tree.map(lambda table: Row(table, game), tables), again_limit)


# Fields of `Turn` without axes that a micro-step changes.
SCALARS = (
    "phase",
    "rule",
    "changed",
    "passes",
    "any_changed",
    "loops",
    "commands",
    "applying",
    "place",
    "drawn",
    "counted",
    "target",
)


class Packed(NamedTuple):
    """The part of a turn that a micro-step changes. One array has all numbers without axes."""

    # Whether the turn is not over; number of micro-steps; `SCALARS`; then `Turn.pointer`.
    numbers: Int32[Array, " n"]
    planes: UInt32[Array, "planes side words"]
    waiting: UInt32[Array, "rows gaps side words"]
    vacated: UInt32[Array, "layers side words"]
    rigid: Rigid | None


def packed(turn: Turn, goes_on: Bool[Array, ""], count: Int32[Array, ""]) -> Packed:
    """Return the part of a turn that a micro-step changes."""
    scalars = [goes_on, count, *(getattr(turn, name) for name in SCALARS), *turn.pointer]
    numbers = planes.stacked([each.astype(jnp.int32) for each in scalars])
    return Packed(numbers, turn.planes, turn.waiting, turn.vacated, turn.rigid)


def unpacked(turn: Turn, part: Packed) -> Turn:
    """Return a turn with the fields that `packed` returned."""
    first = part.numbers[2 : 2 + len(SCALARS)]
    values = {
        name: value.astype(getattr(turn, name).dtype)
        for name, value in zip(SCALARS, first, strict=True)
    }
    rest = part._asdict()
    del rest["numbers"]
    return turn._replace(**values, **rest, pointer=part.numbers[2 + len(SCALARS) :])


def joined(objects: Array, moves: Array) -> UInt32[Array, "planes side words"]:
    """Return `Turn.planes` for the planes `Turn.objects` and `Turn.moves`."""
    return jnp.concatenate([objects, moves.reshape(-1, *objects.shape[1:])])


def empty_turn(size: Size, board: Board) -> Turn:
    """Return a turn on `board` in which nothing has happened yet."""
    zero, false = jnp.int32(0), jnp.bool_(False)
    shape = (size.side, size.words)
    return Turn(
        planes=joined(board.objects, jnp.zeros((size.layers, BITS, *shape), jnp.uint32)),
        before=board.objects,
        players=jnp.zeros(shape, jnp.uint32),
        board=board,
        phase=jnp.int32(RULES),
        rule=zero,
        changed=false,
        passes=zero,
        any_changed=false,
        loops=zero,
        commands=jnp.uint8(0),
        applying=false,
        waiting=jnp.zeros((size.rows, size.gaps, *shape), jnp.uint32),
        pointer=jnp.zeros(size.rows, jnp.int32),
        vacated=jnp.zeros((size.layers, *shape), jnp.uint32),
        place=jnp.int32(-2),
        is_start=false,
        is_restart=false,
        is_trial=false,
        agains=zero,
        drawn=zero,
        counted=jnp.int32(-1),
        target=jnp.int32(-1),
        rigid=_no_rigid(size) if size.rigid else None,
    )


def _no_rigid(size: Size) -> Rigid:
    """Return the state of rigid rules (`Rigid`) at the start of a turn without input."""
    plane = (size.side, size.words)
    return Rigid(
        records=jnp.zeros((size.layers, size.group_bits, *plane), jnp.uint32),
        pushed=jnp.zeros((size.layers, BITS, *plane), jnp.uint32),
        banned=jnp.zeros(1 << size.group_bits, jnp.bool_),
    )


def next_turn(turn: Turn, objects: Array) -> Turn:
    """Return a turn without input on the board `objects`, the cells that each object occupies."""
    return fresh(turn)._replace(
        planes=joined(objects, jnp.zeros_like(turn.moves)),
        before=objects,
        players=jnp.zeros_like(turn.players),
        phase=jnp.int32(RULES),
        rule=jnp.int32(0),
        commands=jnp.uint8(0),
        applying=jnp.bool_(False),
        counted=jnp.int32(-1),
        target=jnp.int32(-1),
        rigid=jax.tree.map(jnp.zeros_like, turn.rigid),
    )


def fresh(turn: Turn) -> Turn:
    """Reset the counts and flags for repeated groups and loops of rules, before the next phase."""
    return turn._replace(
        changed=jnp.bool_(False),
        passes=jnp.int32(0),
        any_changed=jnp.bool_(False),
        loops=jnp.int32(0),
    )


def select(condition: Array, one: Any, other: Any) -> Any:
    """Return the pytree `one` if `condition` is True, else `other`."""
    return jax.tree.map(lambda a, b: a if a is b else jnp.where(condition, a, b), one, other)
