"""A batch spread over devices: the same episodes as on one device, bit for bit."""

import os
import subprocess
import sys

SCRIPT = """
import jax, jax.numpy as jnp, jaxenvs
from jax.sharding import AxisType, PartitionSpec as P

ROWS, DEVICES, STEPS = 16, 8, 12
assert jax.device_count() == DEVICES
whole = jaxenvs.make_vec("Grid-DoorKey-5x5-v0", ROWS)
part = jaxenvs.make_vec("Grid-DoorKey-5x5-v0", ROWS // DEVICES)
params = whole.default_params.replace(max_steps_in_episode=5)  # so that every row ends twice


def play(venv, keys):
    def step(state, key):
        row_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, key)
        action = jax.vmap(lambda k: jax.random.randint(k, (), 0, 7))(row_keys)
        stepped = venv.step(row_keys, state, action, params)
        return stepped.state, (stepped.obs, stepped.reward, stepped.truncated)

    state = venv.reset(keys, params).state
    return jax.lax.scan(step, state, jnp.arange(STEPS))[1]


keys = jax.random.split(jax.random.key(0), ROWS)
mesh = jax.make_mesh((DEVICES,), ("envs",), axis_types=(AxisType.Auto,))
spread = jax.shard_map(
    lambda keys: play(part, keys), mesh=mesh, in_specs=P("envs"), out_specs=P(None, "envs")
)
alone, together = jax.jit(lambda keys: play(whole, keys))(keys), jax.jit(spread)(keys)
assert len(together[0].sharding.device_set) == DEVICES
assert alone[2].sum() == 2 * ROWS
for a, b in zip(alone, together):
    assert (a == b).all()
print("equal")
"""


def test_shard_map_over_eight_devices_changes_nothing():
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8",
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "equal", done.stderr
