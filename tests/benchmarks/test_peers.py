"""Tests of peers, the packages with which benchmarks compare an id: names, levels and batches."""

import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs.benchmarks.peers import environments as peers

LEVEL, PIXELS = "Craft-Classic-Symbolic-v0", "Craft-Classic-Pixels-v0"
ENVS = 32


def test_the_peers_of_an_id_are_those_of_its_family():
    names = [peer.name for peer in peers.of("BabyAI-GoTo-v0")]
    assert names == ["EnvPool", "minigrid", "NAVIX", "XLand-MiniGrid"]
    names = [peer.name.split(" ")[0] for peer in peers.of(LEVEL)]
    assert names == ["EnvPool", "crafter"] + 3 * ["craftax"]


@pytest.mark.parametrize(
    ("env_id", "navix", "xland"),
    [
        ("Grid-v0", "Navix-Empty-8x8-v0", "MiniGrid-Empty-8x8"),
        ("Grid-Empty-Random-5x5-v0", "Navix-Empty-Random-5x5-v0", "MiniGrid-EmptyRandom-5x5"),
        ("Grid-Dynamic-Obstacles-Random-6x6-v0", "Navix-Dynamic-Obstacles-6x6-Random-v0", None),
        ("Grid-BlockedUnlockPickup-v0", None, "MiniGrid-BlockedUnlockPickUp"),
    ],
)
def test_levels_have_the_names_of_their_package(env_id, navix, xland):
    assert navix in (None, peers.navix_level(env_id))
    assert xland in (None, peers.xland_level(env_id))


def test_version_1_of_a_level_ends_in_v0_in_navix():
    renamed = {"MiniGrid-MultiRoom-N4-S5-v1": "Navix-MultiRoom-N4-S5-v0"}
    found = peers.navix_level("Grid-MultiRoom-N4-S5-v1", renamed)
    assert found == "Navix-MultiRoom-N4-S5-v0"
    assert peers.navix_level("Grid-MultiRoom-N4-S5-v0", renamed) not in renamed.values()
    assert peers.navix_level("Grid-MultiRoom-N6-v0", renamed) == "Navix-MultiRoom-N6-v0"


@pytest.mark.parametrize("env_id", ["Grid-DoorKey-8x8-v0", "Grid-MultiRoom-N4-S5-v1"])
def test_navix_is_a_contestant(env_id):
    pytest.importorskip("navix")
    contestant = peers.peer("NAVIX", env_id, ENVS)
    key = jax.random.key(0)
    state = jax.eval_shape(contestant.reset, key)
    after, (obs, reward) = jax.eval_shape(contestant.rollout(3), key, state)
    assert (obs.shape, obs.dtype) == ((3, ENVS, 7, 7, 3), np.uint8)
    assert reward.shape == (3, ENVS) and contestant.actions == 7
    assert jax.tree.structure(after) == jax.tree.structure(state)


@pytest.fixture
def navix(monkeypatch):
    """Replace NAVIX by a stand-in that has one level and, like NAVIX 0.7, no `V1_ALIASES`."""
    module = types.SimpleNamespace(registry=lambda: {"Navix-Empty-8x8-v0": None})
    monkeypatch.setitem(sys.modules, "navix", module)
    monkeypatch.setitem(sys.modules, "navix.environments.registry", types.SimpleNamespace())


def test_a_level_that_a_package_lacks_is_rejected(navix):
    with pytest.raises(LookupError, match="NAVIX has no level like BabyAI-GoTo-v0"):
        peers.peer("NAVIX", "BabyAI-GoTo-v0", ENVS)
    with pytest.raises(LookupError, match="craftax has no level like Grid-v0"):
        peers.craftax_level("Grid-v0")


def test_the_byte_view_of_craft_is_compared_with_the_symbolic_view():
    assert peers.craftax_level("Craft-Classic-Ids-v0") == "Craftax-Classic-Symbolic-v1"
    assert peers.craftax_level(PIXELS) == "Craftax-Classic-Pixels-v1"


def test_a_world_is_shared_only_when_there_are_too_few():
    done = jnp.array([False, True, False, True, True, True])
    which = np.asarray(peers.in_turn(done, 3))[np.asarray(done)]
    assert which.tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize(
    "peer",
    [
        pytest.param(peer, id=peer.name, marks=[pytest.mark.full] * ("optimistic" not in peer.name))
        for peer in peers.of(LEVEL)
        if peer.in_jax
    ],
)
@pytest.mark.parametrize(
    ("env_id", "shape"),
    [
        (LEVEL, (1345,)),
        pytest.param("Craft-Classic-Pixels-v0", (63, 63, 3), marks=pytest.mark.slow),
    ],
)
def test_craftax_is_a_contestant(peer, env_id, shape):
    contestant = peers.peer(peer.name, env_id, ENVS)
    key = jax.random.key(0)
    state = jax.eval_shape(contestant.reset, key)
    after, (obs, reward) = jax.eval_shape(contestant.rollout(3), key, state)
    assert (obs.shape, reward.shape) == ((3, ENVS, *shape), (3, ENVS))
    assert jax.tree.structure(after) == jax.tree.structure(state)
    assert contestant.actions == 17


def test_crafter_is_a_game_of_one_environment():
    pytest.importorskip("crafter")
    game = peers.peer("crafter", LEVEL, ENVS)
    game.step(0)
    assert (game.name, game.num_envs) == ("crafter", 1)


def test_a_missing_package_names_its_installation():
    assert "--no-deps" in peers.install("craftax (no reset)")
    assert "[bench]" in peers.install("NAVIX")
    assert "[bench]" in peers.install("crafter")
