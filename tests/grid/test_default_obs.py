"""Tests that observations contain the mission by default where a good policy needs it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs.babyai.env import BabyEnv
from jaxenvs.grid.amaze import MazeEnv
from jaxenvs.grid.env import GridEnv
from jaxenvs.grid.rooms import PickUpWorld

IDS = [*jaxenvs.registry.list("Grid"), *jaxenvs.registry.list("BabyAI")]
KINDS = {jaxenvs.spec(id).env_class: id for id in reversed(IDS)}
LEVELS = 64


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_varying_mission_is_observed_unless_it_names_the_only_object_of_its_kind(kind):
    writes_missions = kind.mission_words is not GridEnv.mission_words
    needed = writes_missions and not issubclass(kind, PickUpWorld)
    env = jaxenvs.make(KINDS[kind])
    # Mazes do not need the mission. Their default is `dict` nevertheless, because `dict` contains
    # the agent's direction, as in jaxued.
    assert env.obs == ("dict" if needed or issubclass(kind, MazeEnv) else "image")
    assert jaxenvs.make(KINDS[kind], obs="image").obs == "image"
    assert issubclass(kind, BabyEnv) <= needed


@pytest.mark.parametrize("kind", [k for k in KINDS if issubclass(k, PickUpWorld)])
def test_a_pick_up_world_needs_no_mission(kind):
    """The target is the only object of its kind in a level, so the agent needs no mission."""
    env = jaxenvs.make(KINDS[kind])
    levels = jax.jit(jax.vmap(env.sample_level))(jax.random.split(jax.random.key(0), LEVELS))
    wanted = (np.asarray(levels.task) & 15).astype(np.uint8)
    same_kind = (np.asarray(levels.grid) & 15) == wanted[:, None, None]
    assert (same_kind.sum(axis=(1, 2)) == 1).all()


def test_the_default_observation_contains_the_mission():
    """Observations differ, by default, for two levels of Fetch that differ only in the mission."""
    env = jaxenvs.make("Grid-Fetch-5x5-N2-v0")

    @jax.jit
    def both(key):
        level = env.sample_level(key)
        other = level.replace(task=level.task ^ jnp.int32(1 << 4))  # changes the target's colour
        return env.reset_to(key, level).obs, env.reset_to(key, other).obs

    first, second = both(jax.random.key(0))
    assert (first["image"] == second["image"]).all()
    assert not (first["mission"] == second["mission"]).all()
