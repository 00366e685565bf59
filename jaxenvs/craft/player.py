"""The player's orientation and movement, and the cell that the player faces."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from ..core.bits import any_of
from .compiler.once import held, once
from .ground import Ground, codes, is_in
from .packing import Field
from .state import World, changed, mobs_of, one
from .step import Front, Moment
from .tables import Action, Block

_EIGHT = np.delete(np.arange(9, dtype=np.int32), 4)
_AROUND = _EIGHT // 3 - 1, _EIGHT % 3 - 1  # row and column offsets of a cell's eight neighbours
_FRONT = (
    Field("row", 8, low=-1),
    Field("column", 8, low=-1),
    Field("block", 6),
    Field("marks", 2),
    Field("inside", 1, flag=True),
    Field("taken", 1, flag=True),
    Field("table", 1, flag=True),
)


def doze(moment: Moment) -> Moment:
    """Replace the player's action by NOOP while the player sleeps or rests."""
    idle = is_idle(moment.world)
    return moment._replace(action=jnp.where(idle, Action.NOOP, moment.action))


def is_idle(world: World) -> Bool[Array, ""]:
    """Return whether the player sleeps or rests."""
    return world.sleeping if world.resting is None else world.sleeping | world.resting


def face(moment: Moment) -> Moment:
    """Turn the player in the direction of a move, even if the move is blocked.

    Then look at the cell ahead, and store it in `Moment.front`.
    """
    world, action = moment.world, moment.action
    world = world._replace(facing=jnp.where(_is_move(action), action, world.facing))
    return moment._replace(world=world, front=look(moment.ground, world))


def look(ground: Ground, world: World) -> Front:
    """Return the `Front`: the cell ahead, and whether a crafting table or furnace is near."""
    facing = world.facing
    row = world.row + one(facing == Action.DOWN) - one(facing == Action.UP)
    column = world.column + one(facing == Action.RIGHT) - one(facing == Action.LEFT)
    mobs = mobs_of(world)
    taken = any_of(mob.marked & (mob.row == row) & (mob.column == column) for mob in mobs)
    table, furnace = _around(ground, world)
    inside, cell = ground.inside(row, column), ground.cell(row, column)
    block = ground.block_of(cell)
    # Clip to -1, the lowest number that the packed fields `_FRONT` can store. Lower rows and
    # columns occur only after the end of an episode.
    row, column = jnp.maximum(row, -1), jnp.maximum(column, -1)
    front = Front(row, column, block, ground.marks_of(cell), inside, taken, table, furnace)
    return held(_FRONT, front)


def move(moment: Moment) -> Moment:
    """Move the player to the cell ahead if the action is a move and the cell is free.

    In Classic, lava counts as free. In god mode of the full game, every cell of the map is free.

    Craftax's quirk in Classic: if the player faces the upper or left border, Craftax takes the cell
    at the opposite border as the cell ahead. If this cell is lava, the player can step off the map,
    and dies.
    """
    world, front, rules = moment.world, moment.front, moment.rules
    free = front.inside & ~is_in(front.block, rules.solid | rules.barred) & ~front.taken
    if rules.is_full:
        free = free | (front.inside & moment.params.god_mode)
    else:
        free = free | (front.block == Block.LAVA)
    goes = _is_move(moment.action) & free
    return moment._replace(world=changed(world, goes, row=front.row, column=front.column))


def _around(ground: Ground, world: World) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
    """Return whether a crafting table, and whether a furnace, is next to the player.

    All eight neighbouring cells count.
    """
    row, column = world.row + _AROUND[0], world.column + _AROUND[1]
    blocks = ground.block_of(ground.nearest(row, column))
    code = codes(blocks, {Block.CRAFTING_TABLE}, {Block.FURNACE})
    count = jnp.where(ground.inside(row, column), (code & 1) | (code >> 1 << 4), 0)
    both = once(count.sum(dtype=jnp.int32))
    return (both & 15) != 0, both > 15


def _is_move(action: Array) -> Bool[Array, ""]:
    return (action >= Action.LEFT) & (action <= Action.DOWN)
