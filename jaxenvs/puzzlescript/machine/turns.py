"""Interpreter of PuzzleScript: plays turns of any game, whose compiled rules are an argument.

`play` repeats a micro-step until the turn is over. A micro-step is the same program for every game
and every phase of a turn, so a batch may contain different games. The results are as in
PuzzleScript's engine (increpare/PuzzleScript 4db08ebe, 2026-08-15), quirks included.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32

from ...core.carries import varying_with
from ...core.settle import stored
from . import ending, groups, lanes, matches, movement, planes
from .sizes import BITS, Size, Tables
from .state import (
    DONE,
    ENDS,
    RULES,
    Board,
    Program,
    Turn,
    empty_turn,
    select,
)

# Index of the movement bit of each of the actions up, right, down, left, action.
INPUTS = (0, 3, 1, 2, 4)
# Actions without a movement: let time pass, start the level, and leave the board unchanged.
TICK, START, NOTHING = 5, -1, -2


class Machine(NamedTuple):
    """An interpreter for all games that fit into `size`."""

    size: Size
    again_limit: int = 200  # maximum number of turns that the command `again` adds to an action
    # Number of micro-steps (iterations of the interpreter's loop) after which an action is stopped.
    most_steps: int = 1_000_000

    def play(
        self,
        tables: Tables,
        game: Int32[Array, ""],
        board: Board,
        action: Int32[Array, ""],
        draw: jax.tree_util.Partial,
    ) -> tuple[Board, Int32[Array, ""]]:
        """Play an action, and the further turns for which its rules ask by the command `again`.

        Returns the board and the number of micro-steps.

        The first axis of each leaf of `tables` is the games, and `game` is an index on it.

        Actions are 0 up, 1 right, 2 down, 3 left, 4 action, `TICK`, `NOTHING`, and `START`, which
        runs the rules only if the game has `run_rules_on_level_start`. `draw(i)` is random number i
        of this action, in [0, 1). `draw` is a `Partial`, so that `lanes.py` can batch its
        arguments.
        """
        return lanes.batched(self._play)(tables, game, board, action, draw)

    def _play(
        self, tables: Tables, game: Array, board: Board, action: Array, draw: jax.tree_util.Partial
    ) -> tuple[Board, Array]:
        program = Program.of(self.size, tables, game, self.again_limit)
        is_start = action == START
        turn = _pushed(program, empty_turn(self.size, board), action)
        runs = (action != NOTHING) & (~is_start | program.tables.at_start.all)
        phase = jnp.where(runs, RULES, DONE).astype(jnp.int32)
        turn = turn._replace(is_start=is_start, phase=phase)

        def goes_on(carry: tuple[Turn, Array]) -> Array:
            return (carry[0].phase != DONE) & (carry[1] < self.most_steps)

        def body(carry: tuple[Turn, Array]) -> tuple[Turn, Array]:
            return micro_step(program, carry[0], draw), carry[1] + 1

        inputs = (game, board, action, draw.args)
        first = varying_with(inputs, (turn, jnp.int32(0)))
        turn, count = jax.lax.while_loop(goes_on, body, first)
        stuck = turn.board.stuck | (turn.phase != DONE)
        return turn.board._replace(objects=turn.objects, stuck=stuck), count

    def missing(self, tables: Tables, game: Int32[Array, ""], board: Board) -> Int32[Array, ""]:
        """Return the number of cells with X but not Y, for a win condition `all X on Y`.

        For several `all` conditions, return the maximum; without any, return 0.
        """
        program = Program.of(self.size, tables, game, self.again_limit)
        found = matches.literals(program, empty_turn(self.size, board))
        return ending.missing(program, found)


def micro_step(p: Program, turn: Turn, draw: Any) -> Turn:
    """Advance a turn by one micro-step: apply a rule, move objects, or end the turn.

    The phase of the turn decides which of these is done. A turn that is over does not change.
    """
    found = matches.literals(p, turn)
    after, applied = groups.step(p, turn, found, draw)
    objects, moves = stored((after.objects, after.moves))
    after, moved = movement.step(p, after._replace(objects=objects, moves=moves))
    # Without the barrier, each GPU thread that reads an object would compute all movements again.
    after = after._replace(objects=jax.lax.optimization_barrier(after.objects))
    # `ending.step` reads `found`, which describes the turn before this micro-step. After a rule or
    # a movement, `found` is out of date; the turn then ends in a later micro-step.
    due = (after.phase == ENDS) & ~applied & ~moved
    return select(due, ending.step(p, after, found), after)


def _pushed(p: Program, turn: Turn, action: Int32[Array, ""]) -> Turn:
    """Give the player's objects the movement of an action.

    An action without a movement, such as `TICK`, gives no movement.
    """
    players = ending.players_of(p, matches.literals(p, turn))
    on_layer = p.tables.layer.all == planes.index(p.size.layers)[:, None]
    mine = (on_layer & p.tables.movers.all)[..., None, None]
    there = jnp.where(mine, turn.objects & players, jnp.uint32(0))
    pushed = planes.union(there, 1)
    is_input = (action >= 0) & (action < len(INPUTS))
    bit = jnp.array(INPUTS, jnp.int32)[jnp.clip(action, 0, len(INPUTS) - 1)]
    given = ((planes.index(BITS) == bit) & is_input)[:, None, None]
    turn = turn._replace(
        moves=jnp.where(given, pushed[:, None], jnp.uint32(0)),
        players=jnp.where(is_input, players, jnp.uint32(0)),
    )
    return turn._replace(rigid=turn.rigid and turn.rigid._replace(pushed=turn.moves))
