"""Tests of code that has one branch for CPUs and one for accelerators.

They test which branch is traced, and that both branches return arrays of the same types.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs.core import platforms
from jaxenvs.core.platforms import by_platform


@pytest.mark.parametrize("alone", [True, False])
def test_an_accelerators_code_is_traced_only_where_there_may_be_one(monkeypatch, alone):
    traced = []

    def form(name):
        return lambda x: traced.append(name) or x + 1

    monkeypatch.setattr(platforms, "is_cpu_alone", lambda: alone)
    after = jax.jit(lambda x: by_platform(x, cpu=form("cpu"), default=form("other")))(np.int32(1))
    assert after == 2 and {*traced} == ({"cpu"} if alone else {"cpu", "other"})


@pytest.mark.parametrize("plugin", [None, "jax_plugins", "libtpu"])
def test_where_a_plugin_could_compile_for_an_accelerator_its_code_is_traced(monkeypatch, plugin):
    monkeypatch.setattr(platforms.importlib.util, "find_spec", lambda name: name == plugin)
    platforms._has_plugin.cache_clear()
    try:
        assert platforms.is_cpu_alone() == (plugin is None)
    finally:
        platforms._has_plugin.cache_clear()


@pytest.mark.parametrize(
    "id",
    [
        pytest.param("Craft-Classic-Pixels-v0", marks=pytest.mark.full),
        "Grid-Dynamic-Obstacles-5x5-v0",
    ],
)
def test_a_step_for_accelerators_has_the_types_of_one_for_cpus(monkeypatch, id):
    env = jaxenvs.make(id)

    def step(key):
        return env.step(key, env.reset(key).state, jnp.int32(0))

    types = jax.eval_shape(step, jax.random.key(0))
    monkeypatch.setattr(platforms, "is_cpu_alone", lambda: False)
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *args, default, cpu: default(*args))
    assert types == jax.eval_shape(lambda key: step(key), jax.random.key(0))
