"""Tests that a GPU computes the same rollouts as the CPU.

Without a GPU, the CPU is compared with itself.

JAX_PLATFORMS=cuda,cpu pytest tests/benchmarks/test_gpu_equals_cpu.py

Integers, floats stored as 32-bit words, and rewards must be equal bit for bit, with two exceptions:
floats in `ROUNDING`, and the terrain of Craft. The terrain's noise has cosines and divisions whose
last bits depend on the device, so a cell whose noise is very near a threshold may become another
block.
"""

import functools

import defaults
import differences
import jax
import numpy as np
import pytest
from differences import Rounding

import jaxenvs


def gpus() -> list[jax.Device]:
    try:
        return jax.devices("gpu")
    except RuntimeError:
        return []


CPU = jax.devices("cpu")[0]
OTHER = (gpus() or [CPU])[0]
ALONE = OTHER == CPU  # without a GPU the CPU is compared with itself, to test this file
# Number of environments, number of steps, and time limit in steps. The time limit ends every
# environment's episode three times in a rollout.
ENVS, STEPS, LIMIT = (4, 7, 2) if ALONE else (256, 200, 60)
SMALL = 1024  # leaves of the state with more numbers per environment are compared only at the end
# Tolerances of one and of two units in the last place. A GPU's division is off by at most two.
UNIT, QUOTIENT = Rounding(units=1), Rounding(units=2)
# Tolerance for physics, in which rounding errors grow: near the top, a pendulum multiplies them by
# 10,000 in an episode.
PHYSICS = dict.fromkeys(("reset", "obs", "end"), Rounding(units=1, absolute=1e-5))
# Prefix of an id -> outputs that the GPU may round differently, and by how much.
ROUNDING = {
    # The reward 1 - 0.9 * steps / limit has a division, as in Grid and XLand below.
    "BabyAI": {"reward": QUOTIENT},
    "Classic": PHYSICS,
    "Classic-MountainCarContinuous": {**PHYSICS, "reward": UNIT},
    "Classic-Pendulum": dict.fromkeys(("reset", "obs", "reward", "end"), Rounding(1, 2e-2)),
    "Craft-Classic-Symbolic": {"obs": UNIT},
    "Craft-Symbolic": {"obs": UNIT},
    "Grid": {"reward": QUOTIENT},
    "Puzzle-TSP": {"reward": UNIT},  # the reward is a square root
    "XLand": {"reward": QUOTIENT},
}
MADE_ALIKE = 1e-5  # largest fraction of cells in Craft's worlds that may differ
IDS = jaxenvs.registry.representatives()
CHEAP = ("Classic-CartPole-v0",)
# Ids that are tested with the marker `full`. FULL has one id of each family, and NAMED has ids
# whose floats a GPU rounds differently.
FULL = {jaxenvs.spec(id).family: id for id in IDS}.values()
NAMED = (
    "Puzzle-SlidingTile-5x5-v0",
    "Classic-Pendulum-v0",
    "Classic-MountainCarContinuous-v0",
    "Puzzle-TSP-20-v0",
)

pytestmark = pytest.mark.gpu
full = pytest.mark.full


@functools.cache
def compiled(id: str, source: str | None, **fields):
    """Return the params of a batch, and its compiled reset and random rollout.

    `source` is the reset source of the batch. For Craft it is ignored: levels come from a pool.
    """
    source = "pool" if jaxenvs.spec(id).family == "Craft" else source
    venv = jaxenvs.make_vec(id, ENVS, reset_source=source, pool_size=min(64, ENVS), **fields)
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

    return params, jax.jit(venv.reset), run


def played(device: jax.Device, id: str, source: str | None = None, **fields):
    """Return all outputs of random play on a device; Craft's levels are generated on the CPU."""
    params, reset, run = compiled(id, source, **fields)
    key_reset, key_scan = jax.random.split(jax.random.key(7))
    with jax.default_device(CPU if jaxenvs.spec(id).family == "Craft" else device):
        obs, state = reset(key_reset, params)
    state, key_scan = jax.device_put((state, key_scan), device)
    return jax.device_get({"reset": obs, **run(state, key_scan)})


def is_compared(leaf: jax.Array) -> bool:
    """Return whether a leaf of the state is compared after every step."""
    return jax.numpy.issubdtype(leaf.dtype, np.integer) and leaf[0].size <= SMALL


def assert_equal_play(id: str, source: str | None = None, **fields):
    """Compare random play on the two devices; return the CPU's results."""
    here, there = (played(device, id, source, **fields) for device in (CPU, OTHER))
    differences.assert_alike(here, there, ROUNDING.get(rounding_of(id)))
    return here


def rounding_of(id: str) -> str | None:
    """Return the longest key of `ROUNDING` that is a prefix of an id."""
    return max((start for start in ROUNDING if id.startswith(start)), key=len, default=None)


@pytest.mark.parametrize("id", defaults.params(CHEAP, [*FULL, *NAMED], IDS))
def test_every_class_plays_alike(id):
    assert_equal_play(id)


@full
def test_every_floor_plays_alike():
    """Episodes begin on every floor, with armour, near mobs that deal fire and ice damage."""
    assert_equal_play("Craft-Ids-v0", kit=-1)


@full
@pytest.mark.parametrize("id", ["Craft-Classic-Ids-v0", "Craft-Ids-v0"])
def test_worlds_are_made_alike(id):
    env = jaxenvs.make(id)
    draw = jax.jit(jax.vmap(env.draw_level, (0, None)))

    def made(device):
        with jax.default_device(device):
            return jax.device_get(draw(jax.random.split(jax.random.key(7), ENVS), params))

    params = env.default_params
    here, there = made(CPU), made(OTHER)
    different = here.map != there.map
    assert different.mean() < MADE_ALIKE
    if env.rules.floors:
        np.testing.assert_array_equal(here.potion_mapping, there.potion_mapping)
        same = ~different.any(axis=(2, 3))
        np.testing.assert_array_equal(here.up_ladders[same], there.up_ladders[same])
        np.testing.assert_array_equal(here.down_ladders[same], there.down_ladders[same])


@full
@pytest.mark.parametrize("source", ["fresh", "exact", "pool"])
def test_every_reset_source_plays_alike(source):
    play = assert_equal_play("Grid-DoorKey-8x8-v0", source)
    assert play["steps"]["truncated"].sum() >= ENVS


@full
@pytest.mark.parametrize("obs", ["dict", "full", "onehot", "rgb", "rgb_full"])
def test_every_observation_is_alike(obs):
    assert_equal_play("Grid-DoorKey-6x6-v0", obs=obs)


def test_every_row_of_roundings_is_of_an_id():
    assert {rounding_of(id) for id in IDS} == {None, *ROUNDING}
