"""State of the interpreter: a level in play, and a turn between two micro-steps."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt8, UInt32

from .sizes import BITS, Size, Tables

RULES, MOVES, LATE, ENDS, DONE = range(5)  # phases of a turn


class Board(NamedTuple):
    """A level in play. Planes of cells are described in `planes.py`."""

    objects: UInt32[Array, "objects side words"]  # cells that have each object
    start: UInt32[Array, "objects side words"]  # objects that the command `restart` restores
    width: Int32[Array, ""]
    height: Int32[Array, ""]
    won: Bool[Array, ""]
    stuck: Bool[Array, ""]  # whether a limit (`again` turns, micro-steps) stopped a turn


class Place(NamedTuple):
    """A match: the cell at which it starts, and how many cells its ellipsis skips."""

    x: Int32[Array, "*batch"]
    y: Int32[Array, "*batch"]
    gap: Int32[Array, "*batch"]


class Turn(NamedTuple):
    """A turn between two micro-steps."""

    objects: UInt32[Array, "objects side words"]
    moves: UInt32[Array, "layers five side words"]  # cells that move up, down, left, right, action
    before: UInt32[Array, "objects side words"]  # objects at the start of the turn
    # Cells with a player at the start of the turn; none in a turn without input.
    players: UInt32[Array, "side words"]
    board: Board  # board at the start of the turn, with the latest `start`, `won` and `stuck`
    phase: Int32[Array, ""]  # RULES, MOVES, LATE, ENDS or DONE
    rule: Int32[Array, ""]  # index of the next rule, or of the rule that is being applied
    changed: Bool[Array, ""]  # whether this pass over the group of rules has changed something
    passes: Int32[Array, ""]  # number of repeated passes over the group
    any_changed: Bool[Array, ""]  # whether any group changed something since the last loop jump
    loops: Int32[Array, ""]  # number of loop jumps
    commands: UInt8[Array, ""]  # queued commands, one bit each
    applying: Bool[Array, ""]  # whether `rule` still has matches to apply
    # Matches that `rule` had before it was applied, without those that are already settled if the
    # rule is `simple`.
    waiting: UInt32[Array, "rows gaps side words"]
    pointer: Place  # tuple that was applied last: a match of each row
    vacated: UInt32[Array, "layers side words"]  # cells that an object left in this phase
    # Last cell whose objects moved, if cells are handled one at a time; -1: none yet; -2: all cells
    # are handled together.
    place: Int32[Array, ""]
    # Whether this is the turn at the start of a level, in which wins are not checked.
    is_start: Bool[Array, ""]
    # Whether this is such a turn after `restart`, in which win conditions are checked after all.
    is_restart: Bool[Array, ""]
    is_trial: Bool[Array, ""]  # whether the turn only decides whether an `again` turn follows
    agains: Int32[Array, ""]  # number of `again` turns since the action
    drawn: Int32[Array, ""]  # number of random numbers used since the action
    # Number of tuples of a random group counted so far; -1: in no random group.
    counted: Int32[Array, ""]
    # Index of the tuple of a random group that is to be applied; -1: not drawn yet.
    target: Int32[Array, ""]


class Row:
    """One game's row of a table that stacks all games; only elements that are read are gathered."""

    def __init__(self, table: Any, game: Array) -> None:
        self.table, self.game = jnp.asarray(table), game

    def __getitem__(self, index: Array) -> Array:
        """Return the entries at `index` on the first axis of the row.

        The entry of an index behind the end is unspecified. The rows of all games are indexed as
        one array: with an index of two parts, XLA would launch a kernel of its own to join them.
        """
        games, count, *shape = self.table.shape
        joined = self.table.reshape(games * count, *shape)
        place = self.game * np.int32(count) + index.astype(jnp.int32)
        return _wide(joined.at[place].get(mode="promise_in_bounds"))

    @property
    def all(self) -> Array:
        """The whole row."""
        return _wide(self.table.at[self.game].get(mode="promise_in_bounds"))


def _wide(read: Array) -> Array:
    """Convert int8 and int16 to int32: JAX's strict promotion does not mix integer types."""
    return read.astype(jnp.int32) if read.dtype in (jnp.int8, jnp.int16) else read


class Program(NamedTuple):
    """The program of a micro-step: the tables of one game, and the static size."""

    size: Size
    tables: Any  # `Tables` of the game, whose fields are `Row`s
    again_limit: int = 200  # maximum number of `again` turns after an input

    @classmethod
    def of(cls, size: Size, tables: Tables, game: Array, again_limit: int) -> "Program":
        """Select a game of stacked tables, whose leaves have the games as their first axis."""
        return cls(size, jax.tree.map(lambda table: Row(table, game), tables), again_limit)


def empty_turn(size: Size, board: Board) -> Turn:
    """Return a turn on `board` in which nothing has happened yet."""
    zero, false = jnp.int32(0), jnp.bool_(False)
    shape = (size.side, size.words)
    return Turn(
        objects=board.objects,
        moves=jnp.zeros((size.layers, BITS, *shape), jnp.uint32),
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
        pointer=Place(*jnp.zeros((3, size.rows), jnp.int32)),
        vacated=jnp.zeros((size.layers, *shape), jnp.uint32),
        place=jnp.int32(-2),
        is_start=false,
        is_restart=false,
        is_trial=false,
        agains=zero,
        drawn=zero,
        counted=jnp.int32(-1),
        target=jnp.int32(-1),
    )


def next_turn(turn: Turn, objects: Array) -> Turn:
    """Return a turn without input that starts with the board `objects`."""
    return fresh(turn)._replace(
        objects=objects,
        before=objects,
        moves=jnp.zeros_like(turn.moves),
        players=jnp.zeros_like(turn.players),
        phase=jnp.int32(RULES),
        rule=jnp.int32(0),
        commands=jnp.uint8(0),
        applying=jnp.bool_(False),
        counted=jnp.int32(-1),
        target=jnp.int32(-1),
    )


def fresh(turn: Turn) -> Turn:
    """Reset the records of changes, passes and loop jumps, before the next list of groups."""
    return turn._replace(
        changed=jnp.bool_(False),
        passes=jnp.int32(0),
        any_changed=jnp.bool_(False),
        loops=jnp.int32(0),
    )


def select(condition: Array, one: Any, other: Any) -> Any:
    """Return the pytree `one` if `condition` is True, else `other`."""
    return jax.tree.map(lambda a, b: a if a is b else jnp.where(condition, a, b), one, other)
