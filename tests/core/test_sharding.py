"""Tests that a batch sharded over devices plays the same episodes, bit by bit, as on one device."""

import os
import subprocess
import sys
from collections import defaultdict

import pytest

import jaxenvs

SCRIPT = """
import sys
import jax, jax.numpy as jnp, jaxenvs
from jax.sharding import AxisType, PartitionSpec as P

ROWS, DEVICES, STEPS = 16, 8, 12
assert jax.device_count() == DEVICES
mesh = jax.make_mesh((DEVICES,), ("envs",), axis_types=(AxisType.Auto,))


def play(venv, keys):
    params = venv.default_params.replace(max_steps_in_episode=5)  # so that every episode ends twice

    def step(state, key):
        row_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, key)
        action = jax.vmap(venv.env.action_space.sample)(row_keys)
        stepped = venv.step(row_keys, state, action, params)
        return stepped.state, (stepped.done, stepped.obs, stepped.reward)

    state = venv.reset(keys, params).state
    return jax.lax.scan(step, state, jnp.arange(STEPS))[1]


def compare(id):
    whole, part = (jaxenvs.make_vec(id, rows) for rows in (ROWS, ROWS // DEVICES))
    keys = jax.random.split(jax.random.key(0), ROWS)
    spread = jax.shard_map(
        lambda keys: play(part, keys), mesh=mesh, in_specs=P("envs"), out_specs=P(None, "envs")
    )
    alone, together = jax.jit(lambda keys: play(whole, keys))(keys), jax.jit(spread)(keys)
    assert len(together[0].sharding.device_set) == DEVICES, id
    assert alone[0].sum() >= 2 * ROWS, id
    for a, b in zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True):
        assert (a == b).all(), id


for id in sys.argv[1:]:
    compare(id)
print("equal")
"""
# Script: every device has its own stock of levels. Each device folds its index into a common key,
# as learners do.
STOCKED = """
import jax, jax.numpy as jnp, jaxenvs, numpy as np
from jax.sharding import AxisType, PartitionSpec as P

DEVICES, SHARE, STEPS = 8, 6, 5
mesh = jax.make_mesh((DEVICES,), ("envs",), axis_types=(AxisType.Auto,))
venv = jaxenvs.make_vec("Grid-FourRooms-v0", SHARE, reset_source="stock", stock_size=4, chunk=2)
params = venv.default_params.replace(max_steps_in_episode=np.int32(1))


def local(key):
    return jax.random.fold_in(key, jax.lax.axis_index("envs"))


def begin(key):
    return venv.reset(local(key), params).state


def step(key, state):
    stepped = venv.step(local(key), state, jnp.zeros(SHARE, jnp.int32), params)
    return stepped.state, stepped.done


def on_all(function, ins, outs):
    return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=ins, out_specs=outs))


begin = on_all(begin, P(), P("envs"))
step = on_all(step, (P(), P("envs")), P("envs"))


def play(state, times):
    levels = []
    for time in times:
        state, done = step(jax.random.fold_in(jax.random.key(1), time), state)
        assert done.all() and (np.asarray(state.stock.counters).reshape(DEVICES, 4)[:, 1] > 2).all()
        rows = zip(np.asarray(state.env.grid), np.asarray(state.env.agent), strict=True)
        levels += [grid.tobytes() + agent.tobytes() for grid, agent in rows]
    return state, levels


state, levels = play(begin(jax.random.key(0)), range(STEPS))
assert state.stock.counters.shape == (DEVICES * 4,)
assert len(levels) == len(set(levels)) == STEPS * SHARE * DEVICES
# Saved and placed again, it goes on as it would have.
where = jax.tree.map(lambda leaf: leaf.sharding, state)
saved = jax.tree.map(np.asarray, state)
again, others = play(jax.device_put(saved, where), range(STEPS, 2 * STEPS))
after, more = play(state, range(STEPS, 2 * STEPS))
assert more == others and len({*levels, *more}) == 2 * len(levels)
for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(after), strict=True):
    assert (np.asarray(a) == np.asarray(b)).all()
print("apart")
"""

# Script: batches that store more than the environment's state are carried through a scan.
CARRIED = """
import jax, jax.numpy as jnp, jaxenvs
from jax.sharding import AxisType, PartitionSpec as P
from jaxenvs import wrappers

mesh = jax.make_mesh((8,), ("envs",), axis_types=(AxisType.Auto,))
pole = jaxenvs.make("Classic-CartPole-v0")


def rewards(venv, again=False):
    def play(key):
        def step(state, key):
            after = venv.step(key, state, jnp.zeros(4, jnp.int32))
            return after.state, after.reward

        state = venv.reset(key[0]).state
        state = venv.reset_again(key[0], state).state if again else state
        return jax.lax.scan(step, state, jax.random.split(key[0], 8))[1]

    keys = jax.random.split(jax.random.key(0), 8)
    spread = jax.shard_map(play, mesh=mesh, in_specs=P("envs"), out_specs=P(None, "envs"))
    return jax.jit(spread)(keys)


for wrapper in (wrappers.LogWrapper, wrappers.StickyAction, wrappers.PreviousStep):
    assert rewards(jaxenvs.make_vec(wrapper(pole), 4)).shape == (8, 32), wrapper
assert rewards(jaxenvs.make_vec(pole, 4, autoreset="next_step")).shape == (8, 32)
assert rewards(jaxenvs.make_vec(wrappers.NormalizeReward(pole), 4), again=True).shape == (8, 32)
print("carried")
"""

CLASSES = defaultdict(list)
for name in jaxenvs.registry.list():
    CLASSES[jaxenvs.spec(name).env_class].append(name)
# Case for the marker `full`. Without the marker, only tests of the baselines cover sharding: they
# compare a learner's gradients on eight devices.
ONE = pytest.param(["Grid-DoorKey-5x5-v0"], id="one", marks=pytest.mark.full)
LATE = [pytest.param(ids, id=ids[0], marks=pytest.mark.slow) for ids in CLASSES.values()]


@pytest.mark.parametrize("ids", [ONE, *LATE])
def test_shard_map_over_eight_devices_changes_nothing(ids):
    """A batch divided among eight devices plays the same as on one device.

    All ids of an environment class run in one process, without the tests' XLA flags. With these
    flags, rewards may differ in the last bit between programs for 16 and for 2 environments.
    """
    assert on_eight(SCRIPT, *ids) == "equal"


@pytest.mark.full
def test_no_level_of_a_stock_is_used_on_two_devices():
    assert on_eight(STOCKED) == "apart"


@pytest.mark.full
def test_wrappers_and_next_step_are_carried_through_a_scan():
    assert on_eight(CARRIED) == "carried"


def on_eight(*words: str) -> str:
    """Run a script on eight simulated devices; return its output or fail."""
    flags = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    done = subprocess.run(
        [sys.executable, "-c", *words],
        env=os.environ | flags,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    return done.stdout.strip()
