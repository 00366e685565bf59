"""The end of a turn: commands, win conditions, and the turns that the command `again` adds."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt32

from . import matches, planes, sizes
from .matches import Literals
from .state import DONE, ENDS, RULES, Program, Turn, next_turn


def step(p: Program, turn: Turn, found: Literals) -> Turn:
    """End a turn: carry out queued commands, check win conditions, and start the next turn if any.

    The command `again` adds a turn without input. If the rules draw random numbers, PuzzleScript's
    engine first plays this turn as a trial, which decides whether the turn takes place. The trial's
    board is discarded, but the random numbers that it draws are used up. `found` is the result of
    `matches.literals` for the turn.
    """
    queue, board = turn.commands, turn.board
    is_real = ~turn.is_trial
    is_blocked = p.tables.must_move.all & _no_player_moved(p, turn)
    cancelled = is_blocked | (queue & sizes.CANCEL > 0)
    restarted = ~cancelled & (queue & sizes.RESTART > 0) & ~turn.is_restart & is_real
    objects = jnp.where(cancelled, turn.before, turn.objects)
    objects = jnp.where(restarted, board.start, objects)
    queue = jnp.where(restarted, 0, queue)
    modified = (objects != turn.before).any()
    # After a restart, the game plays a turn without input if it has `run_rules_on_level_start`.
    # Otherwise, or if that turn is cancelled, only the win conditions are checked.
    restarts = restarted & p.tables.at_start.all
    checks = (restarted & ~restarts) | (turn.is_restart & cancelled)
    holds = wins(p, found)
    # The engine does not take an `again` turn that would change nothing. Sizes with random numbers
    # play a trial to find out. Here the turn is played, but it cannot win by the win conditions.
    taken = jnp.bool_(True) if p.size.draws else (turn.agains == 0) | modified
    won = ~cancelled & ~turn.is_restart & ((queue & sizes.WIN > 0) | (holds & taken))
    won = (won | (turn.is_restart & holds & ~cancelled)) & ~turn.is_start & is_real & ~restarted
    goes_on = ~cancelled & ~won & ~restarted
    again = goes_on & is_real & (queue & sizes.AGAIN > 0) & modified
    others = queue & ~jnp.uint8(sizes.CANCEL) > 0
    ends = queue & (sizes.WIN | sizes.RESTART) > 0
    confirmed = turn.is_trial & jnp.where(cancelled, others, modified | ends)
    checkpoint = goes_on & (queue & sizes.CHECKPOINT > 0) & ~confirmed
    is_last = turn.agains >= p.again_limit
    after = board._replace(
        start=jnp.where(checkpoint, objects, board.start),
        won=board.won | won,
        stuck=board.stuck | (again & is_last),
    )
    more = restarts | confirmed | (again & ~is_last)
    objects = jnp.where(turn.is_trial, turn.before, objects)
    following = next_turn(turn._replace(board=after), objects)._replace(
        is_start=(restarts | checks) & turn.is_start,
        is_restart=restarts,
        is_trial=again if p.size.draws else jnp.bool_(False),
        # The repeated check of the win conditions counts although it changes nothing.
        agains=jnp.where(checks, 0, turn.agains + again.astype(jnp.int32)),
        phase=jnp.where(more, RULES, DONE).astype(jnp.int32),
    )
    # The win conditions were tested on the board before a restart, or before the turn after it was
    # cancelled. If `checks` is True, they are tested on the new board, so this phase is repeated.
    ends_again = jnp.where(checks, ENDS, following.phase).astype(jnp.int32)
    return following._replace(phase=ends_again)


def _no_player_moved(p: Program, turn: Turn) -> Bool[Array, ""]:
    """Return whether the turn has an input and no player has left its cell.

    A player has left its cell if the cell has none of the objects that the name PLAYER means. One
    remaining object is enough to stay, even if PLAYER is an aggregate (several objects in one
    cell).
    """
    mine = jnp.where(p.tables.movers.all[:, None, None], turn.objects, jnp.uint32(0))
    players = planes.union(mine, 0)
    return planes.some(turn.players) & ~planes.some(turn.players & ~players)


def players_of(p: Program, found: Literals) -> UInt32[Array, "side words"]:
    """Return the bit plane of the cells with a player."""
    return matches.matching(p, found, p.tables.player.all)


def wins(p: Program, found: Literals) -> Bool[Array, ""]:
    """Return whether the game has win conditions, and all of them hold on the board.

    `found` is the result of `matches.literals` for the board.
    """
    x, y = _conditions(p, found)
    kind = p.tables.win_kind.all
    are_some, are_all = planes.some(x & y), ~planes.some(x & ~y)
    each = jnp.where(kind == 0, are_all, jnp.where(kind == 1, are_some, ~are_some))
    return (each | (kind < 0)).all() & (kind >= 0).any()


def missing(p: Program, found: Literals) -> Int32[Array, ""]:
    """Return the number of cells with X but not Y, for a win condition `all X on Y`.

    For several `all` conditions, return the maximum; without any, return 0.
    """
    x, y = _conditions(p, found)
    lacks = jax.lax.population_count(x & ~y).astype(jnp.int32).sum(axis=(-2, -1), dtype=jnp.int32)
    return jnp.where(p.tables.win_kind.all == 0, lacks, 0).max()


def _conditions(p: Program, found: Literals) -> tuple[UInt32[Array, "..."], UInt32[Array, "..."]]:
    """Return, for each win condition, the bit planes of the cells with X and of those with Y.

    X and Y are the objects of the condition, for example of `all X on Y`.
    """
    x = matches.matching(p, found, p.tables.win_x.all)
    return x, matches.matching(p, found, p.tables.win_y.all)
