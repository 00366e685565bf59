"""A step of the game: the stages of Classic or of the full game, applied one after another.

Each stage is a function that takes a `Moment`, the intermediate state of the step, and returns the
next `Moment`.
"""

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
    """The cell ahead of the player, and whether a crafting table or a furnace is near."""

    row: Any = _ZERO
    column: Any = _ZERO
    # Block on the cell ahead. If this cell is off the map: the block that Craftax reads there, see
    # `Ground.cell`.
    block: Any = _ZERO
    marks: Any = _ZERO  # marks of the cell ahead (bits for item and light), see `Ground.marks_of`
    inside: Any = _NO  # whether the cell ahead is on the map
    # Whether a mob occupies the cell ahead, so that the player cannot enter it; see `Mob.marked`.
    taken: Any = _NO
    table: Any = _NO  # whether a crafting table is on one of the eight cells around the player
    furnace: Any = _NO  # whether a furnace is on one of the eight cells around the player


class Moment(NamedTuple):
    """Intermediate state of a step, which the stages of the step read and change.

    The fields are the same in Classic and in the full game. A field has its default until a stage
    computes it.
    """

    rules: Rules
    ground: Ground  # map, with the writes that this step's stages have requested so far
    world: World
    action: Array
    draws: Draws
    params: Any
    light: Float32[Array, ""]  # daylight before the step, 0 to 1
    reach: int  # distance from the player below which mobs may appear, see `CraftEnv.reach`
    # Ladders, mobs and projectiles of every floor, packed by `floor_words`.
    # The entry of the player's floor is not used, because `world` has its values.
    floors: Int32[Array, "floors floor_words"]
    front: Front = Front()  # cell ahead of the player, set by `player.face`
    hit: Any = _NO  # whether the player hit a mob, set by `attack.strike`
    crowd: Crowd = Crowd((), _ZERO)  # cells of all mobs, set by `mobs.move`
    in_lava: Any = _NO  # whether the player stands in lava, set by `body.burn`
    # Harvest, placement or recipe of this step: an index into `deeds._deeds` plus 1; 0 for none.
    deed: Any = _ZERO
    torch: Any = _NO  # whether the player places a torch, set by `deeds.do`
    # Words into which `compiler.edges.repack` packed the world in the middle of the step. A word is
    # reused for the state after the step if later stages have not changed its values.
    known: Known = UNKNOWN


Rule = Callable[[Moment], Moment]


def advance(stages: Sequence[Rule], edges: Mapping[Rule, Rule], moment: Moment) -> Moment:
    """Apply the stages in turn, and after each stage the edge that `edges` has for it, if any.

    An edge returns the `Moment` with the same values, but makes XLA store some of them, so that XLA
    does not compute them again. See `compiler.edges`.
    """
    for stage in stages:
        moment = stage(moment)
        if stage in edges:
            moment = edges[stage](moment)
    return moment
