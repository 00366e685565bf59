"""A step of the game: the stages of an edition, applied to a `Moment` one after another."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float32, Int32

from .chance import Draws
from .crowd import Crowd
from .ground import Ground
from .packing import UNKNOWN, Known
from .state import World
from .tables import Rules

_ZERO, _NO = np.int32(0), np.bool_(False)


class Front(NamedTuple):
    """The cell ahead of the player, and crafting stations near the player."""

    row: Any = _ZERO
    column: Any = _ZERO
    block: Any = _ZERO  # block ahead; beyond the border, what Craftax reads, see `Ground.cell`
    marks: Any = _ZERO  # marks of the cell (item, light), see `Ground.marks_of`
    inside: Any = _NO  # whether the cell is on the map
    taken: Any = _NO  # whether a marked mob is on the cell, see `Mob.marked`
    table: Any = _NO  # whether a crafting table is on one of the eight cells around the player
    furnace: Any = _NO  # whether a furnace is on one of the eight cells around the player


class Moment(NamedTuple):
    """State of a step between two stages: the fields that stages read and change.

    Both editions have all fields. A field that a later stage computes holds its default until then.
    """

    rules: Rules
    ground: Ground  # map, and the step's writes so far
    world: World
    action: Array
    draws: Draws
    params: Any
    light: Float32[Array, ""]  # daylight before the step
    reach: int  # mobs appear fewer than this many steps from the player
    floors: Int32[Array, "floors floor_words"]  # packed words of the floors where the player is not
    front: Front = Front()  # cell ahead of the player, set by `player.face`
    hit: Any = _NO  # whether the player hit a mob, set by `attack.strike`
    crowd: Crowd = Crowd((), _ZERO)  # cells of all mobs, set by `mobs.move`
    in_lava: Any = _NO  # whether the player is in lava, set by `body.burn`
    deed: Any = _ZERO  # index of the player's deed plus 1, 0 for none; set by `deeds.choose`
    torch: Any = _NO  # whether the player places a torch, set by `deeds.do`
    known: Known = UNKNOWN  # packed words of the world, set by `compiler.edges.repack`


Rule = Callable[[Moment], Moment]


def advance(stages: Sequence[Rule], edges: Mapping[Rule, Rule], moment: Moment) -> Moment:
    """Apply the stages in turn, each followed by its edge if it has one, see `compiler`."""
    for stage in stages:
        moment = stage(moment)
        if stage in edges:
            moment = edges[stage](moment)
    return moment
