"""Check learners on eight devices, as a separate process that prints results as JSON.

on_eight.py         check gradients, a compiled update, and samples of a replay buffer
on_eight.py OUT     train in the directory OUT
"""

import functools
import json
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tiny
from jax.sharding import PartitionSpec
from scipy import stats
from test_priorities import some

from jaxenvs.baselines.core import minibatches, priorities, rollouts
from jaxenvs.baselines.core.devices import DEVICES, DIVIDED, EVERYWHERE, Devices
from jaxenvs.baselines.core.learner import Learner
from jaxenvs.baselines.off_policy import q_learning
from jaxenvs.baselines.on_policy import ppo
from jaxenvs.baselines.run import loop, train
from jaxenvs.benchmarks import scaling

ROWS = PartitionSpec(DEVICES)
ENVS = 16


def agents() -> tuple[Learner, ...]:
    """Return the same learner twice: on one device, and on eight."""
    return tuple(
        tiny.learner(tiny.Countdown(), num_envs=ENVS, devices=Devices(count)) for count in (1, 8)
    )


def gradients() -> dict[str, float]:
    """Compare a minibatch's gradient on one device with two gradients on eight devices.

    Return the largest relative difference of each of the two from the gradient on one device.
    "together": advantages are normalised over all devices. "alone": each device normalises its own
    advantages, which is wrong.
    """
    one, eight = agents()
    rows = ENVS * one.settings.rollout_steps
    weights = jax.jit(one.network.init)(jax.random.key(0), jnp.ones(1))
    obs = jax.random.normal(jax.random.key(1), (rows, 1))
    noise = jax.random.normal(jax.random.key(2), (3, rows))
    logits, value = jax.jit(rollouts.predict, static_argnums=0)(one, weights, obs)
    action = jnp.arange(rows, dtype=jnp.int32) % 2
    log_prob = one.policy.log_prob(logits, action) + 0.1 * noise[0]
    flags = jnp.zeros(rows, jnp.bool_)
    numbers = (value, noise[1], flags, flags, value, value, action)
    rollout = rollouts.Rollout(obs, action, log_prob, *numbers)
    # The mean of the advantages differs between devices. If each device normalised its own
    # advantages, the gradient would therefore be wrong.
    advantage = noise[2] + jnp.linspace(0.0, 9.0, rows)
    batch = (rollout, advantage, value + noise[1])

    def gradient(agent: Learner, batch: tuple) -> object:
        order = jnp.arange(len(batch[1]), dtype=jnp.int32)[None]
        scale = [leaf[0] for leaf in ppo.normalisers(agent, batch, order)]
        return minibatches.gradients(agent, ppo.loss, weights, *batch, *scale)[0]

    together = eight.devices.program(functools.partial(gradient, eight), (ROWS,), EVERYWHERE)
    # The wrong gradient, for comparison: each device normalises its own advantages, and the
    # gradients are averaged.
    alone = eight.devices.program(
        lambda batch: eight.devices.mean(gradient(one, batch)), (ROWS,), EVERYWHERE
    )
    whole = jax.jit(functools.partial(gradient, one))(batch)
    scale = max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(whole))

    def off(other: object) -> float:
        differ = jax.tree.map(lambda a, b: float(np.abs(np.asarray(a) - b).max()), whole, other)
        return max(jax.tree.leaves(differ)) / scale

    return {"together": off(jax.jit(together)(batch)), "alone": off(jax.jit(alone)(batch))}


def program() -> dict[str, object]:
    """Return facts of an update on eight devices: its collectives and how results are sharded."""
    _, agent = agents()
    keys = jax.random.split(jax.random.key(0), 1)
    runners = loop.start(agent, keys)
    compiled = loop.run_chunk.lower(agent, runners).compile()
    after, metrics = compiled(runners)
    copies = [
        np.asarray(shard.data) for shard in jax.tree.leaves(after.weights)[0].addressable_shards
    ]
    steps = agent.settings.epochs * agent.settings.minibatches
    levels = jnp.sort(after.world.env.length.reshape(-1))
    return {
        **scaling.exchanges(compiled.as_text(), steps),
        "minibatches": steps,
        "equal_weights": all((copy == copies[0]).all() for copy in copies),
        "envs_of_a_device": after.returns.addressable_shards[0].data.shape[1],
        "different_levels": len(jnp.unique(levels)),
        "episodes": int(metrics["episodes"][0, 0]),
        "spec": str(after.obs.sharding.spec == DIVIDED),
    }


