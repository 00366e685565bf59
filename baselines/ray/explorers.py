"""Exploring under Ray: an actor of Ape-X steps its environments and returns n-step items.

An item is a step with what came of it: the discounted rewards of up to `n_step` steps, the discount
of what the true successor is worth, and the error of its value by the actor's weights, which is its
first priority in the replay. Each environment has an epsilon of its own (Horgan et al., 2018).
"""

import functools
import itertools
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PyTree, UInt32

import jaxenvs
from jaxenvs.core.masking import Mask, legal

from .. import GYM
from ..core import returns, rollouts
from ..core.learner import Learner
from ..networks import q_network
from ..registry import ALGORITHMS
from ..run.progress import OLDEST
from .actors import GymSampler, Sampling, use_one_thread
from .replays import Items

Record = dict[str, Any]  # of one step, or of several, of all environments of an actor


class Exploration(NamedTuple):
    """Settings of an actor."""

    sampling: Sampling
    n_step: int
    gamma: float
    epsilon: tuple[float, ...]  # share of random actions of each environment


class Explorer:
    """Environments that it explores with the weights of each call."""

    def __init__(self, id: str, fields: dict[str, Any], given: Exploration, seed: int) -> None:
        use_one_thread()
        self._made = (id, fields, given.sampling, seed)
        kind = GymExplorer if id.startswith(GYM) else JaxExplorer
        self._worlds = kind(id, fields, given, seed)
        self._given = given
        self._items = jax.jit(functools.partial(items, given))
        self._before: Record = {}  # the last n_step - 1 steps: their items end in the next fragment

    def sample(self, weights: PyTree[np.ndarray], version: Any) -> tuple[dict[str, Any], Items]:
        """Make a fragment; say what ended in it, how large it is and how long it took."""
        begun = time.perf_counter()
        weights = jax.device_put(jax.tree.map(lambda leaf: leaf[0], weights))
        record = self._worlds.collect(weights)
        ahead = self._given.n_step - 1
        if not self._before:
            blank = jax.tree.map(lambda leaf: np.zeros_like(leaf[:1].repeat(ahead, 0)), record)
            self._before = blank | {"is_step": np.zeros(ahead, np.bool_)}
        record["is_step"] = np.ones(len(record["reward"]), np.bool_)
        steps = jax.tree.map(lambda *parts: np.concatenate(parts), self._before, record)
        self._before = jax.tree.map(lambda leaf: leaf[len(leaf) - ahead :], steps)
        found, is_step = jax.device_get(self._items(weights, steps))
        found = jax.tree.map(lambda leaf: leaf[is_step], found)
        about = {
            "version": version,
            "items": int(is_step.sum()),
            "bytes": sum(leaf.nbytes for leaf in jax.tree.leaves(found)),
            "seconds": time.perf_counter() - begun,
            "sums": ended(record),
            OLDEST: oldest(record),
        }
        return about, found

    def play(
        self, weights: PyTree[np.ndarray], rounds: int, seed: int
    ) -> tuple[dict[str, Any], None]:
        """Play `rounds` episodes in each of as many environments: see `GymSampler.play`."""
        return {"episodes": GymSampler(*self._made).play(weights, rounds, seed)}, None


class JaxExplorer:
    """Environments of this package, compiled with the policy into one program."""

    def __init__(self, id: str, fields: dict[str, Any], given: Exploration, seed: int) -> None:
        count, source = given.sampling.num_envs, given.sampling.reset_source
        env = jaxenvs.make(id, **fields)
        venv = jaxenvs.make_vec(env, count, reset_source=source)
        row = ALGORITHMS["dqn"]
        settings = row.load().Settings(num_envs=count, rollout_steps=given.sampling.steps)
        learner = Learner(row, venv, given.sampling.network, settings)
        begin = jax.jit(functools.partial(rollouts.begin, learner))
        self._runner = rollouts.Runner(**begin(jax.random.key(seed)))
        self._explore = jax.jit(functools.partial(explore, learner, given.epsilon))

    def collect(self, weights: PyTree[Array]) -> Record:
        """Step all environments `steps` times."""
        self._runner, record = self._explore(self._runner._replace(weights=weights))
        return jax.device_get(record)


def explore(
    learner: Learner, epsilon: tuple[float, ...], runner: rollouts.Runner
) -> tuple[rollouts.Runner, Record]:
    """The record of `rollout_steps` steps in every environment."""
    runner, key, _ = rollouts.next_update(learner, runner)

    def act(runner: rollouts.Runner, key: Array) -> tuple[rollouts.Runner, Record]:
        key_action, key_step = jax.random.split(key)
        mask = rollouts.legal_now(learner, runner.world.env)
        values = rollouts.predict(learner, runner.weights, runner.obs)
        action = q_network.explore(key_action, values, jnp.float32(epsilon), mask)
        step = learner.env.step(key_step, runner.world, action)
        after, ends = rollouts.after_step(learner, runner, step)
        came = {"reward": step.reward, "final_obs": step.info["final_obs"], **ends}
        seen = {"obs": runner.obs, "action": action, "final_mask": step.info.get("final_mask")}
        return after, {**seen, **came}

    return jax.lax.scan(act, runner, jax.random.split(key, learner.settings.rollout_steps))


