"""What a blow takes: physical damage, fire and ice, less what armour, magic or hide keep off.

Classic knows whole points of damage alone.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..core.rounding import rounded
from .state import World
from .tables import ASLEEP_FACTOR, MobRow, ProjectileRow, Rules, of_type

PIECES = ("helmet", "chestplate", "leggings", "boots")
FIRE, ICE = 1, 2  # what charms are of
BOSS_FACTOR = 1.5  # of all damage to the player on the last floor
_TENTH, _FIFTH = np.float32(0.1), np.float32(0.2)  # kept off by a level of armour, by a charm

Blow = Any  # three float32, of damage, fire and ice; in Classic an int32


def by_type(rows: Sequence[MobRow | ProjectileRow], type: Any) -> list[Any]:
    """Damage, fire and ice of a type."""
    return [of_type([np.float32(getattr(row, k)) for row in rows], type) for k in _KINDS]


def to_player(
    rules: Rules, world: World, rows: Sequence[MobRow | ProjectileRow], type: Any, dreams: Any
) -> Any:
    """Points that a blow of a type takes from the player, more from one who `dreams`."""
    if not rules.floors:
        awake = of_type([row.damage for row in rows], type)
        asleep = of_type([int(ASLEEP_FACTOR * row.damage) for row in rows], type)
        return awake if dreams is False else jnp.where(dreams, asleep, awake)
    factor = jnp.where(is_boss_floor(rules, world), np.float32(BOSS_FACTOR), np.float32(1))
    dream = jnp.where(jnp.asarray(dreams), np.float32(ASLEEP_FACTOR), np.float32(1))
    blow = [points * dream * factor for points in by_type(rows, type)]
    return _left(blow, _guard(world))


def to_mob(rules: Rules, role: str, type: Any, blow: Blow) -> Any:
    """Points that a blow takes from a mob of a type."""
    if not rules.floors:
        return blow
    resists = zip(*(row.resists for row in rules.types(role)), strict=True)
    return _left(blow, [of_type([np.float32(r) for r in kind], type) for kind in resists])


def is_boss_floor(rules: Rules, world: World) -> Any:
    """Whether the player is on the last floor."""
    return world.floor == len(rules.floors) - 1


def _guard(world: World) -> list[Any]:
    """Shares of damage, fire and ice that the player's armour keeps off."""
    worn = [world.items[piece].astype(jnp.float32) * _TENTH for piece in PIECES]
    charms = [world.charms[piece] for piece in PIECES]
    kept = [[(c == kind).astype(jnp.float32) * _FIFTH for c in charms] for kind in (FIRE, ICE)]
    return [sum(shares[1:], shares[0]) for shares in (worn, *kept)]


def _left(blow: Sequence[Any], guard: Sequence[Any]) -> Any:
    """Points of a blow that are not kept off, added up in upstream's order."""
    parts = [rounded((np.float32(1) - g) * b) for b, g in zip(blow, guard, strict=True)]
    return parts[0] + parts[1] + parts[2]


_KINDS = ("damage", "fire", "ice")
