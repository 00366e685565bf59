"""Roll out clones of a state of the full game with a randomised policy, in one compiled program.

The draws of a step depend only on the game's key and the step's number. Therefore a game that takes
the actions of a clone reaches exactly the same states as the clone.
"""

import jax
import jax.numpy as jnp
import numpy as np

import jaxenvs
from jaxenvs.craft.tables import Action, Block

ENV = jaxenvs.make("Craft-Ids-v0")
CLONES, AHEAD = 384, 8  # number of clones, and number of steps of a rollout
FAR = np.float32(1e4)  # distance that stands for unreachable cells
# Vectors of a step to the left, right, up and down.
WAYS = np.array([[0, -1], [0, 1], [-1, 0], [1, 0]], np.int32)
SHOT_REACH = 8  # largest distance of mobs, in steps, at which clones shoot
WALKED = (
    *(Block.GRASS, Block.PATH, Block.SAND, Block.DARKNESS),
    *(Block.FIRE_GRASS, Block.ICE_GRASS, Block.ICE_SHRUB),
)
IS_WALKED = np.isin(np.arange(64), WALKED)
IS_WET = np.isin(np.arange(64), (Block.WATER, Block.LAVA))


def advance(key, state, action):
    """Return the state after one step; the game's `key` and the step's number give the draws."""
    drawn = jax.random.fold_in(key, state.time)
    return ENV.step_state(drawn, state.ticked(), action, ENV.default_params).state


def _beside(world, cells, plan):
    """Return five arrays with one value for each of the four adjacent cells.

    They are the rows, the columns, the blocks, the distances to the target (`plan["field"]`), and
    whether the clone uses the cell's block instead of entering the cell (`plan["use"]`).
    """
    rows, columns = world.row + WAYS[:, 0], world.column + WAYS[:, 1]
    inside = (rows >= 0) & (rows < 48) & (columns >= 0) & (columns < 48)
    index = rows.clip(0, 47) * 48 + columns.clip(0, 47)
    block = (cells[world.floor].reshape(-1)[index] & 63).astype(jnp.int32)
    field = jnp.where(inside, plan["field"].reshape(-1)[index], FAR)
    return rows, columns, block, field, plan["use"].reshape(-1)[index] & inside


def _mobs(world, plan, rows, columns):
    """Return three arrays of flags, with one flag for each of the four directions.

    The arrays say whether a mob is on the adjacent cell, whether a foe is there, and whether a foe
    is within the reach of a shot in this direction. Foes are melee and ranged mobs; if
    `plan["hunt"]` is True, passive mobs too.
    """
    foes = [*world.mobs["melee"], *world.mobs["ranged"]]
    mobs = [*foes, *world.mobs["passive"]]
    row, column, alive = (
        jnp.stack([getattr(mob, name) for mob in mobs]) for name in ("row", "column", "alive")
    )
    hunted = alive & ((np.arange(len(mobs)) < len(foes)) | plan["hunt"])
    beside = (row == rows[:, None]) & (column == columns[:, None])
    down, right = row - world.row, column - world.column
    line = [(down == 0) & (right < 0), (down == 0) & (right > 0)]
    line += [(right == 0) & (down < 0), (right == 0) & (down > 0)]
    near = hunted & (jnp.abs(down) + jnp.abs(right) <= SHOT_REACH)
    return (beside & alive).any(1), (beside & hunted).any(1), (jnp.stack(line) & near).any(1)


def _walk(noise, world, plan, beside, taken):
    """Return an action that brings a clone nearer to the target: a step, digging or bridging.

    A clone at the target takes the action `plan["arrive"]`. If no target can be reached, the clone
    takes a random step.
    """
    _, _, block, field, use = beside
    jitter = plan["loose"] * jax.random.uniform(noise, (4,), maxval=4.0)
    best = jnp.argmin(field + jnp.where(taken & ~use, 4.0, 0.0) + jitter)
    ahead = best == world.facing - 1
    walked, wet = jnp.asarray(IS_WALKED)[block[best]], jnp.asarray(IS_WET)[block[best]]
    go = jnp.where(walked & ~taken[best], best + 1, jnp.where(ahead, Action.DO, best + 1))
    go = jnp.where(ahead & wet, Action.PLACE_STONE, go)
    go = jnp.where(ahead & use[best], plan["useful"], go)
    arrived = plan["field"][world.row, world.column] <= 0
    go = jnp.where(arrived, plan["arrive"], go)
    wander = 1 + jax.random.randint(jax.random.fold_in(noise, 1), (), 0, 4)
    return jnp.where(field[best] >= FAR, wander, go)


def policy(noise, world, cells, plan):
    """Return a clone's action: fight or shoot a foe, else follow the plan; sometimes random."""
    chance = jax.random.uniform(noise, (4,))
    walk_noise, any_noise = jax.random.fold_in(noise, 1), jax.random.fold_in(noise, 2)
    beside = _beside(world, cells, plan)
    taken, foe, line = _mobs(world, plan, *beside[:2])
    facing = world.facing - 1
    blow = jnp.where(chance[1] < plan["magic"], plan["shot"], Action.DO)
    fights = (chance[0] < plan["fight"]) & foe.any()
    action = _walk(walk_noise, world, plan, beside, taken)
    action = jnp.where(fights, jnp.where(foe[facing], blow, jnp.argmax(foe) + 1), action)
    shoots = (chance[2] < plan["shoots"]) & ~foe.any() & line.any()
    aimed = jnp.where(line[facing], plan["shot"], jnp.argmax(line) + 1)
    action = jnp.where(shoots, aimed, action)
    anything = jax.random.categorical(any_noise, plan["odds"])
    return jnp.where(chance[3] < plan["loose"], anything, action).astype(jnp.int32)


def _clone(key, state, plan, forced, noise):
    """Roll out a clone; return its last state, its actions, its last `World` and a count.

    The count is the number of cells marked in `plan["use"]` whose block has changed.
    """

    def once(before, step):
        number, force = step
        chosen = policy(jax.random.fold_in(noise, number), ENV.world(before), before.map, plan)
        action = jnp.where(force >= 0, force, chosen)
        return advance(key, before, action), action

    after, actions = jax.lax.scan(once, state, (np.arange(AHEAD, dtype=np.int32), forced))
    floor = ENV.world(state).floor
    changed = (state.map[floor] & 63) != (after.map[floor] & 63)
    return after, actions, ENV.world(after), (changed & plan["use"]).sum(dtype=jnp.int32)


@jax.jit
def roll(key, state, plan, each, forced, seed):
    """Roll out clones of a state, and return the batched results of `_clone`.

    `plan` has the settings that all clones share, `each` the settings with one value per clone.
    `forced` (clones, steps) has actions that replace the policy's; a negative entry keeps the
    policy's action.
    """
    noise = jax.random.split(jax.random.key(seed), CLONES)
    one = lambda each, forced, noise: _clone(key, state, {**plan, **each}, forced, noise)  # noqa: E731
    return jax.vmap(one)(each, forced, noise)


@jax.jit
def pick(states, number):
    """Select one state of a batch."""
    return jax.tree.map(lambda leaf: leaf[number], states)


@jax.jit
def begin(key):
    """Return the first state of the game with this key."""
    return ENV.reset(key).state


look = jax.jit(ENV.world)
