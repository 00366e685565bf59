"""Tests of Craft's setups: rewards, marks of mobs, masks, and the end of an episode."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scene
from scene import mob, quiet, set_slot

import jaxenvs
from jaxenvs.core.masking import is_masked, legal_actions
from jaxenvs.craft import Action, CraftClassic
from jaxenvs.craft.setups import SETUPS, repaired
from jaxenvs.craft.sight import _groups, view, who

GROUP = "craft_scenes"  # tests of this group share a worker, which compiles their step once
EASED = CraftClassic(size=16, obs="ids", setup="eased")


@functools.cache
def eased():
    """Return the compiled step of `EASED`, which takes the same states as `scene.ENV`."""

    def step(state, action, draws):
        after = EASED.advance(state.ticked(), action, draws, EASED.default_params)
        return after.reward, after.terminated

    return jax.jit(step)


def reward(before, action=Action.NOOP, **draws):
    return float(eased()(before, np.int32(action), quiet(**draws))[0])


def test_the_eased_reward_has_no_health_term():
    tree = scene.scene(". > T", vitals={"health": 5})
    assert reward(tree, Action.DO) == 1.0
    hurt = scene.scene(". > Z", vitals={"health": 9})
    after, world = scene.advance()(
        hurt, np.int32(0), quiet(melee_gate=0.99), scene.ENV.default_params
    )
    assert float(after.reward) < 0 and int(world.vitals["health"]) < 9
    assert reward(hurt, melee_gate=0.99) == 0.0


def test_a_step_that_ends_dead_has_the_reward_minus_one():
    assert reward(scene.scene(". > L"), Action.RIGHT) == -1.0
    asleep = scene.scene(". > Z", vitals={"health": 1, "energy": 3}, sleeping=True)
    assert reward(asleep, melee_gate=0.99) == -1.0  # although the blow earns WAKE_UP
    assert eased()(asleep, np.int32(0), quiet(melee_gate=0.99))[1]


def crowded(rng):
    """Return a world with random mobs and arrows in and around the view; some are not alive."""
    state = scene.scene(". > .")
    world = scene.ENV.world(state)

    # Few cells, so that slots often meet: some lie a view height or width before another.
    height, width = scene.ENV.rules.view

    def slot(one):
        row = world.row + rng.choice([-2 - height, -2, 2])
        column = world.column + rng.choice([1 - width, 1, 3])
        cells = {"row": jnp.int32(row), "column": jnp.int32(column)}
        return one._replace(alive=jnp.array(rng.random() < 0.6), **cells)

    mobs = {role: tuple(map(slot, slots)) for role, slots in world.mobs.items()}
    return state, world._replace(mobs=mobs, projectiles=tuple(map(slot, world.projectiles)))


def test_repaired_marks_are_those_of_all_visible_mobs_and_no_others():
    """Compare with a plain loop over the slots; Craftax's marks only ever lack some of them."""
    rules, rng, lost = scene.ENV.rules, np.random.default_rng(0), 0
    height, width = rules.view
    seen = jax.jit(lambda world: who(rules, world, _groups(rules, world)))
    fixed = jax.jit(
        lambda world: who(rules, repaired(rules, world), _groups(rules, repaired(rules, world)))
    )
    for _ in range(200):
        _, world = crowded(rng)
        expected = np.zeros((height, width), np.int32)
        for bit, slots in enumerate([*world.mobs.values(), world.projectiles]):
            for one in slots:
                row = int(one.row - world.row) + height // 2
                column = int(one.column - world.column) + width // 2
                if one.alive and 0 <= row < height and 0 <= column < width:
                    expected[row, column] |= 1 << bit
        original = np.asarray(seen(world))
        np.testing.assert_array_equal(fixed(world), expected)
        assert ((original & ~expected) == 0).all()
        lost += (original != expected).any()
    assert lost > 10  # the test would not see a repair that does nothing


def test_a_dead_mob_hides_a_living_one_unless_eased():
    dead = set_slot("melee", 2, mob(4, 6, alive=False))
    state = scene.scene(". > Z", change=dead)
    shown = {}
    for env in (scene.ENV, EASED):
        shown[env.setup] = np.asarray(env.observe(state))
    assert (shown["original"] != shown["eased"]).sum() == 1
    mark = np.flatnonzero(shown["original"] != shown["eased"])[0]
    assert shown["original"][mark] == 0 and shown["eased"][mark] == 1
    assert np.asarray(view(scene.ENV.rules, state.map, scene.ENV.world(state))[1]).sum() == 0


@pytest.mark.parametrize("setup", SETUPS)
def test_learners_use_the_mask_unless_original(setup):
    env = CraftClassic(size=16, setup=setup)
    state = scene.scene(". > .")
    mask = legal_actions(env, state)
    assert is_masked(env) == (setup != "original") == (mask is not None)
    assert not env.action_mask(state).all()  # always available
    assert env.skips_forced == (setup == "eased")


def test_masked_has_the_rules_and_rewards_of_the_original():
    original, masked = (CraftClassic(size=16, setup=setup) for setup in ("original", "masked"))
    for key in jax.random.split(jax.random.key(0), 2):
        states = [env.reset(key).state for env in (original, masked)]
        for i in range(20):
            action = jnp.int32(i % 17)
            steps = [
                env.step(key, s, action) for env, s in zip((original, masked), states, strict=True)
            ]
            jax.tree.map(np.testing.assert_array_equal, *steps)
            states = [step.state for step in steps]


@pytest.mark.full
def test_armour_counts_and_the_boss_does_not_end_an_eased_episode():
    original, changed = (jaxenvs.make("Craft-Ids-v0", setup=name) for name in ("original", "eased"))
    state = jax.jit(original.reset)(jax.random.key(0)).state
    world = original.world(state)
    won = world._replace(boss={**world.boss, "progress": jnp.int32(99)})
    assert original.is_over(won) and not changed.is_over(won)
    worn = world._replace(items={**world.items, "helmet": jnp.int32(2), "boots": jnp.int32(1)})
    none = tuple(jnp.zeros_like(word) for word in world.earned)
    from jaxenvs.craft.setups import eased_reward

    assert eased_reward(original.rules, world, worn, none) == 3.0
    assert eased_reward(original.rules, worn, world, none) == -3.0
    dead = worn._replace(vitals={**worn.vitals, "health": jnp.float32(-0.5)})
    assert eased_reward(original.rules, world, dead, none) == -1.0


def test_an_unknown_setup_says_what_there_is():
    with pytest.raises(ValueError, match=r"setup.*original.*masked.*eased"):
        jaxenvs.make("Craft-Classic-Ids-v0", setup="easy")
    with pytest.raises(Exception, match="no field or param 'setup'"):
        jaxenvs.make("Grid-Empty-5x5-v0", setup="eased")
