"""Generate worlds of craftax's full game, and convert craftax's random numbers to our draws.

From these draws, this library builds the same world.
"""

import functools
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np
from craftax.craftax.craftax_state import EnvParams, StaticEnvParams
from craftax.craftax.world_gen.world_gen import generate_world
from craftax.craftax.world_gen.world_gen_configs import ALL_SMOOTHGEN_CONFIGS
from peer import loosely

from jaxenvs.craft import floors
from jaxenvs.craft.dungeons import DUNGEONS, SIZE, Rooms
from jaxenvs.craft.floors import HILLS, FloorDraws, FullLevel
from jaxenvs.craft.tables import Block

assert version("craftax") == "1.6.1", "the rules are stated for craftax 1.6.1"

PARAMS = EnvParams()
UNIFORM = functools.partial(jax.random.uniform, shape=(SIZE, SIZE))
HILL_FLOORS = np.array([row.floor for row in HILLS])
DUNGEON_FLOORS = np.array([row.floor for row in DUNGEONS])
# Indices of the floors in the order in which craftax generates them: hills, then dungeons. If `x`
# is in this order, `x[ORDER]` is in the order of the floors.
BUILT = np.concatenate([HILL_FLOORS, DUNGEON_FLOORS])
ORDER = np.argsort(BUILT)


@loosely
def world(key, always_diamond=False, angles=PARAMS.fractal_noise_angles):
    """Generate craftax's world for a raw key (uint32 words); return it as a `FullLevel`."""
    params = PARAMS.replace(always_diamond=always_diamond, fractal_noise_angles=angles)
    state = generate_world(key, params, StaticEnvParams())
    return FullLevel(
        map=state.map.astype(jnp.uint8),
        items=state.item_map.astype(jnp.uint8),
        light=state.light_map.astype(jnp.float32),
        down_ladders=state.down_ladders.astype(jnp.int32),
        up_ladders=state.up_ladders.astype(jnp.int32),
        potion_mapping=state.potion_mapping.astype(jnp.int32),
    )


@loosely
def draws(key, theirs):
    """Return draws from which our code builds the world that craftax generates from `key`.

    `theirs` is craftax's world without a guaranteed diamond. Also return a flag: True if our code
    would put a ladder on another cell, given the number that craftax drew for the ladder.
    """
    keys = jax.random.split(key, 7)
    rest = jax.random.split(keys[0], 4)
    angles, (trees, ores), diamond, hill_ladders = jax.vmap(_hills)(keys[1:])
    rooms, rare, dungeon_ladders = jax.vmap(_dungeon)(rest[1:])
    cells = jax.vmap(_cell_draws)(
        floors._ORE_COLUMNS, CHANCES, trees, ores, theirs.map[HILL_FLOORS]
    )
    maps = theirs.map[BUILT]
    ladder = np.array([row.ladder for row in (*HILLS, *DUNGEONS)])
    places = jnp.stack([theirs.down_ladders[BUILT], theirs.up_ladders[BUILT]], axis=1)
    given = jnp.concatenate([hill_ladders, dungeon_ladders])
    number = jax.vmap(jax.vmap(_number, (None, 0, 0)))
    numbers, far = number(maps == ladder[:, None, None], places, given)
    # Only floor 0 can have a guaranteed diamond.
    diamond = _diamond(diamond[0], theirs.map[0] == Block.STONE)
    diamond = jnp.zeros(floors.FLOORS).at[0].set(diamond)
    return FloorDraws(
        angles=angles,
        cells=jnp.concatenate([cells, jnp.where(rare, 0.05, 0.5)]).astype(jnp.float32),
        choices=jnp.concatenate([diamond[:, None], numbers[ORDER]], axis=1).astype(jnp.float32),
        rooms=rooms,
        potions=jax.random.permutation(jax.random.split(rest[0])[1], jnp.arange(6)),
    ), far.any()


class Keys:
    """Source of random keys: each call splits `count` new keys off the remaining key."""

    def __init__(self, key):
        self.rest = key

    def __call__(self, count=1):
        self.rest, *drawn = jax.random.split(self.rest, count + 1)
        return drawn[0] if count == 1 else drawn


