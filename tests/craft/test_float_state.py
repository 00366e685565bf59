"""Tests that floats in the state have the same bits with and without fused multiply-adds.

XLA fuses a product and a sum on CPUs and not on GPUs, see `jaxenvs.core.rounding`.
"""

import crowded
import fused
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs.craft import attack, body, classic, ground, harm, projectiles
from jaxenvs.craft.env import reward_of
from jaxenvs.craft.full import _odds
from jaxenvs.craft.full_rows import ARMOUR, CHARMS, FULL
from jaxenvs.craft.state import earned_words
from jaxenvs.craft.step import Moment
from jaxenvs.craft.tables import ROLES

pytestmark = pytest.mark.full

ENV = jaxenvs.make("Craft-Ids-v0")
CLASSIC = jaxenvs.make("Craft-Classic-Ids-v0")
COUNT = 20_000


@pytest.fixture(scope="module")
def world():
    """Return a batch of random worlds whose items, attributes and health are in their ranges."""
    world, _ = crowded.worlds(ENV, 1, 0)
    world = jax.tree.map(lambda x: np.repeat(np.asarray(x), COUNT, 0), world)
    rng = np.random.default_rng(1)

    def below(most, low=0):
        return rng.integers(low, most, COUNT).astype(np.int32)

    items = {**world.items, "sword": below(5), **{piece: below(3) for piece in ARMOUR}}
    vitals = {**world.vitals, "health": (rng.random(COUNT) * 9).astype(np.float32)}
    return world._replace(
        floor=below(len(FULL.floors)),
        items=items,
        vitals=vitals,
        traits={name: below(10, 1) for name in world.traits},
        charms={name: below(3) for name in CHARMS},
        mana_counter=(rng.random(COUNT) * 30).astype(np.float32),
    )


def types(rows, seed=2):
    return np.random.default_rng(seed).integers(0, len(rows), COUNT).astype(np.int32)


def assert_same(function, *args):
    """Assert that a function gives the same bits with and without fusion; return its results.

    If both operands of a sum are products, only one product can be fused; each of the two is tried.
    """
    function = jax.vmap(function)
    with jax.disable_jit():
        plain = [np.asarray(leaf) for leaf in jax.tree.leaves(function(*args))]
    for first in (0, 1):
        found, _ = fused.evaluate(function, *args, first=first)
        for a, b in zip(plain, found, strict=True):
            np.testing.assert_array_equal(a.view(np.int32), np.asarray(b).view(np.int32))
    return plain


@pytest.mark.full
@pytest.mark.parametrize("rows", [FULL.types("melee"), FULL.projectiles], ids=["mobs", "shots"])
def test_blows_at_the_player(world, rows):
    def struck(world, type, hits):
        points = harm.to_player(FULL, world, rows, type, world.sleeping)
        return body.hurt(world, jnp.where(hits, points, 0), hits).vitals["health"]

    assert_same(struck, world, types(rows), types((0, 1), 3) > 0)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("weapon", ["sword", "bow"])
def test_blows_at_mobs(world, role, weapon):
    def struck(world, type, shot, health):
        blow = attack.damage(FULL, world)
        if weapon == "bow":
            blow = projectiles._aimed(FULL, world, shot)
        return jnp.maximum(health - harm.to_mob(FULL, role, type, blow), 0)

    rows = FULL.types(role)
    health = world.vitals["health"]
    assert_same(struck, world, types(rows), types(FULL.projectiles, 4), health)


def test_mana(world):
    assert_same(lambda world: body.gain_mana(world).mana_counter, world)


@pytest.mark.parametrize(("env", "odds"), [(ENV, _odds), (CLASSIC, classic._odds)])
def test_chances_of_mobs(world, env, odds):
    params = env.default_params.replace(fractal_noise_angles=())

    def chances(world, light):
        moment = Moment(env.rules, None, world, None, None, params, light, env.reach, None)
        return odds(moment).chances

    assert_same(chances, world, np.linspace(0, 1, COUNT, dtype=np.float32))


@pytest.mark.parametrize("env", [ENV, CLASSIC])
def test_rewards(world, env):
    """Check that rewards are the same with and without fusion.

    A reward adds 0.1 times the gained health to the rewards of achievements. If this product were
    fused, an achievement and 10 lost points of health would give -1.5e-8 instead of 0.
    """
    # Change of health: a whole number of points in Classic, any number in the full game.
    gained = types(range(21)) - 10
    if env.rules.is_full:
        gained = gained + world.mana_counter / 30
    new = [types(range(4), seed) for seed in range(earned_words(env.rules))]
    assert_same(lambda new, gained: reward_of(env.rules, tuple(new), gained), new, gained)


def test_fusion_would_show():
    x, y, z = np.random.default_rng(0).random((3, COUNT), np.float32)
    found, count = fused.evaluate(lambda x, y, z: x * y + z, x, y, z)
    assert count == 1
    assert 0.05 < (found[0] != x * y + z).mean() < 0.5


def test_no_light_is_near_the_darkest():
    """Check that no light is so near `DARKEST` that rounding decides whether a cell is lit.

    On a GPU, `sqrt` and division may differ from the CPU's in the last bits.
    """
    distances = np.sqrt(np.arange(2 * 48**2))
    torch = (1 - distances / 5).clip(0, 1)
    shine = np.add.outer(0.7 * np.arange(5), 0.2 * np.arange(5)).reshape(-1)
    shine = np.concatenate([shine, 1 + shine])
    light = np.add.outer(torch, shine).clip(0, 1)
    assert np.abs(light - ground.DARKEST).min() > 1e-3
