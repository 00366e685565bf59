"""Interpreter of PuzzleScript: plays turns of any game, whose compiled rules are an argument.

`play` has two nested loops. The inner loop repeats a micro-step, which applies a rule or moves
objects, until neither is left to do. The outer loop then ends the turn: it carries out commands and
tests the win conditions. It repeats both for each further turn that an action takes, such as an
`again` turn. The program is the same for every game and every phase of a turn, so a batch may
contain different games. The results are as in PuzzleScript's engine (increpare/PuzzleScript
4db08ebe, 2026-08-15), quirks included.
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
    Packed,
    Program,
    Turn,
    empty_turn,
    joined,
    packed,
    select,
    unpacked,
)

# Index of the movement bit of each of the actions up, right, down, left, action.
INPUTS = (0, 3, 1, 2, 4)
# Actions without a movement: let time pass, start the level, and leave the board unchanged.
TICK, START, NOTHING = 5, -1, -2


class Machine(NamedTuple):
    """An interpreter for all games that fit into `size`."""

    size: Size
    again_limit: int = 200  # maximum number of turns that the command `again` adds to an action
    # Number of micro-steps (iterations of the inner loop) after which an action is stopped. Ends of
    # turns do not count.
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
        program = matches.prepared(Program.of(self.size, tables, game, self.again_limit), board)
        is_start = action == START
        turn = _pushed(program, empty_turn(self.size, board), action)
        runs = (action != NOTHING) & (~is_start | program.tables.at_start.all)
        phase = jnp.where(runs, RULES, DONE).astype(jnp.int32)
        turn = turn._replace(is_start=is_start, phase=phase)

        def goes_on(carry: tuple[Turn, Array]) -> Array:
            return (carry[0].phase != DONE) & (carry[1] < self.most_steps)

        def play_turn(carry: tuple[Turn, Array]) -> tuple[Turn, Array]:
            before, count = carry

            def is_in_turn(turn: Turn, count: Array) -> Array:
                return goes_on((turn, count)) & (turn.phase != ENDS)

            def step(part: Packed) -> Packed:
                turn, count = micro_step(program, unpacked(before, part), draw), part.numbers[1] + 1
                return packed(turn, is_in_turn(turn, count), count)

            part = packed(before, is_in_turn(before, count), count)
            part = jax.lax.while_loop(lambda part: part.numbers[0] > 0, step, part)
            turn, ends = unpacked(before, part), part.numbers[2] == ENDS
            after = ending.step(program, turn, matches.literals(program, turn))
            return select(ends, after, turn), part.numbers[1]

        inputs = (game, board, action, draw.args)
        first = varying_with(inputs, (turn, jnp.int32(0)))
        turn, count = jax.lax.while_loop(goes_on, play_turn, first)
        stuck = turn.board.stuck | (turn.phase != DONE)
        return turn.board._replace(objects=turn.objects, stuck=stuck), count

    def missing(self, tables: Tables, game: Int32[Array, ""], board: Board) -> Int32[Array, ""]:
        """Return the number of cells with X but not Y, for a win condition `all X on Y`.

        For several `all` conditions, return the maximum; without any, return 0.
        """
        program = matches.prepared(Program.of(self.size, tables, game, self.again_limit), board)
        found = matches.literals(program, empty_turn(self.size, board))
        return ending.missing(program, found)


def micro_step(p: Program, turn: Turn, draw: Any) -> Turn:
    """Advance a turn by one micro-step: apply a rule or move objects.

    The phase of the turn decides which of these is done. If the rules end without effect, the same
    micro-step moves objects. In the phases ENDS and DONE, the turn does not change.
    """
    after = groups.step(p, turn, matches.literals(p, turn), draw)
    return movement.step(p, after._replace(planes=stored(after.planes)))


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
    moves = jnp.where(given, pushed[:, None], jnp.uint32(0))
    turn = turn._replace(
        planes=joined(turn.objects, moves), players=jnp.where(is_input, players, jnp.uint32(0))
    )
    return turn._replace(rigid=turn.rigid and turn.rigid._replace(pushed=turn.moves))
