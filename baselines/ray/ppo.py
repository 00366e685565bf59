"""PPO on a Ray cluster: actors sample on CPUs, and learners update the weights.

PPO on Ray is meant for environments that JAX cannot compile or that are slow to step, such as any
Gymnasium environment (`gym:CartPole-v1`). It also trains in jaxenvs environments. Mode `sync` is
the PPO of on_policy/ppo.py. Mode `async` is IMPALA (Espeholt et al., 2018) with PPO's clipped loss:
V-trace corrects rollouts that were sampled with older weights. Run PPO on Ray with
`jaxenvs train ID --ray`; it needs the extra `ray`.

A resumed run is not bit-identical to an uninterrupted one, because its environments are reset.
"""

import dataclasses
import functools
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32, PyTree

from ..core import forced, minibatches, returns, rollouts
from ..core.bounds import Count
from ..core.learner import Algorithm, Learner
from ..core.rollouts import Rollout, Runner
from ..on_policy import ppo
from ..run.keeping import Callback
from ..run.progress import OLDEST
from . import launch

ONE_PROCESS = {  # settings that do not work with several processes, each with the reason
    "bonus": "actors have no exploration bonus",
    "target_scaling": "actors do not know the scale of the targets",
    "normalize_obs": "actors keep no running statistics",
    "reward_scaling": "actors keep no running statistics",
    "restart_share": "actors save no states",
}


@dataclasses.dataclass(frozen=True)
class Settings(ppo.Settings):
    """Hyperparameters of PPO on Ray.

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    actors: Count = 4  # number of sampling processes; each steps an equal part of the environments
    learners: Count = 1  # number of learner processes; each gets a part of an update's rollouts
    # Whether actors wait for the newest weights (sync) or sample while the learner learns (async).
    mode: Literal["sync", "async"] = "sync"
    # HOST:PORT of a Ray cluster to join, or auto to join the cluster on this machine; None: start a
    # cluster on this machine.
    address: str | None = None
    patience: Count = 300  # seconds without an answer after which a process counts as dead

    can_sweep = False

    @property
    def workers(self) -> int:
        """Number of a run's processes besides the main process; each occupies one CPU."""
        return self.actors + self.learners

    def check(self) -> None:
        super().check()
        launch.check(self)
        if self.actors % self.learners:
            raise ValueError(
                f"the fragments of {self.actors} actors do not divide evenly among {self.learners} "
                f"learners; give a divisor of {self.actors}"
            )
        self.check_share(self.num_envs // self.learners, "a learner's share of a rollout")
        for name, reason in ONE_PROCESS.items():
            if value := getattr(self, name):
                raise ValueError(f"{name}={value}: {reason}; omit it")
        if not self.standardise and self.mode == "async":
            raise ValueError(
                "standardise=False: with mode=async, V-trace standardises advantages; give "
                "mode=sync, or omit it"
            )


network = ppo.network


def init(learner: Learner[Settings], key: Array) -> Runner:
    """Return the initial training state without environments, which the actors hold."""
    weights, optimiser, key_data = launch.fresh(learner, key)
    return Runner(weights, optimiser=optimiser, key=key_data)


def update(
    learner: Learner[Settings], runner: Runner, rollout: Rollout, last_obs: PyTree[Array]
) -> tuple[Runner, dict[str, Array]]:
    """Learn from a rollout; also return metrics.

    `last_obs` are the observations after the rollout's last step.
    """
    key_rest, key_learn = jax.random.split(jax.random.wrap_key_data(runner.key))
    runner, stale = runner._replace(obs=last_obs), learner.settings.mode == "async"
    learner = ppo.annealed(learner, runner)
    rollout = reweighted(learner, rollout)
    batch = minibatches.as_steps((corrected if stale else ppo.targets)(learner, runner, rollout))
    orders = minibatches.shuffled_items(
        learner.settings, batch, learner.devices.local_key(key_learn)
    )
    scales = (centred if stale else ppo.normalisers)(learner, batch, orders)
    runner, losses = minibatches.descend(learner, ppo.loss, runner, batch, orders, scales)
    sums = learner.devices.total(rollouts.episode_sums(rollout))
    runner = runner._replace(obs=(), key=jax.random.key_data(key_rest))
    oldest = {OLDEST: learner.devices.maximum(rollouts.longest_running(rollout))}
    losses |= rollouts.decisions(rollout)
    return runner, sums | oldest | learner.devices.mean(losses)


def reweighted(learner: Learner, rollout: Rollout) -> Rollout:
    """Return the rollout with weights of its steps whose mean is 1, if forced steps are skipped.

    The mean of the weights from the actors is 1 in each fragment of the rollout.
    """
    if not rollout.forced:
        return rollout
    policy, value = forced.weights(rollout.forced.here, learner.devices)
    return rollout._replace(forced=rollout.forced._replace(policy=policy, value=value))


def corrected(learner: Learner, runner: Runner, rollout: Rollout) -> tuple[Rollout, Array, Array]:
    """Return PPO's targets for a rollout sampled with older weights, corrected by V-trace.

    The targets are the rollout, the advantages and the value targets, as `ppo.targets` returns
    them. Log-probabilities and values of the rollout are recomputed with the current weights, so
    PPO's probability ratio is 1 at first. Values at truncations still come from the older weights.
    """
    over_steps = jax.vmap(functools.partial(ppo.unroll, learner), in_axes=(None, 0))
    outputs, value = over_steps(runner.weights, rollout)
    log_prob = learner.policy.log_prob(outputs, rollout.action)
    weight = returns.limited(jnp.exp(log_prob - rollout.log_prob))
    rollout = rollout._replace(log_prob=log_prob, value=value, weight=weight)
    gamma, gae_lambda = learner.settings.gamma, learner.settings.gae_lambda
    *_, last_value = rollouts.think(learner, runner, None)
    advantage = returns.advantages(rollout, last_value, gamma, gae_lambda, weight)
    return rollout, advantage, advantage + value


def centred(
    learner: Learner[Settings],
    batch: tuple[Rollout, Array, Array],
    orders: Int32[Array, "minibatches items"],
) -> tuple[Array, Array]:
    """Return an offset and a scale: PPO's loss computes (advantage - offset) / scale.

    The offset of a step, in an array (minibatches, items), is a baseline: the mean advantage of the
    minibatch, weighted by V-trace (`returns.baselines`). The scale of a minibatch, in an array
    (minibatches,), is the standard deviation of its differences advantage - offset, but at least
    `advantage_floor`. Skipped forced steps do not count.
    """
    weighted, weight = batch[1][orders], batch[0].weight[orders]
    counts = batch[0].forced.policy[orders] if batch[0].forced else None
    baseline = returns.baselines(weighted, weight, learner.devices, counts)
    _, variance = learner.devices.moments(weighted - baseline, counts)
    return baseline, jnp.maximum(jnp.sqrt(variance), learner.settings.advantage_floor)


def command(algorithm: Algorithm, argv: list[str], callback: Callback | None = None) -> int:
    """Train with the command-line arguments `argv`; return the exit code."""
    return launch.command(algorithm, argv, parts, callback)


def parts() -> Any:
    """Return the `training.Parts` of PPO. Imports are local because they need the extra `ray`."""
    from .actors import Actor, Sampling
    from .training import Learners, Parts

    return Parts(Actor, Sampling.of, Learners)
