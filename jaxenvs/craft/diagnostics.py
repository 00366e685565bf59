"""Numbers that describe a finished episode: achievements, the deepest floor, and the death.

They are 0 or 1, except for the deepest floor. The log of a training run has their means over the
episodes that ended, see `LearnerPart.measure`:

- `achieved/NAME`: the episode earned the achievement.
- `deepest_floor`, in the full game: number of ladders down that were new to the player; 0: none.
- `died`: the player died. The other numbers are 0 unless the player died.
- `died/food`, `died/drink`, `died/energy`: this vital was 0 after the last step.
- `died/asleep`: the player slept before the last step. `died/resting`: the player rested.
- `died/lava`: the player stood in lava after the last step.
- `died/by/NAME`: in the last step, a mob or a mob's projectile of this type hit the player. There
  may be several, and armour may have blocked all damage. A projectile is not counted if it is shot
  and hits within one step, or if the player changed floors in this step.
- `died/unhurt`: no mob or projectile hit the player, who was not in lava: a vital was at 0.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32

from ..core.bits import any_of
from .state import World, earned_vector
from .tables import Block, Rules

VITALS = ("food", "drink", "energy")


def names(rules: Rules) -> tuple[str, ...]:
    """Return the names of the numbers that `measure` returns, in order."""
    achieved = (f"achieved/{each.name.lower()}" for each in rules.achievements)
    floor = ("deepest_floor",) if rules.is_full else ()
    rests = ("resting",) if rules.is_full else ()
    hits = (f"by/{name}" for name in _killers(rules))
    causes = (*VITALS, "asleep", *rests, "lava", *hits, "unhurt")
    return (*achieved, *floor, "died", *(f"died/{cause}" for cause in causes))


def measure(env: Any, before: Any, after: Any) -> Float32[Array, " measures"]:
    """Return the numbers of an episode whose last step leads from state `before` to `after`."""
    rules, old, new = env.rules, env.world(before), env.world(after)
    earned = earned_vector(rules, new.earned)
    dead = new.vitals["health"] <= 0
    in_lava = env.ground(after, new).block(new.row, new.column) == Block.LAVA
    rests = [old.resting] if rules.is_full else []
    hits = _hits(rules, old, new)
    causes = [*(new.vitals[name] <= 0 for name in VITALS), old.sleeping, *rests, in_lava]
    causes += [*hits, ~in_lava & ~any_of(hits)]
    died = jnp.stack([dead, *(dead & jnp.asarray(cause) for cause in causes)])
    parts = [earned.astype(jnp.float32), died.astype(jnp.float32)]
    if rules.is_full:
        enters = [i for i, each in enumerate(rules.achievements) if each.name.startswith("ENTER")]
        parts.insert(1, earned[jnp.array(enters)].sum(dtype=jnp.float32)[None])
    return jnp.concatenate(parts)


def _killers(rules: Rules) -> list[str]:
    """Return the names of the types of mobs that hit the player, and of mobs' projectiles."""
    shots = {row.projectile for row in rules.types("ranged")}
    flying = [row.name for row in rules.projectiles if row.name in shots]
    return [*(row.name for row in rules.types("melee")), *flying]


def _hits(rules: Rules, old: World, new: World) -> list[Any]:
    """Return, for each of `_killers`, whether it hit the player in a step."""
    found = []
    for type, row in enumerate(rules.types("melee")):
        # Only an attack raises a mob's cooldown to its full value.
        found.append(
            any_of(
                mob.alive & (mob.type == type) & (mob.cooldown == row.cooldown)
                for mob in new.mobs["melee"]
            )
        )
    stays = np.bool_(True) if old.floor is None else old.floor == new.floor
    shots = {row.projectile for row in rules.types("ranged")}
    for type, row in enumerate(rules.projectiles):
        if row.name in shots:
            found.append(
                any_of(
                    stays & one.alive & (one.type == type) & _reaches(rules, one, new)
                    for one in old.projectiles
                )
            )
    return found


def _reaches(rules: Rules, one: Any, new: World) -> Any:
    """Return whether a projectile hits the player, who moves to his cell in `new` first.

    See `projectiles.fly`: in the full game, a projectile also hits on its cell before the step.
    """
    ahead = (one.row + one.d_row == new.row) & (one.column + one.d_column == new.column)
    if not rules.is_full:
        return ahead
    return ahead | ((one.row == new.row) & (one.column == new.column))
