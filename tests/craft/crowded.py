"""Random worlds of the Craft games for tests of observations, unpacked from words of random bits.

Several mobs and projectiles share a cell, some are just beyond the view or the map, many are dead,
and the player is often at the map's border. Many of these worlds cannot occur in a game.
"""

import jax
import numpy as np

from jaxenvs.craft.state import unpack

# Number of cells of a world on which its mobs and projectiles are placed. Cells 0 and 1 are random
# cells near the player. Cell 2 is one view height above cell 0, and cell 3 is one view width to the
# left of cell 1.
MEETINGS = 4


def worlds(env, count, seed):
    """Return `count` random worlds as one batch, and their maps.

    In the full game, half of the cells are lit. The cells of Classic's maps have no light.
    """
    rng = np.random.default_rng(seed)
    state = jax.eval_shape(env.reset, jax.random.key(0)).state
    words = rng.integers(-(2**31), 2**31, (count, *state.words.shape)).astype(np.int32)
    world = jax.vmap(lambda words: unpack(env.rules, env.slots, words))(words)
    blocks = rng.integers(0, len(env.rules.blocks), (count, *state.map.shape), np.uint8)
    marks = rng.integers(0, 4, blocks.shape, np.uint8) if env.rules.is_full else np.uint8(0)
    return _placed(rng, env.rules, world, count, state.map.shape[-1]), blocks | marks << 6


def _placed(rng, rules, world, count, size):
    """Move each world's player to a random cell; move mobs, projectiles and ladders near it.

    In the full game, also draw the player's health and floor.
    """
    border = rng.choice([-1, 0, 1, 2, size - 2, size - 1], (2, count))
    anywhere = rng.integers(0, size, (2, count))
    row, column = np.where(rng.random((2, count)) < 0.4, border, anywhere).astype(np.int32)
    column = column.clip(0)
    reach = rng.choice([1, 3, 7, 13], count)
    near = [x + rng.integers(-reach, reach + 1, (MEETINGS, count)) for x in (row, column)]
    for axis, there in enumerate(near):
        there[2:] = there[:2]
        there[2 + axis] -= rules.view[axis]

    def moved(slot):
        one = rng.integers(0, MEETINGS, count), np.arange(count)
        return slot._replace(row=near[0][one].astype("i4"), column=near[1][one].astype("i4"))

    world = world._replace(
        row=row,
        column=column,
        mobs={role: tuple(moved(mob) for mob in slots) for role, slots in world.mobs.items()},
        projectiles=tuple(moved(one) for one in world.projectiles),
        missiles=tuple(moved(one) for one in world.missiles),
    )
    if not rules.is_full:
        return world
    axes = {"row": near[0], "column": near[1]}
    stairs = {
        name: axes[name.split("_")[1]][rng.integers(0, MEETINGS)].clip(0, size - 1).astype("i4")
        for name in world.stairs
    }
    health = rng.integers(0, 9 * 256, count).astype(np.float32) / 256
    vitals = {**world.vitals, "health": health}
    floor = rng.integers(0, len(rules.floors), count).astype(np.int32)
    return world._replace(stairs=stairs, vitals=vitals, floor=floor)
