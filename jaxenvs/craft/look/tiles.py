"""Index of the sprite on each cell of Classic's picture: the view, and the inventory below it.

Helpers that find the sprites of creatures and projectiles are also used by the full game.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt8

from ..sight import places
from ..state import Projectile, World
from ..tables import ROLES, VITALS, Rules, of_type
from .sprites import ASLEEP, numbers


def tiles(
    rules: Rules, world: World, blocks: UInt8[Array, "rows columns"]
) -> Int32[Array, "all_rows columns"]:
    """Return the index of the sprite for each cell of the picture.

    The picture shows the view and, below it, the inventory. The sprites show full daylight; the
    module `pictures` darkens them at night.
    """
    given, overlay = numbers(rules), overlays(rules, world)
    index = blocks.astype(jnp.int32) * given.placed.shape[1] + overlay
    placed = jnp.asarray(given.placed.reshape(-1)).at[index].get(mode="clip")
    return jnp.concatenate([placed, inventory(rules, world)])


def overlays(rules: Rules, world: World) -> Int32[Array, "rows columns"]:
    """Return the number of the overlay (player, mob or projectile) on each cell of the view.

    If a cell has several overlays, the one that Craftax draws last is returned: mobs hide the
    player, and projectiles hide the player and mobs.
    """
    first = numbers(rules).overlays
    return flying(rules, world, world.projectiles, first, standing(rules, world, first))


def standing(rules: Rules, world: World, first: Mapping[str, int]) -> Int32[Array, "rows columns"]:
    """Return which creature stands on each cell of the view, as a number; 0 for none.

    A creature is the player or a mob. `first` has the number of each mob, by name. The player's
    numbers are in the module `sprites`: facing (1 to 4), or ASLEEP.
    """
    height, width = rules.view
    middle = np.zeros((height, width), np.bool_)
    middle[height // 2, width // 2] = True
    shown = jnp.where(middle, jnp.where(world.sleeping, ASLEEP, world.facing), 0)
    for role in ROLES:
        types = [first[row.name] for row in rules.types(role)]
        for slot in world.mobs[role]:
            shown = jnp.where(_is_here(rules, world, slot), of_type(types, slot.type), shown)
    return shown.astype(jnp.int32)


def flying(
    rules: Rules,
    world: World,
    slots: Iterable[Projectile],
    first: Mapping[str, int],
    shown: Int32[Array, "rows columns"],
) -> Int32[Array, "rows columns"]:
    """Return `shown`, one number per cell of the view, with projectiles written into it.

    A cell with a live projectile gets the projectile's number, which depends on its type and
    direction. `first` has the number of each projectile flying left, by name. The next three
    numbers stand for the projectile flying right, up and down.
    """
    types = [first[row.name] for row in rules.projectiles]
    for slot in slots:
        across = (slot.d_column > 0).astype(jnp.int32)
        along = 2 + (slot.d_row > 0).astype(jnp.int32)
        number = of_type(types, slot.type) + jnp.where(slot.d_column != 0, across, along)
        shown = jnp.where(_is_here(rules, world, slot), number, shown)
    return shown.astype(jnp.int32)


def _is_here(rules: Rules, world: World, slot: Any) -> Bool[Array, "rows columns"]:
    row, column = places(rules, world)
    return (row == slot.row) & (column == slot.column) & slot.alive


def inventory(rules: Rules, world: World) -> Int32[Array, "2 columns"]:
    """Return the sprite index of each cell of the inventory: an icon with its count.

    The icons are in Craftax's order. A cell whose count is 0 is blank.
    """
    order = (*VITALS, "sapling", *(name for name in rules.items if name != "sapling"))
    given, counts = numbers(rules), {**world.vitals, **world.items}
    first = np.full(2 * rules.view[1], given.blank, np.int32)
    first[: len(order)] = [given.icons[name] for name in order]
    place = np.arange(first.size, dtype=np.int32)
    shown = jnp.zeros(first.shape, jnp.int32)
    # Each count is written by a `jnp.where` over all cells.
    # `jnp.stack` of the counts would cost one kernel per count on a GPU.
    for i, name in enumerate(order):
        shown = jnp.where(place == i, counts[name], shown)
    return (shown.clip(0, given.most) + first).reshape(2, rules.view[1])
