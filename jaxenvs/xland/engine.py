"""A step of XLand-MiniGrid 0.9.3: apply the action, then the rules in order, then test the goal.

Rules can change only the pocket (the object that the agent carries) and eight cells: the agent's
four neighbours, which include the cell in front of the agent, and the four neighbours of the cell
in front, which include the agent's cell. A step reads these cells into two uint32, applies all
rules to the two numbers, which stay in registers, and writes the cells back together.

Indexing beyond the grid follows xminigrid. An index above or left of the grid means the cell on the
opposite side. Cells below or right of the grid are empty, and writes to them are lost; an action on
such a cell reads the agent's own cell. All this matters only if an agent is on the border, where no
layout puts agents, or if a rule or the goal names the wall tile of the border.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int32, UInt8, UInt32

from ..core.bits import cut
from ..core.gridworld import packed
from ..core.platforms import by_platform
from ..core.settle import settled
from . import tiles
from .rulesets import (
    AGENT_AT,
    BESIDE_AGENT,
    BESIDE_TILE,
    HELD,
    ON,
    ON_PUT,
    TILE_AT,
    PackedRuleset,
)
from .state import Action, XLandState
from .tiles import Kind

_EACH_BYTE = np.uint32(0x01010101)
_FLOORS = np.uint32(tiles.FLOOR) * _EACH_BYTE
_LOW_BITS = np.uint32(0x7F7F7F7F)
# The eight cells that rules can change, in this order: the cells above, right of, below and left of
# the agent, then the cells above, right of, below and left of the cell in front of the agent.
_NUMBER = np.arange(8, dtype=np.int32)
_ROWS, _COLUMNS = np.array([-1, 0, 1, 0] * 2, np.int32), np.array([0, 1, 0, -1] * 2, np.int32)
_AHEAD = _NUMBER // 4
# For each of the eight cells, bit offset of its tile byte; four cells share a uint32.
_SHIFTS = (_NUMBER % 4 * 8).astype(np.uint32)


class Front(NamedTuple):
    """Position and tile of the cell in front of the agent, before the action."""

    row: Int32[Array, ""]
    column: Int32[Array, ""]
    tile: UInt32[Array, ""]
    before: Bool[Array, ""]  # whether the cell in front is above or left of the grid
    beyond: Bool[Array, ""]  # whether the cell in front is below or right of the grid


class Moment(NamedTuple):
    """Flags, masks and bit offsets that follow from the action and the agent's direction."""

    forward: Bool[Array, ""]  # whether the action is `FORWARD`
    picked: Bool[Array, ""]  # whether the action is `PICKUP`
    put: Bool[Array, ""]  # whether the action is `PUT`
    # Mask that selects, in `Scene.agent`, the byte of the cell in front of the agent; 0 if that
    # cell is below or right of the grid.
    in_front: UInt32[Array, ""]
    front: UInt32[Array, ""]  # bit offset, in `Scene.agent`, of the cell in front of the agent
    back: UInt32[Array, ""]  # bit offset, in `Scene.front`, of the agent's cell
    # Whether the cell in front is below or right of the grid. Rules then treat the agent's own cell
    # as the cell in front.
    beyond: Bool[Array, ""]


class Scene(NamedTuple):
    """The tile bytes that rules can change; a tile byte is the kind and the colour of an object.

    `agent` and `front` each hold the tile bytes of four neighbours in one uint32; from the lowest
    byte: up, right, down, left.
    """

    agent: UInt32[Array, ""]  # tile bytes of the four neighbours of the agent
    front: UInt32[Array, ""]  # tile bytes of the four neighbours of the cell in front of the agent
    pocket: UInt32[Array, ""]


