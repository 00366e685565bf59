"""Actors of PPO on Ray: they step their environments and return fragments, pieces of rollouts.

A fragment is a pair. Its first item is a dict with the fields of a `rollouts.Rollout`, (steps,
envs, ...); its second item is the observations after the last step, (envs, ...). In jaxenvs
environments, an actor runs PPO's compiled rollout. Gymnasium environments step in Python, so an
actor compiles only the policy; it then imports the network but not the learner.
"""

import functools
import itertools
import os
import time
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree, UInt32

import jaxenvs
from jaxenvs.core import distributions
from jaxenvs.core.distributions import Distribution
from jaxenvs.core.masking import Mask

from .. import GYM
from ..core import forced
from ..core.devices import ALONE

Fragment = tuple[dict[str, PyTree[np.ndarray]], PyTree[np.ndarray]]


class Sampling(NamedTuple):
    """Settings shared by all actors of a run."""

    network: Any
    num_envs: int  # number of environments of each actor
    steps: int  # number of steps of each environment in a fragment, a piece of a rollout
    reset_source: str | None  # reset source of jaxenvs environments; unused for Gymnasium
    skip_forced: bool = False  # whether forced steps are skipped, see core/forced.py

    @classmethod
    def of(cls, learner: Any, slot: int = 0) -> "Sampling":
        """Return the settings of an actor of `learner`.

        All actors have equal settings, so `slot`, the index of the actor, is not used.
        """
        settings = learner.settings
        share, steps = settings.num_envs // settings.actors, settings.rollout_steps
        skips = forced.are_skipped(learner.env, settings)
        return cls(learner.network, share, steps, settings.reset_source, skips)


class Actor:
    """Ray actor that steps its environments with the policy weights that each call passes."""

    def __init__(self, id: str, fields: dict[str, Any], sampling: Sampling, seed: int) -> None:
        use_one_thread()
        kind = GymSampler if id.startswith(GYM) else JaxSampler
        self._sampler = kind(id, fields, sampling, seed)

    def sample(
        self, weights: PyTree[np.ndarray], version: tuple[int, int]
    ) -> tuple[dict[str, Any], Fragment]:
        """Collect a fragment (a piece of a rollout); return a description and the fragment.

        The description is a dict of `version` (by which the caller identifies the weights), the
        fragment's bytes, the seconds that collecting took, and the sums of the measures of the
        episodes that ended (`measured`).
        """
        begun = time.perf_counter()
        fragment = self._sampler.collect(weights)
        size = sum(leaf.nbytes for leaf in jax.tree.leaves(fragment))
        about = {"version": version, "bytes": size, "seconds": time.perf_counter() - begun}
        return {**about, "measured": dict(self._sampler.measured)}, fragment

    def play(
        self, weights: PyTree[np.ndarray], episodes: int, seed: int
    ) -> tuple[dict[str, Any], None]:
        """Play `episodes` whole episodes in each Gymnasium environment; see `GymSampler.play`."""
        assert isinstance(self._sampler, GymSampler)
        return {"episodes": self._sampler.play(weights, episodes, seed)}, None


def use_one_thread() -> None:
    """Restrict JAX in this process to a single CPU thread.

    The other cores are then free for the other actors, and accelerators for the learner. Call this
    function before JAX computes anything.
    """
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    os.environ["NPROC"] = "1"  # size of XLA's thread pool
    jax.config.update("jax_platforms", "cpu")


class JaxSampler:
    """Sampler of jaxenvs environments. Environments and policy are one compiled program."""

    def __init__(self, id: str, fields: dict[str, Any], sampling: Sampling, seed: int) -> None:
        from .. import registry
        from ..core import rollouts
        from ..core.learner import Learner, over_seeds
        from ..on_policy import ppo
        from ..run import loop

        env = jaxenvs.make(id, **fields)
        count, source = sampling.num_envs, sampling.reset_source
        venv = jaxenvs.make_vec(env, count, reset_source=source)
        settings = ppo.Settings(
            num_envs=count,
            rollout_steps=sampling.steps,
            minibatches=1,
            skip_forced=sampling.skip_forced,
        )
        row = registry.ALGORITHMS[registry.USUAL]
        learner = Learner(row, venv, sampling.network, settings)

        def sample(runner: rollouts.Runner) -> tuple[rollouts.Runner, Any]:
            key_rest, key_world, key = jax.random.split(jax.random.wrap_key_data(runner.key), 3)
            world = venv.refresh(key_world, runner.world)
            runner = runner._replace(key=jax.random.key_data(key_rest), world=world)
            runner, rollout = rollouts.collect(learner, runner, key, ppo.choose)
            sums = learner.measured_sums(runner.measured)
            return runner._replace(measured=()), (rollout, sums)

        self._runners = loop.start(learner, jax.random.key(seed)[None])
        self._sample = jax.jit(over_seeds(sample))
        # `Learner.measured_sums` of the latest call of `collect`, arrays (1,)
        self.measured: dict[str, np.ndarray] = {}

    def collect(self, weights: PyTree[np.ndarray]) -> Fragment:
        """Step all environments `steps` times; return the rollout and the last observations."""
        self._runners, found = self._sample(self._runners._replace(weights=weights))
        rollout, self.measured = jax.device_get(found)
        fragment = (rollout._asdict(), jax.device_get(self._runners.obs))
        return jax.tree.map(lambda leaf: leaf[0], fragment)