class GymExplorer:
    """Environments of Gymnasium, stepped in Python; only the policy is compiled."""

    def __init__(self, id: str, fields: dict[str, Any], given: Exploration, seed: int) -> None:
        from .gym_envs import GymEnvs

        count, self._steps, self._seed = given.sampling.num_envs, given.sampling.steps, seed
        self._envs = GymEnvs(id, fields, count)
        self._decide = jax.jit(functools.partial(decide, given.sampling.network, given.epsilon))
        self._decided = itertools.count()  # by which the keys of actions differ
        self._obs = self._envs.reset(seed)
        self._returns = np.zeros(count, np.float32)
        self._lengths = np.zeros(count, np.int32)

    def collect(self, weights: PyTree[Array]) -> Record:
        """Step all environments `steps` times."""
        records = [self._step(weights) for _ in range(self._steps)]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *records)

    def _step(self, weights: PyTree[Array]) -> Record:
        obs = self._obs
        words = np.array([self._seed & 0xFFFFFFFF, next(self._decided) & 0xFFFFFFFF], np.uint32)
        action = np.asarray(self._decide(weights, words, obs, self._envs.mask))
        step = self._envs.step(action)
        self._returns += step.reward
        self._lengths += 1
        record = {
            "obs": obs,
            "action": action,
            "reward": step.reward,
            "terminated": step.terminated,
            "truncated": step.truncated,
            "final_obs": step.final_obs,
            "final_mask": step.final_mask,
            "returns": self._returns.copy(),
            "lengths": self._lengths.copy(),
        }
        done = step.terminated | step.truncated
        self._returns[done], self._lengths[done] = 0, 0
        self._obs = step.obs
        return record


def decide(
    network: Any,
    epsilon: tuple[float, ...],
    weights: PyTree[Array],
    words: UInt32[Array, "2"],
    obs: PyTree[Array],
    mask: Mask,
) -> Array:
    """Epsilon-greedy actions in a batch of observations; `words` are those of a key."""
    values = jax.vmap(network.apply, in_axes=(None, 0))(weights, obs)
    return q_network.explore(jax.random.wrap_key_data(words), values, jnp.float32(epsilon), mask)


def items(
    given: Exploration, weights: PyTree[Array], steps: Record
) -> tuple[Items, Bool[Array, " items"]]:
    """Items that begin with each step but the last n_step - 1, and whether that was a step.

    `steps` (steps, envs, ...) come after one another; `is_step` is (steps,).
    """
    first = len(steps["reward"]) - (given.n_step - 1)

    def windows(leaf: Array) -> Array:
        rows = [leaf[ahead : first + ahead] for ahead in range(given.n_step)]
        return jnp.stack(rows, axis=-1).reshape(-1, given.n_step)

    ends = (windows(steps["terminated"]), windows(steps["truncated"]))
    reward, discount, length = returns.n_step(windows(steps["reward"]), *ends, given.gamma)
    envs = steps["reward"].shape[1]
    at, env = jnp.divmod(jnp.arange(first * envs, dtype=jnp.int32), jnp.int32(envs))
    last = at + length - 1

    def successor(leaf: Array) -> Array:
        return leaf[last, env]

    found = {
        "obs": jax.tree.map(lambda leaf: leaf[at, env], steps["obs"]),
        "action": steps["action"][at, env],
        "reward": reward,
        "discount": discount,
        "next_obs": jax.tree.map(successor, steps["final_obs"]),
        "next_mask": jax.tree.map(successor, steps["final_mask"]),
    }
    values = jax.vmap(given.sampling.network.apply, in_axes=(None, 0))
    best = legal(values(weights, found["next_obs"]), found["next_mask"]).max(axis=-1)
    value = q_network.of_actions(values(weights, found["obs"]), found["action"])
    return found | {"error": reward + discount * best - value}, steps["is_step"][at]


def oldest(record: Record) -> int:
    """Steps of the longest episode that is under way after a record."""
    done = record["terminated"][-1] | record["truncated"][-1]
    return int(np.where(done, 0, record["lengths"][-1]).max())


def ended(record: Record) -> dict[str, np.ndarray]:
    """Sums over the episodes that ended in a record, by name, each an array of one seed."""
    done = record["terminated"] | record["truncated"]
    sums = {
        "episodes": done.sum(),
        "return_sum": record["returns"][done].sum(),
        "length_sum": record["lengths"][done].sum(),
    }
    return {name: np.asarray(value)[None] for name, value in sums.items()}
