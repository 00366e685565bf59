"""Ladders between the nine floors of the full game.

When the player changes floors, the mobs and projectiles of the old floor are packed into words, and
the words of the new floor are unpacked.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from .compiler.once import once
from .ground import ITEM, Ground
from .state import World, floor_words, of_floor, one, slots_of, unlock_of
from .step import Moment
from .tables import Action, Item, Rules

CLEARED = 8  # a floor's ladder down opens after this many kills on the floor


def change(moment: Moment) -> Moment:
    """On DESCEND take the ladder down, on ASCEND the ladder up, if the action is possible.

    The first arrival on each floor below the overworld gives a point of experience.
    """
    rules, world = moment.rules, moment.world
    can = able(rules, world, moment.ground, moment.params.god_mode)
    down, up = once(tuple((moment.action == action) & able for action, able in can.items()))
    floor = world.floor + one(down) - one(up)
    floors, world = _moved(rules, moment.floors, world, floor, down | up)
    stairs = world.stairs
    row, column = (
        jnp.where(down, stairs[f"up_{axis}"], jnp.where(up, stairs[f"down_{axis}"], here))
        for axis, here in (("row", world.row), ("column", world.column))
    )
    world = _entered(rules, world._replace(row=row, column=column, floor=floor))
    return moment._replace(world=world, floors=floors, ground=Ground(moment.ground.cells, floor))


def able(rules: Rules, world: World, ground: Ground, god: Any) -> dict[int, Array]:
    """Return a dict from each of the actions DESCEND and ASCEND to whether it is possible.

    In god mode, no ladder is needed.
    """
    row, column = world.row, world.column
    under = lies(rules, world, ground.cell(row, column), row, column)
    is_open = (under == Item.LADDER_DOWN) & (world.kills >= CLEARED)
    return {
        Action.DESCEND: (is_open | god) & (world.floor < rules.last_floor),
        Action.ASCEND: ((under == Item.LADDER_UP) | god) & (world.floor > 0),
    }


def lies(rules: Rules, world: World, cell: Array, row: Array, column: Array) -> Array:
    """Return the `Item` that lies on a cell of the player's floor.

    The map stores only whether an item lies on the cell. At a ladder's position this item is the
    ladder, elsewhere a torch.
    """
    stairs, last = world.stairs, rules.last_floor
    is_up = (row == stairs["up_row"]) & (column == stairs["up_column"]) & (world.floor < last)
    is_down = (row == stairs["down_row"]) & (column == stairs["down_column"])
    is_up, is_down = is_up & (world.floor > 0), is_down & (world.floor < last)
    item = jnp.where(is_up, Item.LADDER_UP, jnp.where(is_down, Item.LADDER_DOWN, Item.TORCH))
    return jnp.where((cell & ITEM) != 0, item, Item.NONE)


def _moved(
    rules: Rules, floors: Array, world: World, floor: Array, moves: Array
) -> tuple[Array, World]:
    """If `moves` is True, pack the old floor of `world`, and unpack floor `floor` into `world`.

    Return the packed words of all floors, and the world.
    """
    old = jnp.stack(floor_words(rules, world))
    new = once(jnp.where(moves, floors.at[floor].get(mode="promise_in_bounds"), old))
    saved = floors.at[jnp.where(moves, world.floor, floors.shape[0])].set(old, mode="drop")
    words = iter([new[i] for i in range(new.shape[0])])
    return saved, world._replace(**of_floor(rules, slots_of(world), words))


def _entered(rules: Rules, world: World) -> World:
    """Record the achievement for entering the player's floor; if it is new, add a point of `xp`."""
    deeper, entries = world.floor != 0, [row.achievement for row in rules.floors]
    after = unlock_of(world, entries, world.floor, deeper)
    new = [(a & ~b) != 0 for a, b in zip(after.earned, world.earned, strict=True)]
    first = new[0] | new[1] | new[2]
    traits = {**after.traits, "xp": after.traits["xp"] + one(first)}
    return after._replace(traits=traits)
