"""Growing plants: saplings that the player plants, which ripen, are eaten and grow again."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core.bits import any_of
from ..core.platforms import by_platform
from .ground import Ground
from .state import Plants, World, changed
from .step import Front, Moment
from .tables import RIPE_AGE, Block


def grow(moment: Moment) -> Moment:
    """Age all plants, and apply the step's writes to the map, including newly ripe plants.

    Later stages must read only the new map. If a later stage read the old map, XLA would have to
    copy the map. Craftax ripens plants later in the step, after mobs have appeared. The result is
    the same, because mobs never appear on a plant.
    """
    world, given = _aged(moment)
    return moment._replace(ground=_grown(*given), world=world)


def grow_in_light(moment: Moment) -> Moment:
    """Do what `grow` does, and light the cells around a torch that the player placed in this step.

    This stage of the full game replaces `grow`.
    """
    (world, given), front = _aged(moment), moment.front
    ground = _grown_in_light(given, front.row, front.column, moment.torch)
    return moment._replace(ground=ground, world=world)


def _aged(moment: Moment) -> tuple[World, tuple[Ground, Array, Array, Array]]:
    """Return the world in which all plants are one step older, and the arguments for `_grown`.

    These arguments are the map, the rows and the columns of the plants, and whether each is ripe.
    """
    plants = moment.world.plants
    age = jnp.where(plants.planted, plants.age + 1, 0)
    world = moment.world._replace(plants=plants._replace(age=age))
    return world, (moment.ground, plants.row, plants.column, age >= RIPE_AGE)


def _grown(ground: Ground, rows: Array, columns: Array, ripe: Array, more: Any = None) -> Ground:
    """Apply the step's writes to the map, and turn the blocks of ripe plants into RIPE_PLANT.

    `more` is a further write: a pair (flat indices, values) with the cells that a new torch lights,
    except cells to which the step writes anyway. See `Ground.written`.
    """
    cells = ground.written(rows, columns, Block.RIPE_PLANT, ripe, more)
    return Ground(cells, ground.floor)


def _grown_in_light(given: Any, row: Array, column: Array, torch: Array) -> Ground:
    """Write to the map as `_grown` does, and light the cells around a new torch, in the full game.

    `torch` says whether the player placed a torch at (`row`, `column`) in this step; `given` are
    the arguments of `_grown`.
    """
    ground, *plants = given
    floor = ground.floor

    def at_once(cells: Array, writes: Any, *plants: Array) -> Array:
        lit, more = Ground(cells, floor, writes).lit(row, column, torch)
        return _grown(lit, *plants, more=more).cells

    def in_turn(cells: Array, writes: Any, *plants: Array) -> Array:
        # On a GPU, write plants and light by two scatters. A joint scatter would save a kernel, but
        # every environment would then have to read the cells around a torch in every step, while
        # few environments place a torch.
        return _grown(Ground(cells, floor, writes), *plants).with_light(row, column, torch).cells

    cells = by_platform(ground.cells, ground.writes, *plants, cpu=at_once, default=in_turn)
    return Ground(cells, floor)


def regrown(world: World, front: Front, when: Array) -> Plants:
    """If `when` is True, reset the age of the plant on the cell ahead, which the player has eaten.

    If several slots store a plant on this cell, only the first slot is reset. If no slot does, slot
    0 is reset, as in Craftax. Return the plants after the change.
    """
    plants, slot = world.plants, np.arange(world.plants.age.shape[0], dtype=np.int32)
    here = _bits((plants.row == front.row) & (plants.column == front.column))
    first = jnp.where(here != 0, here & -here, 1)
    return plants._replace(age=jnp.where(when & (first == 1 << slot), 0, plants.age))


def planted(world: World, front: Front, when: Array) -> World:
    """If `when` is True, store a new plant on the cell ahead in the first free slot.

    If no slot is free, the plant's block is on the map but never ripens.
    """
    plants, slot = world.plants, np.arange(world.plants.age.shape[0], dtype=np.int32)
    free = _bits(~plants.planted)
    takes = when & ((free & -free) == 1 << slot)
    new = changed(plants, takes, row=front.row, column=front.column, age=0)
    return world._replace(plants=new._replace(planted=plants.planted | takes))


def _bits(flags: Array) -> Array:
    """Pack flags into the bits of one int32.

    One OR per flag combines the flags, because a reduction over the array would cost a kernel on a
    GPU.
    """
    return any_of(flags[i].astype(jnp.int32) << i for i in range(flags.shape[0]))
