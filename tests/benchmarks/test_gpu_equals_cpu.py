"""What a GPU computes is what the CPU computes, where there is one:

JAX_PLATFORMS=cuda,cpu pytest tests/benchmarks/test_gpu_equals_cpu.py
"""

import jax
import numpy as np
import pytest

import jaxenvs

ENVS, STEPS, LIMIT = 256, 200, 60  # every row meets the time limit three times, if it is its own
# Rounding grows from step to step; a pendulum near the top multiplies it by 10,000 in an episode.
ROUNDING = {"Classic-Pendulum": 2e-2, "Classic": 1e-5}


def gpus() -> list[jax.Device]:
    try:
        return jax.devices("gpu")
    except RuntimeError:
        return []


pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpus(), reason="needs a GPU and JAX_PLATFORMS=cuda,cpu"),
]


def played(device: jax.Device, id: str, source: str | None = None, **fields):
    """Everything that comes out of random play on a device."""
    venv = jaxenvs.make_vec(id, ENVS, reset_source=source, pool_size=64, **fields)
    params = venv.default_params.replace(max_steps_in_episode=LIMIT)

    def body(state, key):
        key_action, key_step = jax.random.split(key)
        action = jax.vmap(venv.env.action_space.sample)(jax.random.split(key_action, ENVS))
        step = venv.step(key_step, state, action, params)
        return step.state, (step.obs, step.reward, step.terminated, step.truncated)

    def run(key):
        key_reset, key_scan = jax.random.split(key)
        obs, state = venv.reset(key_reset, params)
        return obs, jax.lax.scan(body, state, jax.random.split(key_scan, STEPS))

    with jax.default_device(device):
        return jax.device_get(jax.jit(run)(jax.random.key(7)))


def assert_equal_play(id: str, source: str | None = None, **fields):
    """Compare the two devices' play; return it."""
    here = played(jax.devices("cpu")[0], id, source, **fields)
    there = played(gpus()[0], id, source, **fields)
    assert jax.tree.structure(here) == jax.tree.structure(there)
    rounding = next((most for start, most in ROUNDING.items() if id.startswith(start)), 0.0)
    for a, b in zip(jax.tree.leaves(here), jax.tree.leaves(there), strict=True):
        if a.dtype == np.float32:  # rewards: a division may differ in its last digit
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=rounding)
        else:
            np.testing.assert_array_equal(a, b)
    return here


@pytest.mark.parametrize("id", jaxenvs.registry.representatives())
def test_every_class_plays_alike(id):
    assert_equal_play(id)


@pytest.mark.parametrize("source", ["fresh", "exact", "pool"])
def test_every_reset_source_plays_alike(source):
    *_, truncated = assert_equal_play("Grid-DoorKey-8x8-v0", source)[1][1]
    assert truncated.sum() >= ENVS


@pytest.mark.parametrize("obs", ["dict", "full", "onehot", "rgb", "rgb_full"])
def test_every_observation_is_alike(obs):
    assert_equal_play("Grid-DoorKey-6x6-v0", obs=obs)
