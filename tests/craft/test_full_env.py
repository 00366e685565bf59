"""Tests of the full game as an environment: observations, masks, kits, keys, torch light.

A kit sets the floor and the items with which an episode starts.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import peer_full as peer
import pytest
import starts_full as starts
from subjects import build

import jaxenvs
from jaxenvs.craft import floors, full_rows, full_sight
from jaxenvs.craft.full_rows import FULL
from jaxenvs.craft.ground import shone
from jaxenvs.craft.kits import KITS
from jaxenvs.craft.tables import Action, Block

pytestmark = pytest.mark.full

GROUP = "lockstep_full"  # tests of this group share a worker, which generates craftax's worlds once
ROWS = 2 * len(starts.KINDS)
ENV = peer.ENV
IDS = jaxenvs.make("Craft-Ids-v0")


@functools.cache
def seen():
    """Return start states of craftax, and what our code computes from these states.

    The results of our code are `symbolic`, `ids`, `ids` expanded to `symbolic`, masks, worlds and
    features.
    """

    def all_of(theirs):
        state = peer.from_craftax(theirs)
        world, light = ENV.world(state), ENV.light(state)
        ids = full_sight.ids(FULL, state.map, world, light)
        mask = ENV.action_mask(state)
        features = IDS.features.of(ids)
        return ENV.observe(state), ids, ENV.expand(ids), mask, world, features

    theirs, _ = starts.batch(ROWS, seed=7)
    return jax.device_get((theirs, *jax.jit(jax.vmap(all_of))(theirs)))


def test_ids_are_a_kilobyte_at_most_and_expand_to_the_symbolic_observation():
    _, symbolic, ids, expanded, *_ = seen()
    assert ids.dtype == np.uint8 and ids.shape[1] == ENV.layout.size <= 1000
    tolerance = np.full(8268, 1e-6)
    # Entries with larger rounding errors: `ids` stores health in 256ths, light in 255ths.
    tolerance[[8239, 8260]] = 1 / 2560, 1 / 500
    assert (abs(symbolic - expanded) <= tolerance).all()
    assert (symbolic[:, : 99 * 83].sum(1) > 0).any()


def test_features_are_a_map_of_cells_categories_for_counts_and_numbers():
    *_, expanded, _, world, features = seen()
    space = IDS.features.space.spaces
    assert features["cells"].shape[1:] == space["cells"].shape == (9, 11, 83)
    parts = [features[name].reshape(ROWS, -1) for name in ("cells", "body")]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), expanded)
    items = [world.items[name] for name in FULL.items]
    charms = [world.charms[name] for name in full_rows.CHARMS]
    vitals = [np.floor(world.vitals[name]) for name in ("health", *full_sight.VITALS)]
    traits = [world.traits[name] for name in full_rows.TRAITS]
    counts = [*items, *charms, *vitals, *traits, world.floor]
    np.testing.assert_array_equal(features["counts"], np.minimum(np.stack(counts, axis=1), 9))
    assert len(set(world.floor.tolist())) > 2
    ways = np.array([(0, 0), (0, -1), (0, 1), (-1, 0), (1, 0)])[world.facing] + [4, 5]
    ahead = features["cells"][np.arange(ROWS), *ways.T]
    np.testing.assert_array_equal(features["ahead"], ahead)
    assert IDS.map_features.space == IDS.features.space


def test_features_of_the_symbolic_observation_are_the_same_without_categories():
    *_, expanded, _, _, features = seen()
    read = jax.device_get(jax.jit(jax.vmap(ENV.features.of))(expanded))
    np.testing.assert_array_equal(read["cells"], features["cells"])
    np.testing.assert_array_equal(read["body"], features["body"])
    pixels = jaxenvs.make("Craft-Pixels-v0")
    assert pixels.features.space == pixels.observation_space


def test_masks_are_the_conditions_of_craftax():
    """Compare the masks of NOOP, DO, potions and strength with conditions on craftax's states."""
    theirs, *_, mask, _, _ = seen()
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


