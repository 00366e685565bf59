"""Learners on eight devices: a separate process, which prints its results as JSON.

on_eight.py         gradients and the program of an update
on_eight.py OUT     a run, which it leaves there
"""

import functools
import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import tiny
from jax.sharding import PartitionSpec

from jaxenvs.baselines import acting, minibatches, ppo, train
from jaxenvs.baselines.algorithms import Learner
from jaxenvs.baselines.devices import DEVICES, DIVIDED, EVERYWHERE, Devices
from jaxenvs.baselines.run import loop
from jaxenvs.benchmarks import scaling

ROWS = PartitionSpec(DEVICES)
ENVS = 16


def agents() -> tuple[Learner, ...]:
    """The same learner on one device and on eight."""
    return tuple(
        tiny.learner(tiny.Countdown(), num_envs=ENVS, devices=Devices(count)) for count in (1, 8)
    )


def gradients() -> dict[str, float]:
    """Gradients of one minibatch, all of its rows, whose advantages differ between devices."""
    one, eight = agents()
    rows = ENVS * one.settings.rollout_steps
    weights = jax.jit(one.network.init)(jax.random.key(0), jnp.ones(1))
    obs = jax.random.normal(jax.random.key(1), (rows, 1))
    noise = jax.random.normal(jax.random.key(2), (3, rows))
    logits, value = jax.jit(acting.predict, static_argnums=0)(one, weights, obs)
    action = jnp.arange(rows, dtype=jnp.int32) % 2
    log_prob = one.policy.log_prob(logits, action) + 0.1 * noise[0]
    flags = jnp.zeros(rows, jnp.bool_)
    numbers = (value, noise[1], flags, flags, value, value, action)
    rollout = acting.Rollout(obs, action, log_prob, *numbers)
    advantage = noise[2] + jnp.linspace(0.0, 9.0, rows)  # devices that normalise alone are far off
    batch = (rollout, advantage, value + noise[1])

    def gradient(agent: Learner, batch: tuple) -> object:
        order = jnp.arange(len(batch[1]), dtype=jnp.int32)[None]
        scale = [leaf[0] for leaf in ppo.normalisers(agent, batch, order)]
        return minibatches.gradients(agent, ppo.loss, weights, *batch, *scale)[0]

    together = eight.devices.program(functools.partial(gradient, eight), (ROWS,), EVERYWHERE)
    # Normalised on each device separately, then averaged: the mistake to avoid.
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
    """Exchanges of one update, and where its arrays lie after it."""
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


def main() -> None:
    """Do what the arguments ask for."""
    assert jax.device_count() == 8
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    found = run(Path(sys.argv[1])) if sys.argv[1:] else looked()
    print(json.dumps(found))


def looked() -> dict[str, object]:
    """Gradients and a program."""
    return {"gradients": gradients(), "program": program()}


def run(out: Path) -> dict[str, object]:
    """Train with the command; how it ended, and what it left."""
    flags = "--num-envs 16 --rollout-steps 8 --minibatches 2 --hidden 8 --embed 2 --eval-episodes 4"
    argv = ["Grid-Empty-Random-5x5-v0", *flags.split(), "--devices", "all"]
    argv += ["--total-steps", "256", "--reset-source", "pool", "--out", str(out)]
    code = train.main(argv)
    return {"exit": code, "files": sorted(path.name for path in out.iterdir())}


if __name__ == "__main__":
    main()
