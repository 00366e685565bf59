"""The full game as an environment: observations, masks, kits, its end."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import peer_full as peer
import starts_full as starts

from jaxenvs.craft import full_sight
from jaxenvs.craft.full_rows import FULL
from jaxenvs.craft.kits import KITS
from jaxenvs.craft.tables import Action

ROWS = 2 * len(starts.KINDS)
ENV = peer.ENV


@functools.cache
def seen():
    """Both observations, the one made of the other, masks and numbers of a batch of starts."""

    def all_of(theirs):
        state = peer.from_craftax(theirs)
        world, light = ENV.world(state), ENV.light(state)
        ids = full_sight.ids(FULL, state.map, world, light)
        mask = ENV.action_mask(state)
        return ENV.observe(state), ids, ENV.expand(ids), mask, world

    theirs, _ = starts.batch(ROWS, seed=7)
    return jax.device_get((theirs, *jax.jit(jax.vmap(all_of))(theirs)))


def test_ids_are_a_kilobyte_at_most_and_expand_to_the_symbolic_observation():
    _, symbolic, ids, expanded, *_ = seen()
    assert ids.dtype == np.uint8 and ids.shape[1] == ENV.layout.size <= 1000
    tolerance = np.full(8268, 1e-6)
    tolerance[[8239, 8260]] = 1 / 2560, 1 / 500  # health in 256ths, light in 255ths
    assert (abs(symbolic - expanded) <= tolerance).all()
    assert (symbolic[:, : 99 * 83].sum(1) > 0).any()


def test_an_action_that_the_mask_forbids_changes_nothing_but_what_time_does():
    """The package does the same in such a step as in one of waiting, but for the clock."""
    theirs, *_, mask, _ = seen()
    given = {
        name: np.asarray(leaf) for name, leaf in theirs.__dict__.items() if name != "inventory"
    }
    awake = ~(given["is_sleeping"] | given["is_resting"])
    assert (mask[:, Action.NOOP]).all() and (mask[:, Action.DO] == awake).all()
    potions = np.asarray(theirs.inventory.potions) > 0
    drinks = mask[:, Action.DRINK_POTION_RED : Action.DRINK_POTION_YELLOW + 1]
    np.testing.assert_array_equal(drinks, potions & awake[:, None])
    can = (theirs.player_xp >= 1) & (theirs.player_strength < 5) & awake
    np.testing.assert_array_equal(mask[:, Action.LEVEL_UP_STRENGTH], can)


def test_weights_are_the_packages():
    from craftax.craftax.constants import ACHIEVEMENT_REWARD_MAP

    assert list(FULL.weights) == ACHIEVEMENT_REWARD_MAP.tolist()
    assert sum(FULL.weights) == 226


def test_a_game_begins_on_any_floor_with_a_kit():
    theirs = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), starts.worlds())

    def begun(kit):
        level = peer.level_of(theirs).replace(kit=kit)
        state = ENV.reset_state(jax.random.key(0), level, ENV.default_params)
        return ENV.world(state)

    worlds = jax.device_get(jax.jit(jax.vmap(begun))(jnp.arange(len(KITS), dtype=jnp.int32)))
    for number, kit in enumerate(KITS):
        assert worlds.floor[number] == kit.floor
        assert all(worlds.items[name][number] == count for name, count in kit.items.items())
        at = (worlds.row[number], worlds.column[number])
        expected = theirs.up_ladders[kit.floor] if kit.floor else (24, 24)
        assert at == tuple(int(x) for x in expected)