SLOTS, DRAWS, KEYS = 37, 4000, 8


def replay() -> dict[str, object]:
    """Sample from the same prioritised replay buffer on eight devices and on one; compare."""
    known = some(ENVS, SLOTS)
    # The priorities of each environment are multiplied by a different factor.
    uneven = np.linspace(0.0, 4.0, ENVS, dtype=np.float32)[:, None, None]
    known = known._replace(value=known.value * uneven)
    where = (EVERYWHERE, ROWS)
    alone = jax.jit(functools.partial(drawn, Devices(1)))
    together = Devices(8).program(functools.partial(drawn, Devices(8)), where, ROWS)
    pairs = []
    for key in map(jax.random.key, range(KEYS)):
        pairs.append(jax.device_get((alone(key, known), jax.jit(together)(key, known))))
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5), *pairs[-1])
    slots = [np.concatenate([pair[i][0] for pair in pairs]) for i in range(2)]
    counts = [np.bincount(each, minlength=ENVS * SLOTS) for each in slots]
    expected = np.asarray(known.value, np.float64).reshape(ENVS, -1)[:, :SLOTS].ravel()
    expected *= DRAWS * KEYS / expected.sum()
    often = expected >= 5
    wanted, *seen = (np.append(x[often], x[~often].sum()) for x in (expected, *counts))
    alike: Any = stats.chi2_contingency(np.stack(seen))
    return {
        "equal": bool((slots[0] == slots[1]).all()),
        "never": int(counts[1][expected == 0].sum()),
        "fit": [float(stats.chisquare(each, wanted).pvalue) for each in seen],
        "alike": float(alike.pvalue),
        "epsilons": ladder(),
    }


def drawn(devices: Devices, key: jax.Array, known: Any) -> Any:
    """Return sampled slots, their importance weights, and all priorities after an update."""
    # The eight devices get separate keys, as in a run. All of them sample with the key of the first
    # one, so the single device gets this key, too.
    key = devices.local_key(jax.random.fold_in(key, 0) if devices == Devices(1) else key)
    sums = priorities.sums(known)
    found = priorities.sample(key, known, sums, DRAWS, jnp.float32(0.7), devices)
    env = found.env + devices.index * len(known.value)
    slot, weight = devices.distribute((env * SLOTS + found.slot, found.weight), found.device)
    error = devices.all_gather(slot.astype(jnp.float32))
    return slot, weight, priorities.update(known, sums, found, error, 0.5)


def ladder() -> list[float]:
    """Return the epsilon of each environment in a run of DQN on eight devices."""
    settings = {"epsilon_start": 0.4, "epsilon_end": 0.4, "epsilon_power": 7.0, "num_envs": ENVS}
    settings |= {"warm_up": 100, "capacity": 640}
    agent = tiny.learner(tiny.Countdown(), "dqn", devices=Devices(8), **settings)
    each = agent.devices.program(functools.partial(q_learning.epsilons, agent), (EVERYWHERE,), ROWS)
    return jax.jit(each)(jnp.int32(0)).tolist()


def main() -> None:
    """Train in the folder OUT, if given, else run all checks; print the results as JSON."""
    assert jax.device_count() == 8
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    found = run(Path(sys.argv[1])) if sys.argv[1:] else looked()
    print(json.dumps(found))


def looked() -> dict[str, object]:
    """Return the results of the functions `gradients`, `program` and `replay` in one dict."""
    return {"gradients": gradients(), "program": program(), "replay": replay()}


def run(out: Path) -> dict[str, object]:
    """Train with `jaxenvs train`; return its exit code and the names of the files in `out`."""
    flags = "--num-envs 16 --rollout-steps 8 --minibatches 2 --hidden 8 --embed 2 --eval-episodes 4"
    argv = ["Grid-Empty-Random-5x5-v0", *flags.split(), "--devices", "all"]
    argv += ["--total-steps", "256", "--reset-source", "pool", "--out", str(out)]
    code = train.main(argv)
    return {"exit": code, "files": sorted(path.name for path in out.iterdir())}


if __name__ == "__main__":
    main()
