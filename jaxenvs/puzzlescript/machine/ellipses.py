"""Matches of rows (pairs of brackets) with two ellipses (`...`).

If a game has such a row, the gap of every match is an index into `Size.skips`, a table of pairs (a,
b): the first ellipsis skips a cells, and the second skips b cells. Rows with one ellipsis use only
pairs with b = 0.
"""

from typing import TYPE_CHECKING

import jax.numpy as jnp
from jaxtyping import Array, Int32, UInt32

from . import planes
from .planes import ALL
from .state import Program

if TYPE_CHECKING:
    from .matches import Tested

Gaps = UInt32[Array, "rows gaps side words"]


def joined(
    tests: "Tested", length: Int32[Array, "*n"], fits: Array, fits_changes: Array
) -> tuple[UInt32[Array, "*n side words"], UInt32[Array, "*n side words"]]:
    """Return the cells at which the part of a row after its first ellipsis can start.

    The second result has only the cells at which this part would change something. `length` is the
    number of cells between the two ellipses (the middle part); 0 if the row has one ellipsis.
    `fits` has the cells at which a middle part leaves room for a match of the last part.
    `fits_changes` is the same for matches of the last part that would change something.
    """
    assert tests.middle is not None and tests.middle_changes is not None
    has_two = (length > 0)[..., None, None]
    changes = tests.middle_changes & fits | tests.middle & fits_changes
    found = jnp.where(has_two, tests.middle & fits, tests.tail)
    return found, jnp.where(has_two, changes, tests.tail_changes)


def behind(p: Program, tests: "Tested", rule: Array) -> tuple[Gaps, Gaps]:
    """Return, for each row and gap, the start cells for which the parts after the ellipses match.

    A start cell is the first cell of a match of the row. The part before the first ellipsis is not
    tested. The second result has only the start cells for which the tested parts would change
    something. A gap is an index into `Size.skips`: a pair of numbers of skipped cells.
    """
    assert tests.middle is not None and tests.middle_changes is not None
    first, second = p.size.skips.T
    length, between = p.tables.length[rule][:, None], p.tables.middle_length[rule][:, None]
    at = length + first
    has_two = between > 0
    direction, end = p.tables.direction[rule], p.size.cells + p.size.middle + p.size.side
    middle = planes.back_by(tests.middle, direction, at, end)
    middle = jnp.where(has_two[..., None, None], middle, ALL)
    changing = planes.back_by(tests.middle_changes, direction, at, end)
    changing = jnp.where(has_two[..., None, None], changing, jnp.uint32(0))
    able = (has_two | (second == 0))[..., None, None]
    by = at + between + second
    tail, tail_changes = (
        jnp.where(able, planes.back_by(part, direction, by, end), jnp.uint32(0))
        for part in (tests.tail, tests.tail_changes)
    )
    return middle & tail, changing & tail | middle & tail_changes


def offsets(
    p: Program, rule: Array, gap: Int32[Array, " rows"]
) -> tuple[Int32[Array, "rows one"], Int32[Array, "rows one"]]:
    """Return, for each row, the offsets of the first cells of its middle part and last part.

    An offset is the distance of the cell from the start of its match. `gap` has one index into
    `Size.skips` per row: the numbers of cells that the ellipses skip.
    """
    length, between = p.tables.length[rule][:, None], p.tables.middle_length[rule][:, None]
    skipped = jnp.asarray(p.size.skips)[gap]
    start = length + skipped[:, :1]
    return start, start + between + skipped[:, 1:]
