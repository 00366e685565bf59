"""Convert BabyAI's missions to aims, from which lower bounds on the steps to success are computed.

An aim has a set of cells, of which the agent must face one in order to succeed. The exact solver
`jaxenvs.grid.oracle` computes the bounds.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from ..grid import tiles
from ..grid.aims import Aim
from ..grid.state import Action
from . import mission as m

# Bit mask, per verb (NOTHING, GO_TO, OPEN, PICK_UP, PUT_NEXT), of the actions that the agent needs
# for an instruction with this verb if it does not carry the instruction's object yet.
_ACTS = np.array(
    (0, 0, 1 << Action.TOGGLE, 1 << Action.PICKUP, 1 << Action.PICKUP | 1 << Action.DROP), np.int32
)


def mission_aims(state: Any, puts: bool) -> tuple[Aim, ...]:
    """Return the aims (necessary conditions of success): one per instruction, or two if `puts`.

    puts: whether instructions can have the verb `PUT_NEXT`, "put A next to B". The second aim of an
        instruction is then to bring A to B, or B to A.

    In a mission with two sides, such as "a, then b", the agent has to accomplish one side first.
    The aims of the other side therefore come later (`Aim.after`). Aims to pick up an object are
    exempt, because the agent may pick up an object early.
    """
    found, each = [], 2 if puts else 1
    for i, word in enumerate(state.task):
        verb, pending = m.verb(word), (state.progress >> i & 1) == 0
        earlier = _aims_before(i, m.comes_after(state.task), each)
        first, second = (state.marks >> d & 1 != 0 for d in (2 * i, (2 * i + 1) % 8))
        held = (state.progress >> (8 + 2 * i) & 1) != 0
        acts = jnp.where(verb == m.GO_TO, 0, jnp.where(verb == m.PUT_NEXT, 2, 1))
        active = pending & (verb != m.NOTHING) & ~held
        is_faced = (verb == m.GO_TO) | (verb == m.OPEN)
        kinds, after = jnp.asarray(_ACTS)[verb.astype(jnp.int32)], jnp.where(is_faced, earlier, 0)
        fixed = (verb == m.OPEN) | m.is_door(word, m.FIRST)
        found.append(Aim(first, acts, active, acts=kinds, after=after, fixed=fixed))
        if puts:
            # Cells of which the agent must face one: a cell next to the second object, to drop the
            # first object there; or the cell of the second object, to move the second object.
            there = second | (_beside(second) & (state.grid != tiles.WALL))
            moved = (state.progress >> (9 + 2 * i) & 1) != 0
            active, after = pending & (verb == m.PUT_NEXT) & ~moved, earlier | 1 << 2 * i
            drop = 1 << Action.DROP
            fixed = m.is_door(word, m.SECOND)
            found.append(Aim(there, 1, active, acts=drop, after=after, twice=True, fixed=fixed))
    return tuple(found)


def _aims_before(number: int, comes_after: Bool[Array, ""], each: int) -> Int32[Array, ""]:
    """Return a bit mask of the aims that come before instruction `number` of a mission.

    Instructions 0 and 1 are the left side of the mission, 2 and 3 the right side. For an
    instruction of the side that has to be accomplished second, the mask has all aims of the other
    side. Otherwise the mask is 0.

    comes_after: whether the right side has to be accomplished first.
    each: number of aims per instruction.
    """
    left, right = (1 << 2 * each) - 1, (1 << 4 * each) - (1 << 2 * each)
    is_first = (number < 2) != comes_after
    return jnp.where(is_first, 0, right if number < 2 else left)


def _beside(cells: Bool[Array, "height width"]) -> Bool[Array, "height width"]:
    """Return a mask of the cells that are next to a cell of the mask `cells`."""
    padded = jnp.pad(cells, 1)
    return padded[:-2, 1:-1] | padded[2:, 1:-1] | padded[1:-1, :-2] | padded[1:-1, 2:]
