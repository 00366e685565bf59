"""Tests of the setup `eased` of Craft against computations from the events of the original."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scene
from scene import ENV, quiet

from jaxenvs.craft import Action, CraftClassic, Projectile, boss, sight
from jaxenvs.craft.full import CraftFull
from jaxenvs.craft.setups import repaired
from jaxenvs.craft.state import EARNED_BITS, Mob

EASED = CraftClassic(size=16, obs="ids", setup="eased")
# Rewards of the 67 achievements of the full game, by the specification of craftax 1.6.1.
THREE = (*range(25, 30), *range(36, 40), *range(50, 55), *range(59, 63))
FIVE = (30, 31, 32, *range(40, 44), *range(55, 59), *range(63, 67))
WEIGHTS = np.array([1 if i < 25 else 3 if i in THREE else 5 if i in FIVE else 8 for i in range(67)])
ARMOUR = ("helmet", "chestplate", "leggings", "boots")
GROUP = "craft_scenes"  # tests of this group share a worker, which compiles their step once


@functools.cache
def advance():
    return jax.jit(lambda state, action, draws, params: EASED.advance(
        state.ticked(), action, draws, params
    ))  # fmt: skip


def played(state, action=Action.NOOP, params=None, **draws):
    params = EASED.default_params if params is None else params
    return advance()(state, np.int32(action), quiet(**draws), params)


def test_the_weights_of_the_specification_sum_to_226():
    assert WEIGHTS.sum() == 226


def test_a_step_that_ends_dead_gives_minus_one():
    # The player picks up wood in the same step as an arrow kills it.
    given = scene.scene("r > T", fill="_", vitals={"health": 2})
    died = played(given, Action.DO)
    assert bool(died.terminated) and float(died.reward) == -1.0
    assert np.asarray(died.info["achievements"]).sum() == 1
    lives = played(scene.scene("r > T", fill="_", vitals={"health": 3}), Action.DO)
    assert not bool(lives.terminated) and float(lives.reward) == 1.0


def test_the_time_limit_terminates_only_the_eased_episode():
    given = scene.scene(". > .", time=9)
    params = EASED.default_params.replace(max_steps_in_episode=jnp.int32(10))
    assert bool(played(given, params=params).terminated)
    step = EASED.step(jax.random.key(0), given, np.int32(0), params)
    assert bool(step.terminated) and not bool(step.truncated)
    (original,) = scene.play(given, Action.NOOP, params=params)
    assert not original.terminated
    assert not bool(played(scene.scene(". > .", time=8), params=params).terminated)


def marks_of(env, world):
    """Return, for each cell of the view, the set of its visible mobs, from their positions."""
    height, width = env.rules.view
    top, left = int(world.row) - height // 2, int(world.column) - width // 2
    marks = np.zeros((height, width), int)
    groups = [world.mobs[role] for role in ("melee", "passive", "ranged")]
    for bit, slots in enumerate([*groups, world.projectiles]):
        for slot in slots:
            row, column = int(slot.row) - top, int(slot.column) - left
            if bool(slot.alive) and 0 <= row < height and 0 <= column < width:
                marks[row, column] |= 1 << bit
    return marks


def random_mobs(rng):
    """Return a scene whose slots are alive or dead, near and beyond the edges of the view."""

    def change(world):
        def placed(slot):
            alive = jnp.asarray(rng.random() < 0.5)
            row, column = rng.integers([0, 7], [12, 10])  # often on one cell
            return slot._replace(row=jnp.int32(row), column=jnp.int32(column), alive=alive)

        slot = (Mob, Projectile)
        parts = {"mobs": world.mobs, "projectiles": world.projectiles}
        parts = jax.tree.map(placed, parts, is_leaf=lambda part: isinstance(part, slot))
        return world._replace(**parts)

    return scene.scene(". > .", at=(7, 7), change=change)


def test_repaired_marks_are_those_of_the_positions_of_the_mobs():
    rng, differ = np.random.default_rng(0), 0
    shown = {env: jax.jit(env.observe) for env in (ENV, EASED)}
    by_cell = jax.jit(
        lambda state: sight.by_cell(
            EASED.rules, state.map, repaired(EASED.rules, EASED.world(state))
        )
    )
    where, (height, width) = EASED.layout, EASED.rules.view
    for _ in range(200):
        state = random_mobs(rng)
        expected = marks_of(EASED, EASED.world(state))
        marked = np.asarray(shown[EASED](state))
        np.testing.assert_array_equal(marked[where.mobs].reshape(height, width), expected)
        on_gpu = np.asarray(by_cell(state)[1])[: height * width]
        np.testing.assert_array_equal(on_gpu.reshape(height, width), expected)
        original = np.asarray(shown[ENV](state))
        # The original loses marks, but adds none.
        assert not (original[where.mobs] & ~marked[where.mobs]).any()
        differ += (original != marked).any()
        others = np.ones(where.size, bool)
        others[where.mobs] = False
        np.testing.assert_array_equal(original[others], marked[others])
    assert differ >= 5


def test_a_dead_slot_and_a_slot_beyond_the_view_erase_marks_in_the_original_only():
    where, width = ENV.layout, ENV.rules.view[1]

    def two(other):
        def change(world):
            zombies = (scene.mob(7, 10), other, world.mobs["melee"][2])
            return world._replace(mobs={**world.mobs, "melee": zombies})

        return scene.scene(". > .", at=(7, 10), change=change)

    ahead = where.mobs.start + 3 * width + 3  # the player is at (7, 11)
    for other in (scene.mob(7, 10, alive=False), scene.mob(0, 10), scene.mob(7, 10 - width)):
        state = two(other)
        assert ENV.observe(state)[ahead] == 0
        assert EASED.observe(state)[ahead] == 1


# The full game.

FULL = {name: CraftFull(obs="ids", setup=name) for name in ("original", "eased")}


@functools.cache
def full_step(name):
    env = FULL[name]

    def step(key, state, action):
        after = env.step(key, state, action)
        return after, env.world(state), env.world(after.state)

    return jax.jit(jax.vmap(step))


def expected_reward(weights, before, after, earned):
    """Return PufferLib's reward of each environment; arrays have a leading axis of environments."""
    bits = [
        (np.asarray(before.earned[i // EARNED_BITS]) >> (i % EARNED_BITS)) & 1
        for i in range(len(weights))
    ]
    new = np.asarray(earned, int) - np.stack(bits, axis=1)
    worn = [
        sum(np.asarray(world.items[piece], int) for piece in ARMOUR if piece in world.items)
        for world in (before, after)
    ]
    reward = new @ weights + worn[1] - worn[0]
    return np.where(np.asarray(after.vitals["health"]) <= 0, -1.0, reward)


@pytest.mark.full
def test_the_eased_reward_of_random_play_is_that_of_the_original_events():
    env, count = CraftFull(obs="ids", setup="eased", kit=-1), 64
    state = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), count)).state
    rng, seen = np.random.default_rng(0), []
    for t in range(150):
        keys = jax.random.split(jax.random.key(t + 1), count)
        after, before, now = full_step("eased")(keys, state, rng.integers(0, 43, count, np.int32))
        expected = expected_reward(WEIGHTS, before, now, after.info["achievements"])
        np.testing.assert_array_equal(np.asarray(after.reward), expected)
        dead = np.asarray(now.vitals["health"]) <= 0
        np.testing.assert_array_equal(np.asarray(after.terminated), dead)
        seen.append(expected)
        state = after.state
    assert {-1.0, 0.0, 1.0} <= set(np.unique(seen))


