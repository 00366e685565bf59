"""Actors of Ape-X on Ray: they step their environments and return n-step transitions.

An n-step transition, called an item, holds an observation, an action, the n-step return, the
discount of the bootstrap value, and the observation after n steps. It also holds its TD error under
the actor's weights, which sets the initial priority. Each environment has a separate epsilon
(Horgan et al., 2018).
"""

import functools
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
from .actors import GymActor, GymSampler, Sampling, use_one_thread
from .replays import Items

Record = dict[str, Any]  # steps of all environments of an actor, as arrays by field name


class Exploration(NamedTuple):
    """Settings of an Ape-X actor; the id and fields of its environment are not included."""

    sampling: Sampling
    n_step: int
    gamma: float
    epsilon: tuple[float, ...]  # probability of a random action in each environment


class Explorer:
    """Ray actor that steps its environments with the weights passed to each call of `sample`."""

    def __init__(self, id: str, fields: dict[str, Any], given: Exploration, seed: int) -> None:
        use_one_thread()
        self._made = (id, fields, given.sampling, seed)
        kind = GymExplorer if id.startswith(GYM) else JaxExplorer
        self._envs = kind(id, fields, given, seed)
        self._given = given
        self._items = jax.jit(functools.partial(items, given))
        # Last n_step - 1 steps of the previous call. The transitions that begin at these steps are
        # completed by the steps of the next call.
        self._before: Record = {}

    def sample(self, weights: PyTree[np.ndarray], version: Any) -> tuple[dict[str, Any], Items]:
        """Step the environments; return a description (dict) and the new n-step transitions.

        The description contains `version`, by which the caller identifies the weights. It also
        contains the number and bytes of the transitions, the seconds taken, sums over the finished
        episodes (see `ended`), and the length so far of the longest unfinished episode.
        """
        begun = time.perf_counter()
        weights = jax.device_put(jax.tree.map(lambda leaf: leaf[0], weights))
        record = self._envs.collect(weights)
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
        self, weights: PyTree[np.ndarray], episodes: int, seed: int
    ) -> tuple[dict[str, Any], None]:
        """Play `episodes` whole episodes in each Gymnasium environment; see `GymSampler.play`."""
        return {"episodes": GymSampler(*self._made).play(weights, episodes, seed)}, None


class JaxExplorer:
    """Sampler of jaxenvs environments. Environments and policy are one compiled program."""

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
        """Step all environments `steps` times; return the steps as a dict (see `Record`)."""
        self._runner, record = self._explore(self._runner._replace(weights=weights))
        return jax.device_get(record)


def explore(
    learner: Learner, epsilon: tuple[float, ...], runner: rollouts.Runner
) -> tuple[rollouts.Runner, Record]:
    """Take `rollout_steps` epsilon-greedy steps in every environment.

    Return the runner after the steps, and the steps as a dict of arrays (see `Record`).
    """
    runner, key, _ = rollouts.next_update(learner, runner)

    def act(runner: rollouts.Runner, key: Array) -> tuple[rollouts.Runner, Record]:
        key_action, key_step = jax.random.split(key)
        mask = rollouts.legal_now(learner, runner.world.env)
        values = rollouts.predict(learner, runner.weights, runner.obs)
        action = q_network.explore(key_action, values, jnp.float32(epsilon), mask)
        step = learner.env.step(key_step, runner.world, action)
        after, ends = rollouts.after_step(learner, runner, step)
        before = {"obs": runner.obs, "action": action, "reward": step.reward}
        final_mask = None if mask is None else step.info["final_mask"]
        final = {"final_obs": step.info["final_obs"], "final_mask": final_mask}
        return after, {**before, **final, **ends}

    return jax.lax.scan(act, runner, jax.random.split(key, learner.settings.rollout_steps))


class GymExplorer(GymActor):
    """Sampler that steps Gymnasium environments in Python, and compiles only the policy."""

    def __init__(self, id: str, fields: dict[str, Any], given: Exploration, seed: int) -> None:
        super().__init__(id, fields, given.sampling, seed, first=0)
        self._decide = jax.jit(functools.partial(decide, given.sampling.network, given.epsilon))

    def collect(self, weights: PyTree[Array]) -> Record:
        """Step all environments `steps` times; return the steps as a dict (see `Record`)."""
        records = [self._step(weights) for _ in range(self._steps)]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *records)

    def _step(self, weights: PyTree[Array]) -> Record:
        """Act once in every environment; return the step as a dict of arrays (see `Record`)."""
        obs = self._obs
        action = np.asarray(self._decide(weights, self._words(), obs, self._envs.mask))
        step, record = self._advance(action)
        final = {"final_obs": step.final_obs, "final_mask": step.final_mask}
        return {"obs": obs, "action": action, **record, **final}


def decide(
    network: Any,
    epsilon: tuple[float, ...],
    weights: PyTree[Array],
    words: UInt32[Array, "2"],
    obs: PyTree[Array],
    mask: Mask,
) -> Array:
    """Return epsilon-greedy actions for a batch; `words` are the data of a PRNG key."""
    values = jax.vmap(network.apply, in_axes=(None, 0))(weights, obs)
    return q_network.explore(jax.random.wrap_key_data(words), values, jnp.float32(epsilon), mask)


def items(
    given: Exploration, weights: PyTree[Array], steps: Record
) -> tuple[Items, Bool[Array, " items"]]:
    """Return n-step transitions, and a mask of the transitions that may be stored.

    `steps` is a record of consecutive steps (steps, envs, ...). It begins with the last n_step - 1
    steps of the actor's previous call. In the first call, these are placeholders, which `is_step`
    (steps,) marks by False. A transition begins at each step except the last n_step - 1. The mask
    is False for transitions that begin at a placeholder.
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
    """Return the length so far of the longest episode that is unfinished at the end of `record`."""
    done = record["terminated"][-1] | record["truncated"][-1]
    return int(np.where(done, 0, record["lengths"][-1]).max())


def ended(record: Record) -> dict[str, np.ndarray]:
    """Return number, sum of returns and sum of lengths of the episodes that ended in `record`.

    Each is an array (1,), because a run on Ray has a single seed.
    """
    done = record["terminated"] | record["truncated"]
    sums = {
        "episodes": done.sum(),
        "return_sum": record["returns"][done].sum(),
        "length_sum": record["lengths"][done].sum(),
    }
    return {name: np.asarray(value)[None] for name, value in sums.items()}
