"""Movement: objects with a movement go to the next cell if no object of their layer is there.

PuzzleScript's engine visits the cells column by column, and repeats this pass until it moves
nothing. Here, a micro-step normally handles all cells together. If a cell has a movement on a layer
but no object of the layer, each micro-step handles one cell, in the engine's order.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt32

from . import matches, planes, rigid
from .planes import DOWN, LEFT, OPPOSITE, RIGHT, UP
from .state import ENDS, LATE, MOVES, Program, Turn, select

# Index of the movement bit of each direction, in the order right, down, left, up. The order of the
# movement bits is up, down, left, right, action.
BY_DIRECTION = (3, 1, 2, 0)


def step(p: Program, turn: Turn) -> tuple[Turn, Bool[Array, ""]]:
    """Move objects in the phase MOVES; if none can move, clear all movements and end the phase.

    In another phase, return the turn as it is. Also return whether an object moved.
    """
    size, runs = p.size, turn.phase == MOVES
    on_layer = (p.tables.layer.all == planes.index(size.layers)[:, None])[..., None, None]
    occupied = planes.union(jnp.where(on_layer, turn.objects, jnp.uint32(0)), 1)
    wants = _wants(turn)
    # A cell may have a movement on a layer on which it has no object. An object of the layer that
    # enters the cell then takes over this movement. The result depends on the order of the moves,
    # so each micro-step handles only one cell.
    is_stale = planes.some(planes.union(wants, 1) & ~occupied).any()
    singly = is_stale | (turn.place >= -1)
    empty = ~occupied & matches.level_cells(p, turn.board)
    movers = jnp.where(singly, _next_cell(p, turn, wants, empty), _at_once(turn, wants, empty))
    movers = jnp.where(runs, movers, jnp.uint32(0))
    is_over = ~planes.some(movers).any()
    # In the mode of one cell per micro-step: repeat the pass over the cells if it moved an object.
    again = singly & is_over & (turn.place >= 0)
    moves = turn.moves.at[:, :4].set(turn.moves[:, :4] & ~movers[:, jnp.array(BY_DIRECTION)])
    is_done = ~planes.some(moves[:, :4]).any()  # whether no direction of movement is left
    ends = runs & ((is_over & ~again) | is_done)
    place = jnp.where(singly, _place(movers), turn.place)
    late = p.tables.late.all
    following = jnp.where(late < p.tables.end.all, LATE, ENDS)
    after = turn._replace(
        objects=_moved(p, turn.objects, movers),
        moves=jnp.where(ends, jnp.uint32(0), moves),
        vacated=turn.vacated | planes.union(movers, 1),
        place=jnp.where(runs, jnp.where(again, -1, place), turn.place),
        phase=jnp.where(ends, following, turn.phase).astype(jnp.int32),
        rule=jnp.where(ends, late, turn.rule),
    )
    if size.rigid:
        after = select(ends, rigid.resolved(p, turn._replace(moves=moves), after), after)
    return after, ~is_over


def _wants(turn: Turn) -> UInt32[Array, "layers four side words"]:
    """Return, by layer and direction, the cells with a movement in this direction alone.

    The directions are right, down, left and up. Cells with several movements on the layer, or with
    the movement `action`, are left out, because their objects do not move.
    """
    wants = turn.moves[:, jnp.array(BY_DIRECTION)]
    right, down, left, up = (wants[:, d] for d in range(4))
    several = (right & (down | left | up)) | (down & (left | up)) | (left & up)
    return wants & ~(several | turn.moves[:, 4])[:, None]


def _at_once(
    turn: Turn, wants: UInt32[Array, "layers four side words"], empty: Array
) -> UInt32[Array, "layers four side words"]:
    """Return, by layer and direction, the cells whose objects move if all cells move together.

    If several neighbours of an empty cell have objects that want to enter, the neighbour that the
    engine visits first wins: left, upper, lower, right. If the cell became empty during this phase,
    the engine has already visited its left and upper neighbours; the order is then lower, right,
    left, upper.
    """
    asks = jnp.stack([planes.moved(wants[:, d], d) for d in range(4)], 1)
    movers = [jnp.zeros_like(empty) for _ in range(4)]
    for free, order in (
        (empty & ~turn.vacated, (RIGHT, DOWN, UP, LEFT)),
        (empty & turn.vacated, (UP, LEFT, RIGHT, DOWN)),
    ):
        for d in order:
            movers[d] |= asks[:, d] & free
            free = free & ~asks[:, d]
    return jnp.stack([planes.moved(movers[d], OPPOSITE[d]) for d in range(4)], 1)


def _next_cell(
    p: Program, turn: Turn, wants: UInt32[Array, "layers four side words"], empty: Array
) -> UInt32[Array, "layers four side words"]:
    """Return, by layer and direction, the one cell whose objects move next.

    It is the first cell after `turn.place`, column by column, from which an object can move. If no
    cell is left, all planes are empty.
    """
    size = p.size
    free = jnp.stack([planes.moved(empty, OPPOSITE[d]) for d in range(4)], 1)
    able = wants & free
    ordered = planes.cells(planes.union(able, 0, 1)).T.reshape(-1)
    ordered &= planes.index(len(ordered)) > turn.place
    x, y = jnp.divmod(planes.first(ordered), size.side)
    one = planes.cell(x, y, size.side, size.words)
    return able & jnp.where(ordered.any(), one, jnp.uint32(0))


def _place(movers: UInt32[Array, "layers four side words"]) -> Int32[Array, ""]:
    """Return the index of the only cell whose objects move; cells are counted column by column."""
    return planes.first(planes.cells(planes.union(movers, 0, 1)).T.reshape(-1)).astype(jnp.int32)


def _moved(p: Program, objects: Array, movers: Array) -> UInt32[Array, "objects side words"]:
    """Return the cells of each object after a movement.

    `movers` has, by layer and direction, the cells whose objects of the layer move.
    """
    mine = movers[p.tables.layer.all]
    after = objects & ~planes.union(mine, 1)
    for d in range(4):
        after |= planes.moved(objects & mine[:, d], d)
    return after
