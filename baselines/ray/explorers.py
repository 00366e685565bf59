"""Actors of Ape-X on Ray: they step their environments and return n-step transitions.

An n-step transition, called an item, holds an observation, an action, the n-step return, the
discount of the bootstrap value, and the observation after n steps. It also holds its TD error under
the actor's weights, which sets the initial priority. Each environment has a separate epsilon
(Horgan et al., 2018).

If forced steps are skipped (core/forced.py), items begin at decisions and end n decisions later. An
actor then keeps decisions in a replay buffer until the n-th decision after them is known.
"""

import functools
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PyTree, UInt32

import jaxenvs
from jaxenvs import Step
from jaxenvs.core.masking import Mask, legal

from .. import GYM
from ..core import forced, replay_buffer, returns, rollouts
from ..core.learner import Learner
from ..core.replay_buffer import ReplayBuffer
from ..networks import q_network
from ..registry import ALGORITHMS
from ..run.progress import OLDEST
from .actors import GymActor, GymSampler, Sampling, use_one_thread
from .replays import Items

Record = dict[str, Any]  # steps of all environments of an actor, as arrays by field name
# fields of an n-step transition, without its TD error
ITEM = ("obs", "action", "reward", "discount", "next_obs", "next_mask")


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
        self._joined_items = jax.jit(functools.partial(joined_items, given))
        self._buffer: Any = None  # latest decisions, if forced steps are skipped
        # Last n_step - 1 steps of the previous call. The transitions that begin at these steps are
        # completed by the steps of the next call.
        self._before: Record = {}

    def sample(self, weights: PyTree[np.ndarray], version: Any) -> tuple[dict[str, Any], Items]:
        """Step the environments; return a description (dict) and the new n-step transitions.

        The description contains `version`, by which the caller identifies the weights. It also
        contains the number and bytes of the transitions, the seconds taken, and the length so far
        of the longest unfinished episode. Of the finished episodes it contains sums (see `ended`)
        and sums of their measures (`measured`). If forced steps are skipped, it contains the share
        of decisions.
        """
        begun = time.perf_counter()
        weights = jax.device_put(jax.tree.map(lambda leaf: leaf[0], weights))
        record = self._envs.collect(weights)
        skips = self._given.sampling.skip_forced
        found, is_item = (self._joined if skips else self._windows)(weights, record)
        found = jax.tree.map(lambda leaf: leaf[is_item], found)
        about = {
            "version": version,
            "items": int(is_item.sum()),
            "bytes": sum(leaf.nbytes for leaf in jax.tree.leaves(found)),
            "seconds": time.perf_counter() - begun,
            "sums": ended(record),
            "measured": dict(self._envs.measured),
            OLDEST: oldest(record),
        }
        if skips:
            about |= jax.device_get(forced.metrics(forced.is_forced(jnp.asarray(record["mask"]))))
        return about, found

    def _windows(self, weights: PyTree[Array], record: Record) -> tuple[Items, np.ndarray]:
        """Return the transitions completed by new steps, and which of them may be stored."""
        ahead = self._given.n_step - 1
        if not self._before:
            blank = jax.tree.map(lambda leaf: np.zeros_like(leaf[:1].repeat(ahead, 0)), record)
            self._before = blank | {"is_step": np.zeros(ahead, np.bool_)}
        record = record | {"is_step": np.ones(len(record["reward"]), np.bool_)}
        steps = jax.tree.map(lambda *parts: np.concatenate(parts), self._before, record)
        self._before = jax.tree.map(lambda leaf: leaf[len(leaf) - ahead :], steps)
        return jax.device_get(self._items(weights, steps))

    def _joined(self, weights: PyTree[Array], record: Record) -> tuple[Items, np.ndarray]:
        """Return what `_windows` returns, with a decision and its forced steps as one step."""
        if self._buffer is None:
            slots = 2 * self._given.sampling.steps + self._given.n_step + 2
            obs, mask = jax.tree.map(
                lambda leaf: jnp.asarray(leaf[0]), (record["obs"], record["mask"])
            )
            self._buffer = replay_buffer.empty(obs, mask, slots, skip_forced=True)
        self._buffer, *found = self._joined_items(weights, self._buffer, record)
        return jax.device_get(tuple(found))

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

        # `Learner.measured_sums` of the latest call of `collect`, arrays (1,)
        self.measured: dict[str, np.ndarray] = {}

    def collect(self, weights: PyTree[Array]) -> Record:
        """Step all environments `steps` times; return the steps as a dict (see `Record`)."""
        self._runner, found = self._explore(self._runner._replace(weights=weights))
        record, measured = jax.device_get(found)
        self.measured = jax.tree.map(lambda total: total[None], measured)
        return record


