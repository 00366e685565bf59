"""The nine floors against craftax 1.6.1's: the same from the same chance, and as often."""

import functools

import floors_peer
import jax
import numpy as np

from jaxenvs.craft import floors


@functools.cache
def _both():
    def worlds(key):
        plain = floors_peer.world(key)
        draws, wrong = floors_peer.draws(key, plain)
        ours = [floors.build(draws, always) for always in (False, True)]
        return plain, ours, wrong

    return jax.jit(worlds)


def same_worlds(seeds):
    for seed in seeds:
        theirs, ours, wrong = _both()(jax.random.PRNGKey(seed))
        assert not wrong, "a ladder lies where its number does not say"
        for name in ("map", "items", "down_ladders", "up_ladders", "potion_mapping"):
            given, made = getattr(theirs, name), getattr(ours[0], name)
            np.testing.assert_array_equal(given, made, err_msg=f"seed {seed}, {name}")
        np.testing.assert_allclose(theirs.light, ours[0].light, atol=1e-5, err_msg=f"seed {seed}")


def test_worlds_are_the_packages_cell_for_cell():
    same_worlds(range(3))
