"""Rows with two ellipses: a match also has a number of cells that the second ellipsis skips.

If a game has such rows, the gap of a match is the index of a pair of numbers in `Size.skips`: how
many cells the first and the second ellipsis skip. For a row with one ellipsis, the number of cells
between two ellipses is 0, and only pairs whose second number is 0 are used.
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
    tests: "Tested", length: Int32[Array, "*n"], behind: Array, changes: Array
) -> tuple[UInt32[Array, "*n side words"], UInt32[Array, "*n side words"]]:
    """Return the cells at which the part of a row after its first ellipsis can start.

    The second result has only the starts of matches that would change something. `length` is the
    number of cells between two ellipses; 0 if the row has only one. `behind` has the cells at which
    these cells can start so that the part after the second ellipsis fits. `changes` has only the
    cells for which this last part would change something.
    """
    assert tests.middle is not None and tests.middle_changes is not None
    has_two = (length > 0)[..., None, None]
    changes = tests.middle_changes & behind | tests.middle & changes
    found = jnp.where(has_two, tests.middle & behind, tests.tail)
    return found, jnp.where(has_two, changes, tests.tail_changes)


def behind(p: Program, tests: "Tested", rule: Array) -> tuple[Gaps, Gaps]:
    """Return, for each gap, the cells at which rows start whose parts after an ellipsis match.

    A gap is a pair of numbers of skipped cells, see `Size.skips`. The second result has only the
    starts of those rows in which these parts would change something.
    """
    assert tests.middle is not None and tests.middle_changes is not None
    first, second = p.size.skips.T
    length, between = p.tables.length[rule][:, None], p.tables.middle_length[rule][:, None]
    at = length + first
    has_two = between > 0
    middle = _shifted(p, tests.middle, rule, at)
    middle = jnp.where(has_two[..., None, None], middle, ALL)
    changing = _shifted(p, tests.middle_changes, rule, at)
    changing = jnp.where(has_two[..., None, None], changing, jnp.uint32(0))
    able = (has_two | (second == 0))[..., None, None]
    tail, tail_changes = (
        jnp.where(able, _shifted(p, part, rule, at + between + second), jnp.uint32(0))
        for part in (tests.tail, tests.tail_changes)
    )
    return middle & tail, changing & tail | middle & tail_changes


def _shifted(
    p: Program, part: UInt32[Array, "rows side words"], rule: Array, by: Int32[Array, "rows gaps"]
) -> Gaps:
    """Convert the cells at which a part of a row starts to those at which the row itself starts.

    `by` is the number of cells of the row before this part, for each row and gap.
    """
    direction = jnp.broadcast_to(p.tables.direction[rule], (len(part),))
    most = p.size.cells + p.size.middle + p.size.side
    each = jnp.stack([planes.back(part, direction, n) for n in range(most)])
    return each[by, planes.index(len(part))[:, None]]


def targets(
    p: Program, rule: Array, gap: Int32[Array, " rows"]
) -> tuple[tuple[Array, Array, Array], Int32[Array, "rows one"]]:
    """Return three arrays (rows, middle) about the cells between the two ellipses of each row.

    They are the offset of the cell from the start of the row, whether the row has this cell, and
    the index of the cell's pattern. Also return the offset of the first cell after the last
    ellipsis. `gap` has for each row an index in `Size.skips`: how many cells its ellipses skip.
    """
    tables = p.tables
    length, between = tables.length[rule][:, None], tables.middle_length[rule][:, None]
    skipped = jnp.asarray(p.size.skips)[gap]
    start = length + skipped[:, :1]
    offset = planes.index(p.size.middle)
    middle = (start + offset, offset < between, tables.middle[rule])
    return middle, start + between + skipped[:, 1:]
