"""Movement: objects with a movement go to the next cell if no object of their layer is there.

PuzzleScript's engine visits the cells column by column, and repeats this pass until a pass moves
nothing. Here a micro-step handles all cells together. The exception is a movement in a cell without
an object on the movement's layer: then a micro-step handles one cell, in the engine's order.
"""

import jax.numpy as jnp
from jaxtyping import Array, UInt32

from . import planes, rigid
from .planes import DOWN, LEFT, OPPOSITE, RIGHT, UP
from .sizes import BITS
from .state import ENDS, LATE, MOVES, Program, Turn, joined, select

# Direction of each movement bit; the last bit is the movement `action`.
BY_BIT = (UP, DOWN, LEFT, RIGHT)


def step(p: Program, turn: Turn) -> Turn:
    """Move objects in the phase MOVES; if none can move, clear all movements and end the phase.

    In another phase, return the turn as it is.
    """
    size, runs = p.size, turn.phase == MOVES
    on_layer = (p.tables.layer.all == planes.index(size.layers)[:, None])[..., None, None]
    occupied = planes.union(jnp.where(on_layer, turn.objects, jnp.uint32(0)), 1)
    wants = _wants(turn)
    # A cell may have a movement on a layer on which it has no object. An object of this layer that
    # enters the cell takes over the movement. The result then depends on the order of the moves, so
    # each micro-step handles only one cell.
    empty = ~occupied & p.inside
    free = jnp.stack([planes.moved(empty, OPPOSITE[d]) for d in BY_BIT], 1)
    able = wants & free
    is_stale, is_able = planes.some_of(wants & ~occupied[:, None], able)
    singly = is_stale | (turn.place >= -1)
    # The cell whose objects move next, if a micro-step handles one cell: the first one after cell
    # `turn.place`, column by column.
    columns = jnp.bool_(True)
    after = planes.since(turn.place.clip(-1) + 1, columns, 1, size.side, size.words)[0]
    later = able & after
    numbers = planes.numbers(later, columns)
    cell = numbers.min()
    moves = jnp.where(singly, cell != planes.NONE, is_able) & runs
    one = jnp.where(numbers == cell, later & -later, jnp.uint32(0))
    movers = jnp.where(singly, one, _at_once(turn, wants, empty))
    movers = jnp.where(moves, movers, jnp.uint32(0))
    # If micro-steps handle single cells, repeat the pass over all cells if it moved an object.
    again = singly & ~moves & (turn.place >= 0)
    left = turn.moves & ~jnp.pad(movers, [(0, 0), (0, 1), (0, 0), (0, 0)])
    is_done = ~(left[:, :4] != 0).any()  # whether no direction of movement is left
    ends = runs & ((~moves & ~again) | is_done)
    place = jnp.where(singly & moves, cell, turn.place)
    late = p.tables.late.all
    following = jnp.where(late < p.tables.end.all, LATE, ENDS)
    after = turn._replace(
        planes=joined(_moved(p, turn.objects, movers), jnp.where(ends, jnp.uint32(0), left)),
        vacated=turn.vacated | planes.union(movers, 1),
        place=jnp.where(runs & again, -1, place),
        phase=jnp.where(ends, following, turn.phase).astype(jnp.int32),
        rule=jnp.where(ends, late, turn.rule),
    )
    if size.rigid:
        blocked = turn._replace(planes=joined(turn.objects, left))
        after = select(ends, rigid.resolved(p, blocked, after), after)
    return after


def _wants(turn: Turn) -> UInt32[Array, "layers four side words"]:
    """Return, by layer and movement bit, the cells with a movement in this direction alone.

    Objects do not move if they have several movements or the movement `action`, so their cells are
    omitted.
    """
    up, down, left, right, action = (turn.moves[:, bit] for bit in range(BITS))
    several = (right & (down | left | up)) | (down & (left | up)) | (left & up)
    return turn.moves[:, :4] & ~(several | action)[:, None]


def _at_once(
    turn: Turn, wants: UInt32[Array, "layers four side words"], empty: Array
) -> UInt32[Array, "layers four side words"]:
    """Return, by layer and movement bit, the cells whose objects move if all cells move together.

    If objects of several neighbours could enter an empty cell, only the first neighbour in the
    order in which the engine visits cells moves its object: left, upper, lower, right. If the empty
    cell was occupied earlier in this phase, the engine has already visited the left and upper
    neighbours, so the order is lower, right, left, upper.
    """
    asks = {d: planes.moved(wants[:, bit], d) for bit, d in enumerate(BY_BIT)}
    movers = {d: jnp.zeros_like(empty) for d in BY_BIT}
    for free, order in (
        (empty & ~turn.vacated, (RIGHT, DOWN, UP, LEFT)),
        (empty & turn.vacated, (UP, LEFT, RIGHT, DOWN)),
    ):
        for d in order:
            movers[d] |= asks[d] & free
            free = free & ~asks[d]
    return jnp.stack([planes.moved(movers[d], OPPOSITE[d]) for d in BY_BIT], 1)


def _moved(p: Program, objects: Array, movers: Array) -> UInt32[Array, "objects side words"]:
    """Return the cells of each object after a movement.

    `movers` has, by layer and movement bit, the cells whose objects of the layer move.
    """
    mine = movers[p.tables.layer.all]
    after = objects & ~planes.union(mine, 1)
    for bit, d in enumerate(BY_BIT):
        after |= planes.moved(objects & mine[:, bit], d)
    return after
