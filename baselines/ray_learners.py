"""Learning under Ray: PPO on fragments of the actors, or V-trace where actors run ahead.

Several learners are one `jax.distributed` group: each holds the weights and takes its share of the
fragments, and gradients are averaged as over the devices of `--devices` (devices.py).
"""

import dataclasses
import functools
import os
import socket
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, Int32, PyTree

from .devices import DEVICES, DIVIDED, EVERYWHERE
from .loop import SEEDS
from .ppo import PPO, Rollout, Runner, episode_sums, log_probability
from .ray_actors import Fragment
from .vtrace import baselines, corrected_advantages, limited

BATCH = (DIVIDED, PartitionSpec(DEVICES))  # where a fragment's two parts have environments


@dataclasses.dataclass(frozen=True)
class FragmentPPO(PPO):
    """PPO whose rollouts come from elsewhere: its runner holds what learns, and no environments."""

    env: Any  # with `observation_space` only

    def init(self, key: Array) -> Runner:
        """Start: weights, and the key for all that follows."""
        key_weights, key_obs, key_rest = jax.random.split(key, 3)
        weights = self.network.init(key_weights, self.env.observation_space.sample(key_obs))
        optimiser = self.optimiser.init(weights)
        return Runner(weights, optimiser=optimiser, key=jax.random.key_data(key_rest))

    def improve(self, runner: Runner, rollout: Rollout, last_obs: Any) -> tuple[Runner, Any]:
        """Learn from a rollout, whose last step led to `last_obs`; also return metrics."""
        key_rest, key_learn = jax.random.split(jax.random.wrap_key_data(runner.key))
        runner = runner._replace(obs=last_obs)
        runner, losses = self.learn(runner, rollout, self.devices.local_key(key_learn))
        sums = self.devices.total(episode_sums(rollout))
        runner = runner._replace(obs=(), key=jax.random.key_data(key_rest))
        return runner, sums | self.devices.mean(losses)


@dataclasses.dataclass(frozen=True)
class VTrace(FragmentPPO):
    """The same for fragments of older weights: advantages are corrected by V-trace.

    PPO's clipped steps then start from the present policy, so that a fragment serves all passes.
    The value where the time limit cut an episode is the one that the actor's weights gave.
    """

    def targets(self, runner: Runner, rollout: Rollout) -> tuple[Any, ...]:
        """What `loss` is given: the rollout as the present weights see it, and its advantages."""
        logits, value = jax.vmap(self.unroll, in_axes=(None, 0))(runner.weights, rollout)
        log_prob = log_probability(logits, rollout.action)
        ratio = jnp.exp(log_prob - rollout.log_prob)
        rollout = rollout._replace(log_prob=log_prob, value=value, weight=limited(ratio))
        gamma, gae_lambda = self.settings.gamma, self.settings.gae_lambda
        last_value = self.value(runner, None)
        advantage = corrected_advantages(rollout, last_value, ratio, gamma, gae_lambda)
        return rollout, advantage, advantage + value

    def scales(self, batch: Any, orders: Int32[Array, "minibatches items"]) -> tuple[Array, ...]:
        """Baseline of each item of each minibatch, and the spread of the advantages about them."""
        weighted, weight = batch[1][orders], batch[0].weight[orders]
        baseline = baselines(weighted, weight, self.devices)
        _, variance = self.devices.moments(weighted - baseline)
        return baseline, jnp.maximum(jnp.sqrt(variance), self.settings.advantage_floor)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def improve(
    learner: FragmentPPO, runners: Runner, batch: tuple[dict[str, Any], Any]
) -> tuple[Runner, dict[str, Array]]:
    """One update on all devices; as everywhere, runners have a first axis of (here one) seed."""

    def step(runner: Runner, batch: Any) -> tuple[Runner, dict[str, Array]]:
        return learner.improve(runner, Rollout(**batch[0]), batch[1])

    step = jax.vmap(step, in_axes=(0, None), axis_name=SEEDS)
    return learner.devices.program(step, (EVERYWHERE, BATCH), EVERYWHERE)(runners, batch)


class Learner:
    """A Ray actor that holds the weights; `index` of those that learn together."""

    def __init__(self, learner: FragmentPPO, index: int, on_cpu: bool) -> None:
        """Ready to join; JAX is not asked for its devices yet."""
        self._learner, self._index = learner, index
        os.environ.pop("XLA_FLAGS", None)  # simulated devices of the process that started this one
        if on_cpu:
            jax.config.update("jax_platforms", "cpu")

    def address(self) -> str:
        """Where the group can meet, if this is its first."""
        import ray

        with socket.socket() as found:
            found.bind(("", 0))
            return f"{ray.util.get_node_ip_address()}:{found.getsockname()[1]}"

    def begin(self, runners: PyTree[np.ndarray], coordinator: str | None, timeout: int) -> None:
        """Join the group, if there is one, and take the state."""
        from . import processes

        devices = self._learner.devices
        place = (devices.count, self._index) if coordinator else (None, None)
        processes.join(coordinator or processes.BY_ITSELF, *place, timeout)
        self._runners = devices.place(runners, EVERYWHERE)

    def update(self, *fragments: Fragment) -> tuple[dict[str, Any], PyTree[np.ndarray]]:
        """Learn from this learner's share; return metrics, and the weights to act with next."""
        rollouts, last_obs = zip(*fragments, strict=True)
        batch = (
            jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *rollouts),
            jax.tree.map(lambda *parts: np.concatenate(parts), *last_obs),
        )
        self._runners, metrics = improve(self._learner, self._runners, self._divided(batch))
        return _whole(metrics), _whole(self._runners.weights) if self._index == 0 else ()

    def _divided(self, batch: Any) -> Any:
        """Its share of the batch, as part of what all learners hold."""
        devices = self._learner.devices
        if devices.count == 1:
            return batch

        def place(spec: PartitionSpec, tree: Any) -> Any:
            sharding = NamedSharding(devices.mesh, spec)
            make = jax.make_array_from_process_local_data
            return jax.tree.map(lambda leaf: make(sharding, leaf), tree)

        return tuple(place(spec, tree) for spec, tree in zip(BATCH, batch, strict=True))

    def state(self) -> PyTree[np.ndarray]:
        """All that a checkpoint keeps."""
        return _whole(self._runners)


def _whole(tree: PyTree[Array]) -> PyTree[np.ndarray]:
    """Arrays that every learner has, in memory of this process alone."""
    return jax.tree.map(lambda leaf: np.array(leaf.addressable_data(0)), tree)
