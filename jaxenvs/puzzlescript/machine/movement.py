"""Movement: objects with a movement go to the next cell if no object of their layer is there.

PuzzleScript's engine visits the cells column by column, and repeats this pass until a pass moves
nothing. Here a micro-step handles all cells together. The exception is a movement in a cell without
an object on the movement's layer: then a micro-step handles one cell, in the engine's order.
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
    # A cell may have a movement on a layer on which it has no object. An object of this layer that
    # enters the cell takes over the movement. The result then depends on the order of the moves, so
    # each micro-step handles only one cell.
    is_stale = planes.some(planes.union(wants, 1) & ~occupied).any()
    singly = is_stale | (turn.place >= -1)
    empty = ~occupied & matches.level_cells(p, turn.board)
    movers = jnp.where(singly, _next_cell(p, turn, wants, empty), _at_once(turn, wants, empty))
    movers = jnp.where(runs, movers, jnp.uint32(0))
    is_over = ~planes.some(movers).any()
    # If micro-steps handle single cells, repeat the pass over all cells if it moved an object.
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

    The directions are right, down, left and up. Objects do not move if they have several movements
    or the movement `action`, so their cells are omitted.
    """
    wants = turn.moves[:, jnp.array(BY_DIRECTION)]
    right, down, left, up = (wants[:, d] for d in range(4))
    several = (right & (down | left | up)) | (down & (left | up)) | (left & up)
    return wants & ~(several | turn.moves[:, 4])[:, None]


def _at_once(
    turn: Turn, wants: UInt32[Array, "layers four side words"], empty: Array
) -> UInt32[Array, "layers four side words"]:
    """Return, by layer and direction, the cells whose objects move if all cells move together.

    If objects of several neighbours could enter an empty cell, only the first neighbour in the
    order in which the engine visits cells moves its object: left, upper, lower, right. If the empty
    cell was occupied earlier in this phase, the engine has already visited the left and upper
    neighbours, so the order is lower, right, left, upper.
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
    """Return, by layer and direction, the one cell whose objects move next; no cell if none can.

    The cell is the first one after cell `turn.place`, column by column, from which an object can
    move.
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
