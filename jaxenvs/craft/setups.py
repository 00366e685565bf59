"""Setups of Craft: the task that published results were trained on.

- `original`: the reward, the rules and the observation of the original package; learners use no
  action mask.
- `masked`: the same, and learners use the action mask.
- `eased`: masks, and what else PufferLib's port of the game changes. Learners skip forced steps
  (sleep and rest), see `LearnerPart.skips_forced`. The reward is the sum of the achievements'
  weights and the change of the level of worn armour; a step after which the player is dead has the
  reward -1. Changes of health have no reward. Marks of mobs in the observations `ids` and
  `symbolic` are repaired, see `repaired`. The defeat of the boss does not end an episode;
  the time limit terminates it, as death does.

PufferLib's learner also clips rewards to -1 to 1. That is not part of the setup.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32

from .harm import PIECES
from .state import World, achievement_reward
from .tables import Rules

SETUPS = ORIGINAL, MASKED, EASED = ("original", "masked", "eased")


def eased_reward(
    rules: Rules, before: World, after: World, new: tuple[Any, ...]
) -> Float32[Array, ""]:
    """Return the reward of a step in the setup `eased`.

    `new` has the bit masks of the achievements earned in this step.
    """
    gained = achievement_reward(rules, new)
    if rules.is_full:
        gained = gained + (_armour(after) - _armour(before)).astype(jnp.float32)
    return jnp.where(after.vitals["health"] <= 0, np.float32(-1), gained)


def repaired(rules: Rules, world: World) -> World:
    """Return the world with every invisible mob and projectile moved far above the view.

    In Craftax, a slot that is dead or out of view can clear the mark of a visible mob of its type,
    see `sight.who`. Far above the view, a slot clears nothing. Positions of visible ones stay.
    """
    height, width = rules.view
    top, left = world.row - height // 2, world.column - width // 2

    def moved(slot: Any) -> Any:
        row, column = slot.row - top, slot.column - left
        seen = slot.alive & (row >= 0) & (row < height) & (column >= 0) & (column < width)
        return slot._replace(row=jnp.where(seen, slot.row, top - 2 * height))

    return world._replace(
        mobs={role: tuple(map(moved, slots)) for role, slots in world.mobs.items()},
        projectiles=tuple(map(moved, world.projectiles)),
        missiles=tuple(map(moved, world.missiles)),
    )


def _armour(world: World) -> Any:
    """Return the sum of the levels of all worn pieces of armour."""
    return sum((world.items[piece] for piece in PIECES[1:]), world.items[PIECES[0]])
