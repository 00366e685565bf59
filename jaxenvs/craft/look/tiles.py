"""Which sprite is where: the view, and the inventory below it."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt8

from ..state import World
from ..tables import ROLES, VITALS, Rules, of_type
from .sprites import ASLEEP, numbers


def tiles(
    rules: Rules, world: World, blocks: UInt8[Array, "rows columns"]
) -> Int32[Array, "all_rows columns"]:
    """Numbers of the sprites, by daylight: the view, and the inventory below it."""
    given, overlay = numbers(rules), overlays(rules, world)
    index = blocks.astype(jnp.int32) * given.placed.shape[1] + overlay
    placed = jnp.asarray(given.placed.reshape(-1)).at[index].get(mode="clip")
    return jnp.concatenate([placed, inventory(rules, world)])


def overlays(rules: Rules, world: World) -> Int32[Array, "rows columns"]:
    """Who is in each cell of the view; of several the last one drawn upstream, what flies first."""
    given, (height, width) = numbers(rules), rules.view
    row = world.row - height // 2 + np.arange(height, dtype=np.int32)[:, None]
    column = world.column - width // 2 + np.arange(width, dtype=np.int32)[None, :]
    middle = np.zeros((height, width), np.bool_)
    middle[height // 2, width // 2] = True
    shown = jnp.where(middle, jnp.where(world.sleeping, ASLEEP, world.facing), 0)
    for role in ROLES:
        first = [given.overlays[row.name] for row in rules.types(role)]
        for slot in world.mobs[role]:
            here = (row == slot.row) & (column == slot.column) & slot.alive
            shown = jnp.where(here, of_type(first, slot.type), shown)
    first = [given.overlays[one.name] for one in rules.projectiles]
    for slot in world.projectiles:
        here = (row == slot.row) & (column == slot.column) & slot.alive
        across = (slot.d_column > 0).astype(jnp.int32)
        along = 2 + (slot.d_row > 0).astype(jnp.int32)
        flies = of_type(first, slot.type) + jnp.where(slot.d_column != 0, across, along)
        shown = jnp.where(here, flies, shown)
    return shown.astype(jnp.int32)


def inventory(rules: Rules, world: World) -> Int32[Array, "2 columns"]:
    """Icons with counts, as upstream orders them; what there is none of is not shown."""
    order = (*VITALS, "sapling", *(name for name in rules.items if name != "sapling"))
    given, counts = numbers(rules), {**world.vitals, **world.items}
    first = np.full(2 * rules.view[1], given.blank, np.int32)
    first[: len(order)] = [given.icons[name] for name in order]
    place = np.arange(first.size, dtype=np.int32)
    shown = jnp.zeros(first.shape, jnp.int32)
    for i, name in enumerate(order):  # stacked they would be a kernel each
        shown = jnp.where(place == i, counts[name], shown)
    return (shown.clip(0, given.most) + first).reshape(2, rules.view[1])