class GymActor:
    """Base class of the samplers that step Gymnasium environments in Python."""

    measured: Mapping[str, np.ndarray] = types.MappingProxyType({})  # no measures of episodes

    def __init__(
        self, id: str, fields: dict[str, Any], sampling: Sampling, seed: int, first: int
    ) -> None:
        """Make and reset the environments.

        Every use of the policy has a number n, counted from `first`. The PRNG key of its random
        actions is (`seed`, n).
        """
        from .gym_envs import GymEnvs

        num_envs, self._steps, self._seed = sampling.num_envs, sampling.steps, seed
        self._envs = GymEnvs(id, fields, num_envs)
        self._decisions = itertools.count(first)
        self._obs = self._envs.reset(seed)
        self._returns = np.zeros(num_envs, np.float32)
        self._lengths = np.zeros(num_envs, np.int32)

    def _words(self) -> np.ndarray:
        """Return the data of the PRNG key for the next use of the policy, uint32 (2,)."""
        return np.array([self._seed & 0xFFFFFFFF, next(self._decisions) & 0xFFFFFFFF], np.uint32)

    def _advance(self, action: np.ndarray) -> tuple[Any, dict[str, Any]]:
        """Step every environment; return the `Outcome`, and a dict of fields of the rollout.

        The fields `returns` and `lengths` cover the current episodes so far, this step included.
        """
        step = self._envs.step(action)
        self._returns += step.reward
        self._lengths += 1
        record = {
            "reward": step.reward,
            "terminated": step.terminated,
            "truncated": step.truncated,
            "returns": self._returns.copy(),
            "lengths": self._lengths.copy(),
        }
        done = step.terminated | step.truncated
        self._returns[done], self._lengths[done] = 0, 0
        self._obs = step.obs
        return step, record


class GymSampler(GymActor):
    """Sampler that steps Gymnasium environments in Python, and compiles only the policy."""

    def __init__(self, id: str, fields: dict[str, Any], sampling: Sampling, seed: int) -> None:
        super().__init__(id, fields, sampling, seed, first=1)
        policy = distributions.of(self._envs.action_space)
        self._skips = sampling.skip_forced
        self._decide = jax.jit(functools.partial(decide, sampling.network, policy))

    def collect(self, weights: PyTree[np.ndarray]) -> Fragment:
        """Step all environments `steps` times; return the rollout and the last observations."""
        weights = jax.device_put(weights)
        records = [self._step(weights) for _ in range(self._steps)]
        rollout = jax.tree.map(lambda *leaves: np.stack(leaves), *records)
        if self._skips:
            here = forced.is_forced(jnp.asarray(rollout["mask"]))
            after = forced.is_forced(jnp.asarray(self._envs.mask))
            done = jnp.asarray(rollout["terminated"] | rollout["truncated"])
            marks = forced.marked(here, after, done, ALONE)
            rollout["forced"] = jax.device_get(marks)
        return rollout, self._obs

    def play(self, weights: PyTree[np.ndarray], episodes: int, seed: int) -> np.ndarray:
        """Play `episodes` whole episodes in each environment, after a reset.

        Return an array (3, envs * episodes): each episode's return, length, and whether it
        terminated.
        """
        weights = jax.device_put(weights)
        self._obs = self._envs.reset(seed)
        self._returns[:], self._lengths[:] = 0, 0
        left, found = np.full(len(self._returns), episodes), []
        while left.any():
            record = self._step(weights)
            ended = (record["terminated"] | record["truncated"]) & (left > 0)
            left -= ended
            columns = (record["returns"], record["lengths"], record["terminated"])
            found += [tuple(column[i] for column in columns) for i in np.flatnonzero(ended)]
        return np.array(found, np.float32).T

    def _step(self, weights: PyTree[Array]) -> dict[str, Any]:
        """Act once in every environment; return the step as a dict of the fields of a `Rollout`."""
        obs, mask = self._obs, self._envs.mask
        drawn, log_prob, value, action = self._policy(weights, obs, mask)
        step, record = self._advance(action)
        truncation_value = np.zeros_like(step.reward)
        if step.truncated.any():
            next_value = self._policy(weights, step.final_obs, mask)[2]
            truncation_value = np.where(step.truncated, next_value, 0.0)
        policy = {"action": drawn, "log_prob": log_prob, "value": value, "mask": mask}
        ends = {"truncation_value": truncation_value.astype(np.float32)}
        return {"obs": obs, **policy, **record, **ends}

    def _policy(
        self, weights: PyTree[Array], obs: PyTree[np.ndarray], mask: np.ndarray | None
    ) -> tuple[np.ndarray, ...]:
        return jax.device_get(self._decide(weights, self._words(), obs, mask))


def decide(
    network: Any,
    policy: Distribution,
    weights: PyTree[Array],
    words: UInt32[Array, "2"],
    obs: PyTree[Array],
    mask: Mask,
) -> tuple[Array, Array, Array, Array]:
    """Sample actions for a batch of observations.

    Return the samples, their log-probabilities, the values of the observations, and the actions for
    the environments: the samples, clipped or squashed. `weights` have a first axis of size 1, for
    the seed. `words` are the data of a PRNG key.
    """
    one = jax.tree.map(lambda leaf: leaf[0], weights)
    over_batch = jax.vmap(network.think, in_axes=(None, None, 0, 0))
    _, outputs, value = over_batch(one, network.begin(), obs, mask)
    drawn = policy.draw(jax.random.wrap_key_data(words), outputs)
    log_prob = policy.log_prob(outputs, drawn)
    return drawn, log_prob, jnp.asarray(value), policy.action(drawn)
