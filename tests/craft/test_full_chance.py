"""Tests that draws and first states of the full game are like craftax's.

The distribution of the draws and the values of first states must equal craftax's.
(`test_full_differential` plays with craftax's draws, so it does not test how we draw.)
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import peer_full as peer
import pytest
import starts_full as starts
from craftax.craftax.world_gen.world_gen import get_new_full_inventory

from jaxenvs.craft import chance
from jaxenvs.craft.chance import ORES
from jaxenvs.craft.state import Slots

COUNT, ERRORS = 1 << 15, 4.5  # number of draws, and tolerance of a frequency in standard errors


@functools.cache
def drawn():
    """Return the draws of COUNT steps, as numpy arrays."""
    draw = jax.jit(jax.vmap(lambda key: chance.draw(key, Slots(), full=True)))
    return jax.device_get(draw(jax.random.split(jax.random.PRNGKey(0), COUNT)))


def loot():
    return drawn().loot._asdict()


TOOL = {0: 0.9, **{level: 0.1 * odds for level, odds in enumerate((0.4, 0.3, 0.2, 0.1), 1)}}
SHARES = {  # field of `Loot` -> probability of each of its values
    "torches": {0: 0.4, **dict.fromkeys((4, 5, 6, 7), 0.15)},
    "ore": {
        **{i: 0.6 * odds for i, odds in enumerate((0.3, 0.3, 0.15, 0.125, 0.125))},
        len(ORES): 0.4,
    },
    "coal": dict.fromkeys((1, 2, 3), 1 / 3),
    "iron": dict.fromkeys((1, 2), 0.5),
    "potion": dict.fromkeys(range(6), 1 / 6),
    "potions": {0: 0.5, 1: 0.25, 2: 0.25},
    "arrows": {0: 0.75, **dict.fromkeys((1, 2, 3, 4), 0.0625)},
    "pickaxe": TOOL,
    "sword": TOOL,
}


@pytest.mark.parametrize("name", SHARES)
def test_chests_hold_as_much_as_the_packages(name):
    given = loot()[name]
    assert set(np.unique(given)) == set(SHARES[name])
    for value, share in SHARES[name].items():
        error = np.sqrt(share * (1 - share) / COUNT)
        assert abs((given == value).mean() - share) < ERRORS * error, value


def test_a_chest_holds_a_pickaxe_or_a_sword_not_both():
    assert not ((loot()["pickaxe"] > 0) & (loot()["sword"] > 0)).any()


def test_draws_of_a_step_are_uncorrelated():
    draws = drawn()
    numbers = {
        "sapling": draws.sapling,
        **{f"appears {role}": uniform for role, uniform in draws.appears.items()},
        **{f"place {role}": uniform for role, uniform in draws.place.items()},
        **loot(),
        "book": draws.book,
        "armour": draws.armour,
    }
    both = np.corrcoef(np.stack([np.asarray(n, float) for n in numbers.values()]))
    pairs = np.argwhere(np.triu(abs(both) > ERRORS / np.sqrt(COUNT), 1))
    names = list(numbers)
    assert [(names[i], names[j]) for i, j in pairs] == [("pickaxe", "sword")]
    for uniform in (draws.book, draws.armour):
        assert abs(uniform.mean() - 0.5) < ERRORS * np.sqrt(1 / 12 / COUNT)


@pytest.mark.parametrize("god", [False, True])
def test_the_first_state_is_the_packages(god):
    theirs = jax.tree.map(lambda leaf: jnp.asarray(leaf[1]), starts.worlds())
    if god:
        theirs = theirs.replace(inventory=get_new_full_inventory())

    @jax.jit
    def both(theirs, god):
        params = peer.ENV.default_params.replace(god_mode=god)
        ours = peer.ENV.reset_state(jax.random.PRNGKey(0), peer.level_of(theirs), params)
        theirs = theirs.replace(light_level=peer.light(theirs.timestep))
        return peer.fields(theirs), peer.ours_as_fields(ours, params)

    wanted, given = jax.device_get(both(theirs, jnp.bool_(god)))
    assert wanted.keys() == given.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(
            np.asarray(given[name], float), np.asarray(value, float), atol=1e-4
        )