@pytest.mark.full
def test_the_eased_reward_of_random_play_in_classic():
    count, rng = 64, np.random.default_rng(0)
    step = jax.jit(jax.vmap(EASED.step))
    world_of = jax.jit(jax.vmap(EASED.world))
    state = jax.jit(jax.vmap(EASED.reset))(jax.random.split(jax.random.key(0), count)).state
    for t in range(150):
        after = step(jax.random.split(jax.random.key(t + 1), count), state,
                     rng.integers(0, 17, count, np.int32))  # fmt: skip
        given = world_of(state), world_of(after.state), after.info["achievements"]
        np.testing.assert_array_equal(after.reward, expected_reward(np.ones(22), *given))
        state = after.state


def started():
    """Return 1 state of the full game, in a batch, and its world."""
    env = FULL["eased"]
    state = jax.jit(env.reset)(jax.random.key(0)).state
    return env, state, env.world(state)


def packed(env, state, world):
    more = {"floors": state.floors, "light": state.light}
    return jax.tree.map(lambda x: x[None], env.packed(state.time, state.map, world, **more))


@pytest.mark.full
@pytest.mark.parametrize("name", ["original", "eased"])
def test_another_piece_of_armour_is_rewarded_by_the_eased_setup_only(name):
    env, state, world = started()
    row, column = int(world.row), int(world.column)
    state = state.replace(map=state.map.at[0, row, column + 1].set(11))  # a table
    state = state.replace(map=state.map.at[0, row, column - 1].set(12))  # a furnace
    everything = tuple(jnp.full_like(word, 2**EARNED_BITS - 1) for word in world.earned)
    items = {**world.items, "iron": jnp.int32(3), "coal": jnp.int32(3), "helmet": jnp.int32(1)}
    given = packed(env, state, world._replace(items=items, earned=everything))
    after, _, now = full_step(name)(
        jax.random.split(jax.random.key(0), 1), given, np.array([Action.MAKE_IRON_ARMOUR], np.int32)
    )
    assert sum(int(now.items[piece][0]) for piece in ARMOUR) == 2
    assert float(after.reward[0]) == (1.0 if name == "eased" else 0.0)


@pytest.mark.full
@pytest.mark.parametrize("name", ["original", "eased"])
def test_the_defeat_of_the_necromancer_ends_only_the_original_episode(name):
    env = FULL[name]
    level, actions = env.ending(env.sample_level(jax.random.key(0)))
    state = jax.tree.map(lambda x: x[None], env.reset_to(jax.random.key(0), level).state)
    for action in (*actions, *[Action.DO] * 12):
        keys = jax.random.split(jax.random.key(1), 1)
        after, _, world = full_step(name)(keys, state, np.array([action], np.int32))
        state = after.state
        if world.boss["progress"][0] >= boss.WAVES:
            break
    assert int(world.boss["progress"][0]) == boss.WAVES
    assert bool(after.terminated[0]) == (name == "original")
    assert bool(after.info["achievements"][0][49])  # defeat_necromancer


@pytest.mark.full
def test_a_further_hit_on_the_necromancer_does_not_overflow_its_counter():
    env = FULL["eased"]
    level, _ = env.ending(env.sample_level(jax.random.key(0)))
    state = env.reset_to(jax.random.key(0), level).state
    world = env.world(state)
    beaten = {"progress": jnp.int32(boss.WAVES), "timer": jnp.int32(0)}
    facing = int(world.facing)
    assert facing in (1, 2, 3, 4)
    given = packed(env, state, world._replace(boss=beaten))
    keys = jax.random.split(jax.random.key(1), 1)
    after, _, now = full_step("eased")(keys, given, np.array([Action.DO], np.int32))
    assert int(now.boss["timer"][0]) > 0  # the hit started another wave
    assert int(now.boss["progress"][0]) == boss.WAVES and not bool(after.terminated[0])
