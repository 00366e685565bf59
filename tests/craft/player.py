"""A scripted policy for Craft-Classic that earns many achievements, by following the tech tree.

The policy reads craftax's state. It is pure JAX, so that `lockstep` can compile it together with
craftax's step. It takes shortest paths within the 17 x 17 cells around the player, and wanders when
no target is in sight.
"""

import jax
import jax.numpy as jnp

from jaxenvs.craft.tables import Achievement, Action, Block

# Number of cells that the policy sees on each side of the player, and number of steps that it plans
# ahead.
REACH, ROUNDS = 8, 24
STEPS = jnp.array([[0, 0], [0, -1], [0, 1], [-1, 0], [1, 0]])
SOLID = (Block.WATER, Block.CRAFTING_TABLE, Block.FURNACE, Block.PLANT, Block.RIPE_PLANT)
FAR = 1_000


def act(key, state):
    """Return the next action towards all achievements; with probability 0.1, a random action."""
    key_wander, key_random, key_which = jax.random.split(key, 3)
    window = _window(state)
    wanted, blocks = _wanted(state)
    action = _craft(state, wanted, window)
    walk = _walk(key_wander, state, window, blocks)
    action = jnp.where(action > 0, action, walk)
    other = jax.random.randint(key_random, (), 0, 17)
    return jnp.where(jax.random.uniform(key_which) < 0.1, other, action).astype(jnp.int32)


def _window(state):
    """Return the blocks around the player, and the mobs as numbers: 0 none, 1 other mob, 2 cow."""
    span = jnp.arange(-REACH, REACH + 1)
    rows = state.player_position[0] + span[:, None]
    columns = state.player_position[1] + span[None, :]
    size = state.map.shape[0]
    inside = (rows >= 0) & (rows < size) & (columns >= 0) & (columns < size)
    index = (rows.clip(0, size - 1), columns.clip(0, size - 1))
    cows = jnp.zeros((size, size), jnp.bool_)
    for i in range(len(state.cows.mask)):
        row, column = state.cows.position[i]
        cows = cows.at[row, column].max(state.cows.mask[i])
    blocks = jnp.where(inside, state.map[index], Block.WATER)
    mobs = jnp.where(cows[index], 2, state.mob_map[index].astype(jnp.int32))
    return blocks, jnp.where(inside, mobs, 0)


def _wanted(state):
    """Return two pairs, (flags, actions) and (flags, blocks), each ordered by priority.

    The flag of an action says whether the action is wanted and possible. The flag of a block says
    whether the player wants to go to a block of this type. The block 99 stands for a cow.
    """
    bag, done = state.inventory, state.achievements
    new = lambda achievement: ~done[achievement]  # noqa: E731
    tools = [
        (new(Achievement.PLACE_TABLE), Action.PLACE_TABLE, bag.wood >= 2),
        (bag.wood_pickaxe == 0, Action.MAKE_WOOD_PICKAXE, bag.wood >= 1),
        (bag.wood_sword == 0, Action.MAKE_WOOD_SWORD, bag.wood >= 1),
        (new(Achievement.PLACE_STONE), Action.PLACE_STONE, bag.stone >= 1),
        (bag.stone_pickaxe == 0, Action.MAKE_STONE_PICKAXE, (bag.wood >= 1) & (bag.stone >= 1)),
        (bag.stone_sword == 0, Action.MAKE_STONE_SWORD, (bag.wood >= 1) & (bag.stone >= 1)),
        (new(Achievement.PLACE_FURNACE), Action.PLACE_FURNACE, bag.stone >= 1),
        (bag.iron_pickaxe == 0, Action.MAKE_IRON_PICKAXE, _iron(bag)),
        (bag.iron_sword == 0, Action.MAKE_IRON_SWORD, _iron(bag)),
        (new(Achievement.PLACE_PLANT), Action.PLACE_PLANT, bag.sapling >= 1),
    ]
    places = [
        (state.player_drink < 5, Block.WATER),
        (state.player_food < 6, 99),
        (new(Achievement.EAT_COW), 99),
        (new(Achievement.COLLECT_DRINK), Block.WATER),
        (bag.wood < 5, Block.TREE),
        ((bag.stone < 3) & (bag.wood_pickaxe > 0), Block.STONE),
        ((bag.coal < 2) & (bag.wood_pickaxe > 0), Block.COAL),
        ((bag.iron < 2) & (bag.stone_pickaxe > 0), Block.IRON),
        (bag.iron_pickaxe > 0, Block.DIAMOND),
        (new(Achievement.COLLECT_SAPLING), Block.GRASS),
    ]
    able = jnp.stack([need & can for need, _, can in tools])
    wants = jnp.stack([need for need, _ in places])
    return (able, jnp.array([a for _, a, _ in tools])), (wants, [block for _, block in places])


def _iron(bag):
    return (bag.wood >= 1) & (bag.stone >= 1) & (bag.coal >= 1) & (bag.iron >= 1)