def explore(
    learner: Learner, epsilon: tuple[float, ...], runner: rollouts.Runner
) -> tuple[rollouts.Runner, tuple[Record, dict[str, Array]]]:
    """Take `rollout_steps` epsilon-greedy steps in every environment.

    Return the runner after the steps, the steps as a dict of arrays (see `Record`), and the sums of
    the measures of the episodes that ended.
    """
    runner, key, _ = rollouts.next_update(learner, runner)

    def act(runner: rollouts.Runner, key: Array) -> tuple[rollouts.Runner, Any]:
        key_action, key_step = jax.random.split(key)
        mask = rollouts.legal_now(learner, runner.world.env)
        values = rollouts.predict(learner, runner.weights, runner.obs)
        action = q_network.explore(key_action, values, jnp.float32(epsilon), mask)
        step, successor = rollouts.advance(learner, runner, key_step, action)
        after, ends = rollouts.after_step(learner, runner, step)
        before = {"obs": runner.obs, "mask": mask, "action": action, "reward": step.reward}
        final = {name: step.info[name] for name in ("final_obs", "final_mask")}
        measured = rollouts.measure_ends(learner, runner, step, successor)
        return after, ({**before, **final, **ends}, measured)

    settings = learner.settings
    keys = jax.random.split(key, settings.rollout_steps)
    runner, (record, measured) = jax.lax.scan(act, runner, keys, unroll=settings.unroll)
    runner = rollouts.with_measures(runner, measured)
    sums = learner.measured_sums(runner.measured)
    return runner._replace(measured=()), (record, sums)


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
        obs, mask = self._obs, self._envs.mask
        action = np.asarray(self._decide(weights, self._words(), obs, mask))
        step, record = self._advance(action)
        final = {"final_obs": step.final_obs, "final_mask": step.final_mask}
        return {"obs": obs, "mask": mask, "action": action, **record, **final}


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
    return with_errors(given, weights, found), steps["is_step"][at]


def joined_items(
    given: Exploration, weights: PyTree[Array], buffer: ReplayBuffer, record: Record
) -> tuple[ReplayBuffer, Items, Bool[Array, " items"]]:
    """Return n-step transitions between decisions, and a mask of the transitions that exist.

    `record` has new steps (steps, envs, ...), which are added to `buffer`; the result begins with
    the new buffer. A transition exists if these steps complete it.
    """

    def store(buffer: ReplayBuffer, step: Record) -> tuple[ReplayBuffer, None]:
        info = {name: step[name] for name in ("final_obs", "final_mask")}
        ends = (step["terminated"], step["truncated"])
        made = Step(step["final_obs"], (), step["reward"], *ends, info)
        return replay_buffer.add(buffer, step["obs"], step["mask"], step["action"], made), None

    before = replay_buffer.newest(buffer)
    buffer, _ = jax.lax.scan(store, buffer, record)
    steps, envs = record["reward"].shape
    # A step fills one slot, or two if it truncates its episode.
    ahead, env = jnp.divmod(jnp.arange(2 * steps * envs, dtype=jnp.int32), jnp.int32(envs))
    first = before[env] - given.n_step + 1 + ahead
    batch = replay_buffer.window(buffer, env, first, given.n_step, given.gamma)
    is_new = first <= replay_buffer.newest(buffer)[env]  # later slots are still old ones
    found = {name: getattr(batch, name) for name in ITEM}
    # incomplete transitions have weight 0
    return buffer, with_errors(given, weights, found), is_new & (batch.weight > 0.0)


def with_errors(given: Exploration, weights: PyTree[Array], found: Items) -> Items:
    """Return n-step transitions with their TD errors under the actor's weights."""
    values = jax.vmap(given.sampling.network.apply, in_axes=(None, 0))
    best = legal(values(weights, found["next_obs"]), found["next_mask"]).max(axis=-1)
    value = q_network.of_actions(values(weights, found["obs"]), found["action"])
    return found | {"error": found["reward"] + found["discount"] * best - value}


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
