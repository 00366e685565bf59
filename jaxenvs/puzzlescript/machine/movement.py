"""Movement: objects with a movement go to the next cell if no object of their layer is there.

The engine visits cells column by column and repeats until a pass moves nothing. One micro-step here
moves all objects whose outcome that order decides alike, and single cells where it matters.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32, UInt32

from . import matches, planes
from .planes import DOWN, LEFT, OPPOSITE, RIGHT, UP
from .state import LATE, Program, Turn

# Movement bits in the order right, down, left, up. The tables have up, down, left, right, action.
BY_DIRECTION = (3, 1, 2, 0)


def _or(plane: UInt32[Array, "..."], *axes: int) -> UInt32[Array, "..."]:
    return jax.lax.reduce(plane, jnp.uint32(0), jax.lax.bitwise_or, axes)


def step(p: Program, turn: Turn) -> Turn:
    """Move objects; when none moves any more, clear all movements and go on to the late rules."""
    size = p.size
    on_layer = (p.tables.layer.all == planes.index(size.layers)[:, None])[..., None, None]
    occupied = _or(jnp.where(on_layer, turn.objects, jnp.uint32(0)), 1)
    wants = _wants(turn)
    # If a cell has a movement on a layer but no object there, the first object that arrives on this
    # layer inherits the movement. In this case the order of cells matters, and cells move singly.
    is_stale = planes.some(_or(wants, 1) & ~occupied).any()
    singly = is_stale | (turn.place >= -1)
    empty = ~occupied & matches.level_cells(p, turn.board)
    movers = jnp.where(singly, _next_cell(p, turn, wants, empty), _at_once(turn, wants, empty))
    is_over = ~planes.some(movers).any()
    again = singly & is_over & (turn.place >= 0)  # a pass that moved something is repeated
    ends = is_over & ~again
    place = jnp.where(singly, _place(movers), turn.place)
    moves = turn.moves.at[:, :4].set(turn.moves[:, :4] & ~movers[:, jnp.array(BY_DIRECTION)])
    return turn._replace(
        objects=_moved(p, turn.objects, movers),
        moves=jnp.where(ends, jnp.uint32(0), moves),
        vacated=turn.vacated | _or(movers, 1),
        place=jnp.where(again, -1, place),
        phase=jnp.where(ends, LATE, turn.phase).astype(jnp.int32),
        rule=jnp.where(ends, p.tables.late.all, turn.rule),
    )


def _wants(turn: Turn) -> UInt32[Array, "layers four side words"]:
    """Return the cells that move right, down, left and up, by layer.

    Cells with several directions or with the movement `action` are left out.
    """
    wants = turn.moves[:, jnp.array(BY_DIRECTION)]
    right, down, left, up = (wants[:, d] for d in range(4))
    several = (right & (down | left | up)) | (down & (left | up)) | (left & up)
    return wants & ~(several | turn.moves[:, 4])[:, None]


def _at_once(
    turn: Turn, wants: UInt32[Array, "layers four side words"], empty: Array
) -> UInt32[Array, "layers four side words"]:
    """Return the cells that move now, by layer and direction, if all cells are visited together.

    An empty cell takes the first neighbour in the order of cells: from the left, from above, from
    below, from the right. The engine has already passed the left and upper neighbours of a cell
    that became empty in this phase, so these come last there.
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
    """Return the movers of one cell only: the first that can move after `turn.place`.

    Cells are in the order column by column.
    """
    size = p.size
    free = jnp.stack([planes.moved(empty, OPPOSITE[d]) for d in range(4)], 1)
    able = wants & free
    ordered = planes.cells(_or(able, 0, 1)).T.reshape(-1)
    ordered &= planes.index(len(ordered)) > turn.place
    x, y = jnp.divmod(planes.first(ordered), size.side)
    one = planes.cell(x, y, size.side, size.words)
    return able & jnp.where(ordered.any(), one, jnp.uint32(0))


def _place(movers: UInt32[Array, "layers four side words"]) -> Int32[Array, ""]:
    """Return the place of the only cell that moves, counted column by column."""
    return planes.first(planes.cells(_or(movers, 0, 1)).T.reshape(-1)).astype(jnp.int32)


def _moved(p: Program, objects: Array, movers: Array) -> UInt32[Array, "objects side words"]:
    """Return the objects after all movers have moved.

    An object moves in a direction if its cell is in the plane of its layer and this direction.
    """
    mine = movers[p.tables.layer.all]
    after = objects & ~_or(mine, 1)
    for d in range(4):
        after |= planes.moved(objects & mine[:, d], d)
    return after