def _hills(key):
    """Return craftax's draws for one of the six floors (`HILLS`) whose terrain is made from noise.

    The result has the angles of the four noises, the draws of each cell for trees and ores, the key
    that chooses the diamond, and the draws that choose the two ladders.
    """
    next_key = Keys(key)

    def angles(rows, columns):
        key = jax.random.split(jax.random.split(next_key())[1])[1]
        return jax.random.uniform(key, (rows + 1, columns + 1))

    water = angles(SIZE // 16, SIZE // 16)
    next_key()
    mountain = angles(SIZE // 16, SIZE // 16)
    path = angles(SIZE // 8, SIZE // 2)
    next_key()
    wood = angles(SIZE // 4, SIZE // 4)
    trees = UNIFORM(next_key.rest)
    next_ore = Keys(next_key())
    ores = jax.vmap(UNIFORM)(jnp.stack([next_ore() for _ in range(5)]))
    diamond, down, up = (next_key() for _ in range(3))
    ladders = jnp.stack([jax.random.uniform(down), jax.random.uniform(up)])
    return (water, mountain, path, wood), (trees, ores), diamond, ladders


CHANCES = {
    "tree": ALL_SMOOTHGEN_CONFIGS.tree_threshold_uniform,
    "tree_on": ALL_SMOOTHGEN_CONFIGS.tree_requirement_block,
    "tree_block": ALL_SMOOTHGEN_CONFIGS.tree,
    "on": ALL_SMOOTHGEN_CONFIGS.ore_requirement_blocks,
    "block": ALL_SMOOTHGEN_CONFIGS.ores,
    "chance": ALL_SMOOTHGEN_CONFIGS.ore_chances,
}


def _cell_draws(ours, theirs, trees, ores, map):
    """Return one draw per cell that gives the same block as craftax's six draws.

    craftax makes one draw for a tree and five for ores. `map` is craftax's finished world; its
    blocks show which draws matter. On ground where trees can grow, the draw for a tree decides
    first; on all other cells, only the draws for ores matter.
    """

    def ore(of, start, stop, otherwise):
        # If craftax puts an ore on a cell, use a draw that gives this ore in our code: the middle
        # of the ore's range. If craftax draws several ores for a cell, it puts the first one.
        draw, found = otherwise, jnp.zeros(map.shape, bool)
        for i in range(start, stop):
            hit = (ores[i] < theirs["chance"][i]) & (theirs["on"][i] == of) & ~found
            mine = (ours["block"] == theirs["block"][i]) & (ours["on"] == of)
            middle = jnp.where(mine, (ours["low"] + ours["high"]) / 2, 0).sum()
            draw, found = jnp.where(hit, middle, draw), found | hit
        return draw

    tree = theirs["tree_block"]
    last = ours["high"].max()  # our draws above this value give a tree instead of an ore
    in_woods = ore(tree, 0, 5, jnp.maximum((1 + last) / 2, (1 + theirs["tree"]) / 2))
    on_ground = jnp.where(trees > theirs["tree"], in_woods, theirs["tree"] / 2)
    grounds = (theirs["tree_on"], tree, Block.GRAVE2, Block.GRAVE3)
    is_ground = functools.reduce(jnp.logical_or, [map == block for block in grounds])
    rock = jnp.where((theirs["on"] == Block.WALL).any(), Block.WALL, Block.STONE)
    return jnp.where(is_ground, on_ground, ore(rock, 0, 5, 0.5))


def _diamond(key, stone):
    """Return a draw with which our code chooses the stone that craftax chooses with `key`."""
    cells = stone.reshape(-1).astype(jnp.float32)
    cell = jax.random.choice(key, jnp.arange(SIZE * SIZE), p=cells / cells.sum())
    return _number(stone, jnp.stack(jnp.divmod(cell, SIZE)), 0.5)[0].astype(jnp.float32)


def _number(allowed, place, given):
    """Return a draw with which our code chooses the cell `place`, and whether `given` is wrong.

    `given` is the draw with which craftax chose `place`. In our code, each allowed cell has a range
    of draws of equal width; craftax adds up probabilities, with rounding errors. The result is
    `given` if it is well inside the range of `place`, so that rounding errors cannot matter.
    Otherwise, the result is the middle of the range. The second value is True if `given` is farther
    outside the range than a rounding error explains.
    """
    allowed, cell = allowed.reshape(-1), place[0] * SIZE + place[1]
    count = allowed.sum(dtype=jnp.int32)
    rank = jnp.where(jnp.arange(SIZE * SIZE) < cell, allowed, False).sum(dtype=jnp.int32)
    off = jnp.abs(count * (1 - given) - (rank + 0.5))
    middle = 1 - (rank + 0.5) / jnp.maximum(count, 1)
    return jnp.where(off > 0.49, middle, given), (off > 0.51) & (count > 0)


def _dungeon(key):
    """Return craftax's draws for a dungeon: rooms, cells with the rare block, and ladders."""
    rest, _, key_sizes = jax.random.split(key, 3)
    size = jax.random.randint(key_sizes, (8, 2), 5, 10)
    next_key = Keys(rest)

    def room(carry, size):
        key, is_free = carry
        next_key = Keys(key)
        chunk = jax.random.choice(next_key(), jnp.arange(9), p=is_free)
        offset = jax.random.randint(next_key(), (2,), 0, 11)
        inside = functools.partial(
            jax.random.randint, shape=(2,), minval=jnp.ones(2), maxval=size - jnp.ones(2)
        )
        chest = inside(next_key())
        key_place, key_coin = next_key(2)
        coin = jax.random.uniform(key_coin) > 0.5
        return (next_key.rest, is_free.at[chunk].set(0)), (
            chunk,
            offset,
            chest,
            inside(key_place),
            coin,
        )

    def corridor(carry, number):
        key, joined = carry
        next_key = Keys(key)
        goal = jax.random.choice(next_key(), jnp.arange(8), p=joined)
        after = next_key()
        return (after, joined.at[number].set(True)), jnp.where(goal == 7, number, goal)

    _, rooms = jax.lax.scan(room, (next_key(), jnp.ones(9)), size)
    joined = jnp.zeros(8, bool).at[-1].set(True)
    _, joins = jax.lax.scan(corridor, (next_key(), joined), jnp.arange(8))
    shares = jnp.array([0.9, 0.1])
    rare = jax.random.choice(next_key(), jnp.array([False, True]), (SIZE, SIZE), p=shares)
    ladders = jnp.stack([jax.random.uniform(next_key()) for _ in range(2)])
    return Rooms(size, *rooms, joins), rare, ladders
