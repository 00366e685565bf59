"""Damage of blows: physical, fire and ice damage, reduced by armour, enchantments or resistance.

Classic has only physical damage, in whole points, and nothing reduces it.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..core.rounding import rounded
from .state import World
from .tables import ASLEEP_FACTOR, MobRow, ProjectileRow, Rules, of_type

PIECES = ("helmet", "chestplate", "leggings", "boots")
FIRE, ICE = 1, 2  # elements of an enchantment, encoded as in `World.charms`
BOSS_FACTOR = 1.5  # factor by which the boss floor multiplies all damage to the player
# `_TENTH`: fraction of physical damage that each level of a piece of armour blocks.
# `_FIFTH`: fraction of fire (or ice) damage that a piece enchanted with fire (or ice) blocks.
_TENTH, _FIFTH = np.float32(0.1), np.float32(0.2)

Blow = Any  # damage of a blow: float32 [physical, fire, ice]; in Classic one int32


def by_type(rows: Sequence[MobRow | ProjectileRow], type: Any) -> list[Any]:
    """Return [physical, fire, ice] damage of the mob or projectile type `rows[type]`."""
    return [of_type([np.float32(getattr(row, k)) for row in rows], type) for k in _KINDS]


def to_player(
    rules: Rules, world: World, rows: Sequence[MobRow | ProjectileRow], type: Any, dreams: Any
) -> Any:
    """Return the points of health that a hit by the mob or projectile type `rows[type]` costs.

    `dreams` is True if the player sleeps, which raises the damage. In the full game, armour and
    enchantments reduce the damage, and the boss floor raises it.
    """
    if not rules.is_full:
        awake = of_type([row.damage for row in rows], type)
        asleep = of_type([int(ASLEEP_FACTOR * row.damage) for row in rows], type)
        return awake if dreams is False else jnp.where(dreams, asleep, awake)
    factor = jnp.where(is_boss_floor(rules, world), np.float32(BOSS_FACTOR), np.float32(1))
    dream = jnp.where(jnp.asarray(dreams), np.float32(ASLEEP_FACTOR), np.float32(1))
    blow = [points * dream * factor for points in by_type(rows, type)]
    return _reduced(blow, _guard(world))


def to_mob(rules: Rules, role: str, type: Any, blow: Blow) -> Any:
    """Return the points of health that a mob loses by a blow, after its type's resistance."""
    if not rules.is_full:
        return blow
    resists = zip(*(row.resists for row in rules.types(role)), strict=True)
    return _reduced(blow, [of_type([np.float32(r) for r in kind], type) for kind in resists])


def is_boss_floor(rules: Rules, world: World) -> Any:
    """Return whether the player is on the last floor of the full game, where the boss is."""
    return world.floor == rules.last_floor


def _guard(world: World) -> list[Any]:
    """Return the fractions of physical, fire and ice damage that the player's armour blocks."""
    worn = [world.items[piece].astype(jnp.float32) * _TENTH for piece in PIECES]
    charms = [world.charms[piece] for piece in PIECES]
    kept = [[(c == kind).astype(jnp.float32) * _FIFTH for c in charms] for kind in (FIRE, ICE)]
    return [sum(shares[1:], shares[0]) for shares in (worn, *kept)]


def _reduced(blow: Sequence[Any], guard: Sequence[Any]) -> Any:
    """Return the sum of the three types of damage, each reduced by its fraction in `guard`.

    The terms are added in Craftax's order, so that the sum rounds as in Craftax.
    """
    parts = [rounded((np.float32(1) - g) * b) for b, g in zip(blow, guard, strict=True)]
    return parts[0] + parts[1] + parts[2]


_KINDS = ("damage", "fire", "ice")
