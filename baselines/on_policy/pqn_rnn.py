"""Recurrent PQN: Q-learning from rollouts with a GRU (Gallici et al., 2024; Cho et al., 2014).

Run it with `jaxenvs train ID --algo pqn-rnn`. It is PQN (pqn.py) whose minibatches are whole
sequences, as in recurrent PPO (ppo_rnn.py): a rollout keeps what was remembered before its first
step, and the network is unrolled from there with each gradient step's weights, forgetting at every
end of an episode. Deliberate difference to the authors' code: no steps of the rollout before are
unrolled again to renew the memory.
"""

import dataclasses
from typing import Any

import jax
from jaxtyping import Array, Float32, PyTree

from jaxenvs import Env

from ..core import rollouts
from ..core.bounds import Count
from ..core.learner import Learner
from ..core.minibatches import as_sequences
from ..core.rollouts import Rollout, Runner
from ..core.settings import Remembering
from ..networks.q_network import RecurrentQ
from ..networks.spatial import SpatialQ
from . import pqn
from .ppo_rnn import check_one_map
from .ppo_rnn import wrapped as wrapped


@dataclasses.dataclass(frozen=True)
class Settings(Remembering, pqn.Settings):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    memory: Count = 128  # numbers that the GRU remembers
    neighbours: int = 0  # features of a cell with the eight around it (spatial.py); 0: without

    def check(self) -> None:
        super().check()
        check_one_map(self)


DIVIDED = rollouts.DIVIDED


def network(env: Env, **given: Any) -> RecurrentQ:
    """The network for an environment, `SpatialQ` if `neighbours` is not 0."""
    kind: Any = SpatialQ if given.get("neighbours") else RecurrentQ
    return kind.of(env, **given)


init = pqn.init


def update(learner: Learner[Any], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Collect a rollout and learn from it; also return the metrics of this update."""
    return pqn.update(learner, runner, as_sequences, unroll)


def unroll(
    learner: Learner, weights: PyTree, rollout: Rollout
) -> Float32[Array, "envs steps actions"]:
    """Values of all actions, by these weights, in sequences from their first memory on."""
    done = rollout.terminated | rollout.truncated
    over_batch = jax.vmap(learner.network.unroll, in_axes=(None, 0, 0, 0))
    memory = jax.tree.map(lambda leaf: leaf[:, 0], rollout.memory)
    return over_batch(weights, memory, rollout.obs, done)[0]
