"""Recurrent PQN: Q-learning from rollouts with a GRU (Gallici et al., 2024; Cho et al., 2014).

Run it with `jaxenvs train ID --algo pqn-rnn`. It is PQN (pqn.py) whose minibatches are whole
sequences, as in recurrent PPO (ppo_rnn.py): a rollout keeps what was remembered before its first
step, and the network is unrolled from there with each gradient step's weights, forgetting at every
end of an episode. Deliberate difference to the authors' code: no steps of the rollout before are
unrolled again to renew the memory.
"""

import dataclasses
import functools
from typing import Any

import jax
from jaxtyping import Array, Float32, PyTree

from jaxenvs import Env

from . import acting, evaluate, pqn
from .acting import Rollout, Runner
from .algorithms import Learner
from .minibatches import sequences
from .ppo_rnn import check_one_map
from .ppo_rnn import wrapped as wrapped
from .q_network import RecurrentQ
from .run import options
from .settings import Remembering
from .spatial import SpatialQ


@dataclasses.dataclass(frozen=True)
class Settings(Remembering, pqn.Settings):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    memory: int = 128  # numbers that the GRU remembers
    neighbours: int = 0  # features of a cell with the eight around it (spatial.py); 0: without

    counts = (*pqn.Settings.counts, "memory")

    def check(self) -> None:
        super().check()
        check_one_map(self)


DIVIDED = acting.DIVIDED


def network(env: Env, **given: Any) -> RecurrentQ:
    """The network for an environment, `SpatialQ` if `neighbours` is not 0."""
    kind: Any = SpatialQ if given.get("neighbours") else RecurrentQ
    return kind.of(env, **given)


build = functools.partial(options.learner, "pqn-rnn")
init = pqn.init
report = evaluate.report


def update(learner: Learner[Any], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Collect a rollout and learn from it; also return the metrics of this update."""
    return pqn.update(learner, runner, sequences, unroll)


def unroll(
    learner: Learner, weights: PyTree, rollout: Rollout
) -> Float32[Array, "envs steps actions"]:
    """Values of all actions, by these weights, in sequences from their first memory on."""
    done = rollout.terminated | rollout.truncated
    over_batch = jax.vmap(learner.network.unroll, in_axes=(None, 0, 0, 0))
    memory = jax.tree.map(lambda leaf: leaf[:, 0], rollout.memory)
    return over_batch(weights, memory, rollout.obs, done)[0]
