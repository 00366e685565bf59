"""A GPU computes the same as the CPU. Skipped without one:

JAX_PLATFORMS=cuda,cpu pytest tests/benchmarks/test_gpu_equals_cpu.py

Integers, and floats that a state holds as words, are equal bit for bit. Exceptions are the physics
of `Classic` and the terrain of Craft: its noise has cosines and divisions whose last bits depend on
the device, and a cell whose noise is that near to a threshold becomes another block.
"""

import differences
import jax
import numpy as np
import pytest

import jaxenvs

ENVS, STEPS, LIMIT = 256, 200, 60  # every row meets the time limit three times, if it is its own
SMALL = 1024  # numbers of a row, up to which a leaf of the state is compared after every step
# Rounding grows from step to step; a pendulum near the top multiplies it by 10,000 in an episode.
ROUNDING = {"Classic-Pendulum": 2e-2, "Classic": 1e-5}
MADE_ALIKE = 1e-5  # share of the cells of Craft's worlds that may differ


def gpus() -> list[jax.Device]:
    try:
        return jax.devices("gpu")
    except RuntimeError:
        return []


pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpus(), reason="needs a GPU and JAX_PLATFORMS=cuda,cpu"),
]


def cpu() -> jax.Device:
    return jax.devices("cpu")[0]


def played(device: jax.Device, id: str, source: str | None = None, **fields):
    """Everything that comes out of random play on a device.

    Craft's levels come from the CPU, the first ones and a pool for the following episodes.
    """
    is_craft = jaxenvs.spec(id).family == "Craft"
    source = "pool" if is_craft else source
    venv = jaxenvs.make_vec(id, ENVS, reset_source=source, pool_size=64, **fields)
    params = venv.default_params.replace(max_steps_in_episode=LIMIT)

    def body(state, key):
        key_action, key_step = jax.random.split(key)
        action = jax.vmap(venv.env.action_space.sample)(jax.random.split(key_action, ENVS))
        step = venv.step(key_step, state, action, params)
        rows = [leaf for leaf in jax.tree.leaves(step.state.env) if is_compared(leaf)]
        made = {name: getattr(step, name) for name in ("obs", "reward", "terminated", "truncated")}
        return step.state, {**made, "state": rows}

    @jax.jit
    def run(state, key):
        end, steps = jax.lax.scan(body, state, jax.random.split(key, STEPS))
        return {"end": end.env, "steps": steps}

    key_reset, key_scan = jax.random.split(jax.random.key(7))
    with jax.default_device(cpu() if is_craft else device):
        obs, state = jax.jit(venv.reset)(key_reset, params)
    state, key_scan = jax.device_put((state, key_scan), device)
    return jax.device_get({"reset": obs, **run(state, key_scan)})


def is_compared(leaf: jax.Array) -> bool:
    """Return whether a leaf of the state is compared after every step."""
    return jax.numpy.issubdtype(leaf.dtype, np.integer) and leaf[0].size <= SMALL


def assert_equal_play(id: str, source: str | None = None, **fields):
    """Compare the two devices' play; return it."""
    here = played(cpu(), id, source, **fields)
    there = played(gpus()[0], id, source, **fields)
    rounding = next((most for start, most in ROUNDING.items() if id.startswith(start)), 0.0)
    differences.assert_alike(here, there, rounding)
    return here


@pytest.mark.parametrize("id", jaxenvs.registry.representatives())
def test_every_class_plays_alike(id):
    assert_equal_play(id)


def test_every_floor_plays_alike():
    """Kits begin on all floors, among mobs whose blows are of fire and ice, with armour."""
    assert_equal_play("Craft-Ids-v0", kit=-1)


@pytest.mark.parametrize("id", ["Craft-Classic-Ids-v0", "Craft-Ids-v0"])
def test_worlds_are_made_alike(id):
    env = jaxenvs.make(id)

    def made(device):
        with jax.default_device(device):
            draw = jax.jit(jax.vmap(env.draw_level, (0, None)))
            keys = jax.random.split(jax.random.key(7), ENVS)
            return jax.device_get(draw(keys, env.default_params))

    here, there = made(cpu()), made(gpus()[0])
    different = here.map != there.map
    assert different.mean() < MADE_ALIKE
    if env.rules.floors:
        np.testing.assert_array_equal(here.potion_mapping, there.potion_mapping)
        same = ~different.any(axis=(2, 3))
        np.testing.assert_array_equal(here.up_ladders[same], there.up_ladders[same])
        np.testing.assert_array_equal(here.down_ladders[same], there.down_ladders[same])


@pytest.mark.parametrize("source", ["fresh", "exact", "pool"])
def test_every_reset_source_plays_alike(source):
    play = assert_equal_play("Grid-DoorKey-8x8-v0", source)
    assert play["steps"]["truncated"].sum() >= ENVS


@pytest.mark.parametrize("obs", ["dict", "full", "onehot", "rgb", "rgb_full"])
def test_every_observation_is_alike(obs):
    assert_equal_play("Grid-DoorKey-6x6-v0", obs=obs)