def direction_vector(direction: Array) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Return the (row, column) change of one step; 0 is up, 1 right, 2 down, 3 left."""
    rows = (direction == 2).astype(jnp.int32) - (direction == 0).astype(jnp.int32)
    columns = (direction == 1).astype(jnp.int32) - (direction == 3).astype(jnp.int32)
    return rows, columns


def advance(
    state: XLandState, action: Array, ruleset: PackedRuleset
) -> tuple[XLandState, Bool[Array, ""]]:
    """Apply one action and then the rules; return the new state and whether the goal is reached."""
    height, width = state.grid.shape
    cells = state.grid.reshape(-1)
    front = _in_front(state, cells)
    left, pocket = _act_in_front(front.tile, state.pocket.astype(jnp.uint32), action)
    outside = front.before | front.beyond
    moves = (action == Action.FORWARD) & tiles.is_any(front.tile, tiles.WALKABLE) & ~outside
    row = jnp.where(moves, front.row, state.row)
    column = jnp.where(moves, front.column, state.column)
    index = _around(row, column, state.direction, height, width)
    moment = _moment(state.direction.astype(jnp.uint32), action, front.beyond)
    scene = by_platform(cells, index, pocket, cpu=_read_together, default=_read_one_by_one)
    changed = jnp.where(moves, np.uint32(0), moment.in_front)
    scene = scene._replace(agent=_select(changed, left * _EACH_BYTE, scene.agent))
    scene, row, column = settled((scene, row, column))
    scene = by_platform(ruleset.rules, scene, moment, cpu=_by_loop, default=_unrolled)
    reached = _reached(ruleset.goal, scene, moment) | _place_reached(
        ruleset.goal, cells, index, scene, moment.forward, (row, column), width
    )
    turn = (action == Action.RIGHT).astype(jnp.int32) - (action == Action.LEFT).astype(jnp.int32)
    after = packed(row, column, (state.direction + turn) & 3, scene.pocket)
    where = packed(row, column, state.direction, 0)
    grid = _written(cells, where, scene, height, width)
    return state.replace(grid=grid.reshape(height, width), agent=after), reached


def _in_front(state: XLandState, cells: UInt8[Array, " cells"]) -> Front:
    height, width = state.grid.shape
    d_row, d_column = direction_vector(state.direction)
    row, column = state.row + d_row, state.column + d_column
    read_row = jnp.where(row < 0, height - 1, jnp.minimum(row, height - 1))
    read_column = jnp.where(column < 0, width - 1, jnp.minimum(column, width - 1))
    tile = cells.at[read_row * width + read_column].get(mode="promise_in_bounds")
    return Front(
        row,
        column,
        tile.astype(jnp.uint32),
        before=(row < 0) | (column < 0),
        beyond=(row >= height) | (column >= width),
    )


def _act_in_front(
    front: UInt32[Array, ""], pocket: UInt32[Array, ""], action: Array
) -> tuple[UInt32[Array, ""], UInt32[Array, ""]]:
    """Pick up, put down or toggle; return the new tile in front and the new tile in the pocket."""
    empty = (pocket & 15) == 0
    picks = (action == Action.PICKUP) & tiles.is_any(front, tiles.THINGS) & empty
    puts = (action == Action.PUT) & ((front & 15) == Kind.FLOOR) & ~empty
    toggled = jnp.where(action == Action.TOGGLE, _toggled(front, pocket), front)
    left = jnp.where(picks, np.uint32(tiles.FLOOR), jnp.where(puts, pocket, toggled))
    return left, jnp.where(picks, front, jnp.where(puts, np.uint32(0), pocket))


def _toggled(front: UInt32[Array, ""], pocket: UInt32[Array, ""]) -> UInt32[Array, ""]:
    """Return the tile in front of the agent after a toggle.

    A toggle opens or closes a door. It opens a locked door only if the agent carries a key of the
    door's colour. The agent keeps the key, and the door is never locked again.
    """
    kind, painted = front & 15, front & 0xF0
    fits = pocket == (painted | np.uint32(Kind.KEY))
    opens = (kind == Kind.CLOSED_DOOR) | ((kind == Kind.LOCKED_DOOR) & fits)
    shut = jnp.where(kind == Kind.OPEN_DOOR, painted | np.uint32(Kind.CLOSED_DOOR), front)
    return jnp.where(opens, painted | np.uint32(Kind.OPEN_DOOR), shut)


def _around(
    row: Array, column: Array, direction: Array, height: int, width: int
) -> Int32[Array, "8"]:
    """Return the row-major indices of the eight cells that rules can change.

    The four neighbours of the agent come first, then the four neighbours of the cell in front. A
    cell below or right of the grid gets an index beyond the grid, which no other cell has.
    """
    d_row, d_column = direction_vector(direction)
    rows, columns = row + _ROWS + d_row * _AHEAD, column + _COLUMNS + d_column * _AHEAD
    rows = jnp.where(rows < 0, rows + height, rows)
    columns = jnp.where(columns < 0, columns + width, columns)
    inside = (rows < height) & (columns < width)
    return jnp.where(inside, rows * width + columns, height * width + _NUMBER)


def _read_together(
    cells: UInt8[Array, " cells"], index: Int32[Array, "8"], pocket: UInt32[Array, ""]
) -> Scene:
    read = cells.at[index].get(mode="fill", fill_value=0).astype(jnp.uint32) << _SHIFTS
    agent, front = (half.sum(dtype=jnp.uint32) for half in (read[:4], read[4:]))
    return Scene(agent=agent, front=front, pocket=pocket)


def _read_one_by_one(
    cells: UInt8[Array, " cells"], index: Int32[Array, "8"], pocket: UInt32[Array, ""]
) -> Scene:
    """Read each cell by a scalar gather, which XLA fuses into the kernels that use its value."""
    agent, front = jnp.uint32(0), jnp.uint32(0)
    for number in range(8):
        cell = cells.at[index[number]].get(mode="fill", fill_value=0)
        placed = cell.astype(jnp.uint32) << _SHIFTS[number]
        agent, front = (agent | placed, front) if number < 4 else (agent, front | placed)
    return Scene(agent=agent, front=front, pocket=pocket)


def _written(
    cells: UInt8[Array, " cells"], where: Int32[Array, ""], scene: Scene, height: int, width: int
) -> UInt8[Array, " cells"]:
    """Return `cells` with the eight cells of `scene` written to them.

    `where` packs the agent's row, column and direction.
    """
    # The barrier keeps XLA from fusing the rules into this scatter, because the fused kernel would
    # apply the rules again for each byte. That kernel would also read the agent's old pose, so a
    # scan would have to copy the state instead of updating it in place.
    where, agent, front = jax.lax.optimization_barrier((where, scene.agent, scene.front))
    row, column, direction = cut(where, 8, 8, 8)
    index = _around(row, column, direction, height, width)
    new = (jnp.where(_AHEAD == 0, agent, front) >> _SHIFTS).astype(jnp.uint8)
    return cells.at[index].set(new, mode="drop", unique_indices=True)


def _moment(direction: UInt32[Array, ""], action: Array, beyond: Bool[Array, ""]) -> Moment:
    front, back = direction * 8, (direction ^ 2) * 8
    return Moment(
        forward=action == Action.FORWARD,
        picked=action == Action.PICKUP,
        put=action == Action.PUT,
        in_front=jnp.where(beyond, np.uint32(0), np.uint32(255) << front),
        front=front,
        back=back,
        beyond=beyond,
    )


def _unrolled(rules: UInt32[Array, " rules"], scene: Scene, moment: Moment) -> Scene:
    """Apply all rules in an unrolled loop, so that XLA fuses them into one GPU kernel."""
    for number in range(rules.shape[0]):
        scene = _apply_rule(rules[number], scene, moment)
    return scene


def _by_loop(rules: UInt32[Array, " rules"], scene: Scene, moment: Moment) -> Scene:
    """Apply all rules in a scan.

    A scan computes each rule once. On a CPU, XLA would compute unrolled rules again for each
    output.
    """

    def one(scene: Scene, rule: Array) -> tuple[Scene, None]:
        return _apply_rule(rule, scene, moment), None

    return jax.lax.scan(one, scene, rules, unroll=3)[0]


def _apply_rule(rule: UInt32[Array, ""], scene: Scene, moment: Moment) -> Scene:
    """Apply one rule to the cells and the pocket, which earlier rules may have changed."""
    made = (rule >> 16) & 255
    beside, pair, held = _matches(rule, scene, moment)
    everywhere = made * _EACH_BYTE
    cleared = jnp.where(pair != 0, moment.in_front, np.uint32(0))
    agent = _select(beside, everywhere, scene.agent)
    return Scene(
        agent=_select(cleared, _FLOORS, agent),
        front=_select(pair, everywhere, scene.front),
        pocket=jnp.where(held, made, scene.pocket),
    )


def _matches(
    rule: UInt32[Array, ""], scene: Scene, moment: Moment
) -> tuple[UInt32[Array, ""], UInt32[Array, ""], Bool[Array, ""]]:
    """Return where a step meets the condition of a rule or a goal.

    The results are a byte mask of the agent's four neighbours, a byte mask of the four neighbours
    of the cell in front, and a bool for the object in the pocket.
    """
    a, b, flags = rule & 255, (rule >> 8) & 255, rule >> 24
    here = jnp.where(moment.beyond, scene.front >> moment.back, scene.agent >> moment.front) & 255
    sides = flags & 15
    opposite = ((sides << 2) | (sides >> 2)) & 15
    acts = moment.forward | (moment.put & ((flags & ON_PUT) != 0))
    acts = acts & ((flags & BESIDE_AGENT) != 0)
    beside = jnp.where(acts, _equal(scene.agent, a) & _spread(sides), np.uint32(0))
    put = moment.put & ((flags & BESIDE_TILE) != 0)
    pair = jnp.where(put & (here == a), _equal(scene.front, b) & _spread(sides), np.uint32(0))
    other = jnp.where(put & (here == b), _equal(scene.front, a) & _spread(opposite), np.uint32(0))
    held = moment.picked & ((flags & HELD) != 0) & (scene.pocket == a)
    return beside, pair | other, held


def _reached(goal: UInt32[Array, ""], scene: Scene, moment: Moment) -> Bool[Array, ""]:
    """Return whether a goal about neighbouring cells or about the pocket is reached."""
    beside, pair, held = _matches(goal, scene, moment)
    return (beside != 0) | (pair != 0) | held


def _place_reached(
    goal: UInt32[Array, ""],
    cells: UInt8[Array, " cells"],
    index: Int32[Array, "8"],
    scene: Scene,
    forward: Bool[Array, ""],
    at: tuple[Int32[Array, ""], Int32[Array, ""]],
    width: int,
) -> Bool[Array, ""]:
    """Return whether a goal about the tile of one cell or about the agent's position is reached.

    cells: the grid before the rules applied.
    index, scene: indices and tiles of the eight cells that the rules may have changed.

    A `TILE_AT` goal reads its cell from `scene` if `scene` contains the cell, else from `cells`. An
    `ON` goal reads the agent's own cell from `cells`, because rules cannot change this cell when
    the action is `FORWARD`.
    """
    flags, row, column = goal >> 24, ((goal >> 8) & 255), ((goal >> 16) & 255)
    named = (row * np.uint32(width) + column).astype(jnp.int32)
    cell = jnp.where(flags == TILE_AT, named, at[0] * width + at[1])
    tile = cells.at[cell].get(mode="clip").astype(jnp.uint32)
    for number in range(8):
        word = scene.agent if number < 4 else scene.front
        changed = (index[number] == cell) & (flags == TILE_AT)
        tile = jnp.where(changed, (word >> _SHIFTS[number]) & 255, tile)
    there = (tile == goal & 255) & ((flags == TILE_AT) | ((flags == ON) & forward))
    here = (at[0].astype(jnp.uint32) == row) & (at[1].astype(jnp.uint32) == column)
    return there | ((flags == AGENT_AT) & here)


def _select(mask: Array, new: ArrayLike, old: Array) -> Array:
    """Return the bits of `new` where the bits of `mask` are 1, else the bits of `old`."""
    return old ^ ((old ^ new) & mask)


def _equal(word: UInt32[Array, ""], byte: UInt32[Array, ""]) -> UInt32[Array, ""]:
    """Return a byte mask: 0xFF where the byte of `word` equals `byte`, 0 elsewhere."""
    differs = word ^ (byte * _EACH_BYTE)
    zero = ~(((differs & _LOW_BITS) + _LOW_BITS) | differs | _LOW_BITS)
    return (zero >> 7) * np.uint32(255)


def _spread(sides: UInt32[Array, ""]) -> UInt32[Array, ""]:
    """Expand the four low bits to four bytes: 0xFF for a set bit, 0 for an unset one."""
    spread = (sides & 1) | (sides & 2) << 7 | (sides & 4) << 14 | (sides & 8) << 21
    return spread * np.uint32(255)