def _craft(state, wanted, window):
    """Return the action that crafts, places, sleeps when tired, or fights the mob ahead; else 0.

    If a ripe plant is ahead, the action is DO, which eats the plant.
    """
    able, actions = wanted
    blocks, mobs = window
    around = blocks[REACH - 1 : REACH + 2, REACH - 1 : REACH + 2]
    table, furnace = (around == Block.CRAFTING_TABLE).any(), (around == Block.FURNACE).any()
    makes = actions >= Action.MAKE_WOOD_PICKAXE
    iron = (actions == Action.MAKE_IRON_PICKAXE) | (actions == Action.MAKE_IRON_SWORD)
    able = able & (~makes | table) & (~iron | furnace)
    # If a recipe needs a table or furnace and none is near, the player places one.
    step = STEPS[state.player_direction]
    ahead = blocks[REACH + step[0], REACH + step[1]]
    free = jnp.isin(ahead, jnp.array([Block.GRASS, Block.SAND, Block.PATH]))
    again = (wanted[0] & makes).any() & ~table & (state.inventory.wood >= 2)
    stove = (wanted[0] & iron).any() & table & ~furnace & (state.inventory.stone >= 1)
    first = jnp.where(able.any(), actions[jnp.argmax(able)], 0)
    first = jnp.where(again & free, Action.PLACE_TABLE, first)
    first = jnp.where(stove & free, Action.PLACE_FURNACE, first)
    first = jnp.where((first == Action.PLACE_PLANT) & (ahead != Block.GRASS), 0, first)
    tired = (state.player_energy < 3) | ((state.player_energy < 9) & (state.timestep % 300 > 200))
    first = jnp.where(tired & (mobs.sum() == 0), Action.SLEEP, first)
    fights = mobs[REACH + step[0], REACH + step[1]] > 0
    ripe = ahead == Block.RIPE_PLANT
    return jnp.where(fights | ripe, Action.DO, first)


def _walk(key, state, window, wanted):
    """Return a move towards a target, or DO if the target or a block in the way is ahead.

    The target is the nearest block of the first wanted type that is in sight. If no wanted block is
    in sight, the player wanders.
    """
    blocks, mobs = window
    wants, kinds = wanted
    masks = jnp.stack([(mobs == 2) if kind == 99 else (blocks == kind) for kind in kinds])
    masks = masks & wants[:, None, None]
    # `distances` (blocks, 17, 17): steps from each cell to the nearest block of each wanted type.
    # `beside` (blocks, 4): steps from each of the player's four neighbouring cells.
    distances = jax.vmap(lambda mask: _distances(state, blocks, mobs, mask))(masks)
    beside = jnp.stack([distances[:, REACH + r, REACH + c] for r, c in STEPS[1:]], axis=1)
    seen = beside.min(axis=1) < ROUNDS
    choice = jnp.argmax(seen)
    towards = jnp.argmin(beside[choice]) + 1
    wander = 1 + jax.random.randint(jax.random.fold_in(key, 1), (), 0, 4)
    keep = jax.random.uniform(key) < 0.85
    wander = jnp.where(keep, state.player_direction, wander)
    towards = jnp.where(seen.any(), towards, wander)
    step = STEPS[towards]
    ahead = blocks[REACH + step[0], REACH + step[1]]
    target = seen.any() & masks[choice, REACH + step[0], REACH + step[1]]
    uses = (target | _breaks(state, ahead)) & (state.player_direction == towards)
    lava = ahead == Block.LAVA
    return jnp.where(uses, Action.DO, jnp.where(lava, 1 + towards % 4, towards))


def _breaks(state, block):
    """Return whether a block is an obstacle that the player can mine: tree, stone or coal."""
    stone = (block == Block.STONE) | (block == Block.COAL)
    return (block == Block.TREE) | (stone & (state.inventory.wood_pickaxe > 0))


def _distances(state, blocks, mobs, targets):
    """Return each cell's distance in steps to the nearest target.

    Entering a cell takes one step; mining the cell first takes two more.
    """
    shut = jnp.isin(blocks, jnp.array(SOLID)) | (blocks == Block.LAVA) | (mobs > 0)
    ore = (blocks == Block.IRON) | (blocks == Block.DIAMOND)
    stone = (blocks == Block.STONE) | (blocks == Block.COAL)
    shut = shut | ore | (stone & (state.inventory.wood_pickaxe == 0))
    cost = 1 + 2 * ((blocks == Block.TREE) | stone)

    def once(_, distance):
        padded = jnp.pad(distance, 1, constant_values=FAR)
        near = jnp.minimum(
            jnp.minimum(padded[:-2, 1:-1], padded[2:, 1:-1]),
            jnp.minimum(padded[1:-1, :-2], padded[1:-1, 2:]),
        )
        walked = jnp.where(shut, FAR, near + cost)
        return jnp.where(targets, 0, jnp.minimum(distance, walked))

    start = jnp.where(targets, 0, jnp.full(targets.shape, FAR))
    return jax.lax.fori_loop(0, ROUNDS, once, start)