def test_levels_have_the_kit_of_the_field_or_a_drawn_one(monkeypatch):
    level = peer.level_of(jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), starts.worlds()))
    # The test looks only at the kit, so it needs no terrain.
    monkeypatch.setattr(floors, "draw", lambda key, angles: None)
    monkeypatch.setattr(floors, "build", lambda draws, diamond: level)

    def drawn(kit):
        env = jaxenvs.make("Craft-Ids-v0", kit=kit)
        keys = jax.vmap(jax.random.key)(jnp.arange(2000))
        draw = jax.jit(jax.vmap(lambda key: env.draw_level(key, env.default_params).kit))
        return np.bincount(draw(keys), minlength=len(KITS))

    assert drawn(5)[5] == drawn(0)[0] == 2000
    assert (abs(drawn(-1) - 200) < 70).all()  # 70 is five standard deviations
    with pytest.raises(ValueError, match="kit=10 is out of range; it must be from -1 to 9"):
        jaxenvs.make("Craft-Ids-v0", kit=10)


def test_keys_of_actions_are_free_in_the_window():
    keys = [key for row in ENV.controls.actions for key in row.keys]
    assert len(ENV.controls.actions) == 43
    assert len(keys) == len(set(keys)) and not {"h", "g", "n", "escape", "backspace"} & set(keys)
    times = {"left", "right", "up", "down", "space"}
    assert all(set(row.keys) - times for row in ENV.controls.actions)


# The following tests check the light in pictures.


def with_torch(light, floor, row, column):
    """Return `light` with the light of a torch added, as craftax computes it."""
    from craftax.craftax.constants import TORCH_LIGHT_MAP

    wide = np.pad(light[floor], 4)
    wide[row : row + 9, column : column + 9] += np.asarray(TORCH_LIGHT_MAP)
    lit = light.copy()
    lit[floor] = wide[4:-4, 4:-4].clip(0, 1)
    return lit


@pytest.mark.parametrize("cell", [(20, 30), (0, 47), (46, 2)])
def test_a_torch_lights_the_cells_around_it_as_in_the_package(cell):
    light = np.random.default_rng(0).random((9, 48, 48)).astype(np.float32)
    kept = jnp.asarray(np.round(light * 255), jnp.uint8)
    at = tuple(jnp.int32(x) for x in (3, *cell))
    shine = jax.jit(shone)
    difference = shine(kept, at, jnp.bool_(True)) / 255 - with_torch(light, 3, *cell)
    assert abs(difference).max() <= 1.01 / 255  # both values are rounded to 255ths
    np.testing.assert_array_equal(shine(kept, at, jnp.bool_(False)), kept)


def test_a_placed_torch_appears_in_the_picture():
    subject = build("Craft-Pixels-v0")
    env, params = subject.env, subject.env.default_params
    level = jax.jit(env.sample_level)(jax.random.key(2))
    row, column = (int(x) for x in level.up_ladders[2])
    open_ground = np.array(level.map)
    open_ground[2, row - 2 : row + 3, column - 2 : column + 3] = Block.PATH
    level = level.replace(map=jnp.asarray(open_ground), kit=jnp.int32(2), light=level.light * 0)
    begun = jax.jit(env.reset_to)(jax.random.key(0), level)
    dark = begun.obs[:90]
    step = subject.step(jax.random.key(1), begun.state, jnp.int32(Action.PLACE_TORCH), params)
    ahead = (row - 1, column)  # the cell above: at the start, the player faces up
    expected = with_torch(np.zeros((9, 48, 48), np.float32), 2, *ahead)
    assert abs(np.asarray(step.state.light) / 255 - expected).max() <= 0.51 / 255
    assert not dark.any() and (np.asarray(step.obs[:90]) > 0).mean() > 0.3
