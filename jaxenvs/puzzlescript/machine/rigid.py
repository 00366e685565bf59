"""Rigid rules: if a rigid rule's movement is blocked, the turn restarts without the rule's group.

To find the group of a blocked movement, the replacement of a rigid rule records the number of its
rigid group in the cell, on each layer whose movements it replaces. It does so only if at least one
of these layers has no record in the cell; then the replacement counts as a change.

On a layer that already has a record, the new record is the bitwise or of both numbers, as in
PuzzleScript's engine. It may equal the number of another group, or of no group.
"""

from typing import TYPE_CHECKING

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32

from . import planes
from .state import RULES, Program, Turn, fresh, joined, select

if TYPE_CHECKING:
    from .replacements import Target


def banned(p: Program, turn: Turn, rules: Int32[Array, "*n"]) -> Bool[Array, "*n"]:
    """Return for each rule whether the turn skips it because its rigid group is banned.

    A group is banned for the rest of a turn in which one of its movements was blocked.
    """
    assert turn.rigid
    group = p.tables.rigid[rules]
    return (group > 0) & turn.rigid.banned[group]


def recorded(p: Program, turn: Turn, target: "Target") -> tuple[Turn, Bool[Array, ""]]:
    """Record the number of a rule's rigid group in the cells in which the rule replaces something.

    The second result is whether a record is new.
    """
    assert turn.rigid
    where = target.where.reshape(-1, *target.where.shape[-2:])
    groups = p.tables.recorded[target.patterns.reshape(-1)]
    digits = (groups[..., None] >> planes.index(p.size.group_bits)) & 1
    records, is_new = turn.rigid.records, jnp.bool_(False)
    for i in range(len(where)):
        missing = where[i] & ~planes.union(records, 1)
        new = planes.union(jnp.where(groups[i, :, None, None] > 0, missing, jnp.uint32(0)), 0)
        records |= jnp.where(digits[i, :, :, None, None] > 0, new, jnp.uint32(0))
        is_new |= planes.some(new)
    return turn._replace(rigid=turn.rigid._replace(records=records)), is_new


def resolved(p: Program, turn: Turn, after: Turn) -> Turn:
    """Return the start of the turn if a rigid group that is not banned was blocked, else `after`.

    A group is blocked if one of its rules set a movement that could not be made. `turn` is the turn
    after the last movement, and `after` is the turn in its next phase. The repeated turn bans the
    blocked group, which means that it skips the group's rules. The commands that rules have queued
    are discarded.
    """
    assert turn.rigid
    found = _blocked(p, turn)
    again = (found & ~turn.rigid.banned).any()
    repeated = fresh(after)._replace(
        planes=joined(turn.before, turn.rigid.pushed),
        phase=jnp.int32(RULES),
        rule=jnp.int32(0),
        commands=jnp.uint8(0),
    )
    state = turn.rigid._replace(
        records=jnp.zeros_like(turn.rigid.records), banned=turn.rigid.banned | found
    )
    return select(again, repeated, after)._replace(rigid=state)


def _blocked(p: Program, turn: Turn) -> Bool[Array, " numbers"]:
    """Return, for the number of each rigid group, whether a movement of the group was blocked.

    In each cell, only the lowest layer with a blocked movement counts. Entry 0 is True if a
    blocked movement has a recorded number that belongs to no group, such as the bitwise or of the
    numbers of two groups. The movement `action` never counts as blocked, because the engine clears
    it earlier.
    """
    assert turn.rigid
    records = turn.rigid.records
    stays = planes.union(turn.moves[:, :4], 1) & planes.union(records, 1)
    seen, digits = jnp.zeros_like(stays[0]), jnp.zeros_like(records[0])
    for layer in range(p.size.layers):
        digits |= stays[layer] & ~seen & records[layer]
        seen |= stays[layer]
    number = planes.index(1 << p.size.group_bits)
    is_set = (number[:, None] >> planes.index(p.size.group_bits) & 1).astype(bool)
    equal = jnp.where(is_set[..., None, None], digits, ~digits)
    cells = planes.intersection(equal, 1) & seen
    found, is_group = planes.some(cells), number <= p.tables.rigid_groups.all
    return jnp.where(number == 0, (found & ~is_group).any(), found & is_group)
