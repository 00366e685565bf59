"""Tests that the CPU code and the GPU code of a function give bit-identical results.

The results are observations, packed states and worlds.
"""

import importlib

import crowded
import jax
import numpy as np
import pytest

import jaxenvs
from jaxenvs.craft.state import pack

pytestmark = pytest.mark.full

COUNT = 384  # number of random worlds
EDITIONS = ("Craft-Classic-Ids-v0", "Craft-Ids-v0")
MODULES = (
    "core.settle",
    "craft.sight",
    "craft.full_sight",
    "craft.state",
    "craft.terrain",
    "craft.floors",
)


@pytest.fixture(params=EDITIONS)
def env(request):
    return jaxenvs.make(request.param)


@pytest.fixture
def both(monkeypatch):
    """Return a function that runs a batched function twice: as on CPUs, then as on GPUs."""

    def run(function, *args):
        results = []
        for form in ("cpu", "default"):
            for name in MODULES:
                module = importlib.import_module(f"jaxenvs.{name}")
                monkeypatch.setattr(module, "by_platform", lambda *a, f=form, **forms: forms[f](*a))
            results.append(jax.jit(jax.vmap(lambda *a: function(*a)))(*args))
        return results

    return run


def same(ours, theirs):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(np.asarray(a).view(np.uint8), np.asarray(b).view(np.uint8))


def test_words_of_a_world_are_the_same(both, env):
    world, _ = crowded.worlds(env, COUNT, 0)
    cpu, gpu = both(lambda world: pack(env.rules, world), world)
    same(cpu, gpu)


@pytest.mark.parametrize("obs", [pytest.param("ids", marks=pytest.mark.full), "symbolic"])
def test_observations_are_the_same(both, env, obs):
    world, cells = crowded.worlds(env, COUNT, 1)
    light = np.random.default_rng(2).random(COUNT, np.float32)
    show = getattr(env.sight, obs)
    cpu, gpu = both(lambda *given: show(env.rules, *given), cells, world, light)
    same(cpu, gpu)


def test_any_bytes_expand_to_the_same_floats(both, env):
    ids = np.random.default_rng(3).integers(0, 256, (COUNT, env.layout.size), np.uint8)
    cpu, gpu = both(env.expand, ids)
    same(cpu, gpu)


def test_worlds_are_the_same(both, env):
    keys = jax.random.split(jax.random.key(4), 24)
    cpu, gpu = both(env.sample_level, keys)
    same(cpu, gpu)
