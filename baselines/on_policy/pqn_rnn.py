"""Recurrent PQN: Q-learning on rollouts with a GRU (Gallici et al., 2024; Cho et al., 2014).

It is PQN (pqn.py) with minibatches of whole sequences, as in recurrent PPO (ppo_rnn.py). A rollout
stores the recurrent state before its first step. Every gradient step unrolls the network, beginning
with the stored state, and resets the recurrent state at the ends of episodes. Run it with
`jaxenvs train ID --algo pqn-rnn`. `--cell mingru --layers 3` replaces the GRU by a stack of MinGRU
layers (networks/mingru.py).

Deliberate difference from the authors' code: the stored recurrent state comes from the network that
acted. The authors recompute it with the current network, by unrolling steps of the previous rollout
first.
"""

import dataclasses
from typing import Any

import jax
from jaxtyping import Array, Float32, PyTree

from jaxenvs import Env

from ..core.bounds import Count, NonNegativeInt
from ..core.learner import Learner
from ..core.minibatches import as_sequences
from ..core.rollouts import Rollout, Runner
from ..core.settings import Memory
from ..networks.mingru import MinGRUQ, SpatialMinGRUQ
from ..networks.q_network import RecurrentQ
from ..networks.spatial import SpatialQ
from . import pqn
from .ppo_rnn import Cell, check_cell, check_one_map
from .ppo_rnn import wrapped as wrapped


@dataclasses.dataclass(frozen=True)
class Settings(Memory, pqn.Settings):
    """Hyperparameters of recurrent PQN.

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    memory: Count = 128  # size of the recurrent state, of each layer if there are several
    cell: Cell = "gru"  # kind of the recurrent layer: gru, or mingru, which learns windows faster
    layers: Count = 1  # number of recurrent layers, such as 3; more than one only with mingru
    # features of a 3 x 3 convolution over a map (spatial.py); 0: off
    neighbours: NonNegativeInt = 0

    def check(self) -> None:
        super().check()
        check_one_map(self)
        check_cell(self)


def network(env: Env, cell: Cell = "gru", layers: int = 1, **given: Any) -> RecurrentQ:
    """Return the network for an environment, with a convolution if `neighbours` is not 0."""
    kind: Any = SpatialQ if given.get("neighbours") else RecurrentQ
    if cell == "mingru":
        kind = SpatialMinGRUQ if given.get("neighbours") else MinGRUQ
        given["depth"] = layers
    return kind.of(env, **given)


init = pqn.init


def update(learner: Learner[Any], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Collect a rollout and learn from it; return the new training state and metrics."""
    return pqn.update(learner, runner, as_sequences, unroll)


def unroll(
    learner: Learner, weights: PyTree, rollout: Rollout
) -> Float32[Array, "envs steps actions"]:
    """Return Q(s, a) of all actions for each step of a minibatch of sequences.

    The network is unrolled from the recurrent states that are stored with the sequences.
    """
    done = rollout.terminated | rollout.truncated
    over_batch = jax.vmap(learner.network.unroll, in_axes=(None, 0, 0, 0))
    memory = jax.tree.map(lambda leaf: leaf[:, 0], rollout.memory)
    return over_batch(weights, memory, rollout.obs, done)[0]
