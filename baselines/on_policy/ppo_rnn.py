"""Recurrent PPO: a GRU (Cho et al., 2014) remembers what has been seen in the episode.

Run it with `jaxenvs train ID --algo ppo-rnn`. It is PPO (ppo.py) whose minibatches are whole
sequences: a rollout keeps what was remembered before its first step, and the network is unrolled
from there with each gradient step's weights, forgetting at every end of an episode before the next
observation. Deliberate difference to common practice: a cut episode is worth what its true
successor says to the memory of that moment.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
from jaxtyping import Array, PyTree

from jaxenvs import Env
from jaxenvs.core.facts import identity
from jaxenvs.core.masking import legal
from jaxenvs.core.wrappers import PreviousStep

from ..core import rollouts
from ..core.learner import Learner
from ..core.minibatches import as_sequences
from ..core.rollouts import Choose, Rollout, Runner
from ..core.settings import Remembering
from ..networks.policies import Recurrent
from ..networks.spatial import Spatial
from . import ppo


@dataclasses.dataclass(frozen=True)
class Settings(Remembering, ppo.Settings):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    memory: int = 128  # numbers that the GRU remembers
    neighbours: int = 0  # features of a cell with the eight around it (spatial.py); 0: without

    def check(self) -> None:
        super().check()
        if self.memory < 1:
            raise ValueError(f"memory={self.memory} must be at least 1; without one use --algo ppo")
        check_one_map(self)
        if self.neighbours and self.network:
            raise ValueError(
                f"neighbours={self.neighbours} is not for a network of your own; give "
                f"--neighbours 0 with --network {self.network}"
            )


def check_one_map(settings: Any) -> None:
    """Raise `ValueError` for settings of two networks that read a map."""
    if settings.neighbours and settings.conv:
        raise ValueError(
            f"neighbours={settings.neighbours} and conv={settings.conv} both read a map; give one"
        )


DIVIDED = ppo.DIVIDED


def network(env: Env, **given: Any) -> Recurrent:
    """The network for an environment, `Spatial` if `neighbours` is not 0."""
    return (Spatial if given.get("neighbours") else Recurrent).of(env, **given)


def wrapped(env: Env, settings: Mapping[str, Any]) -> Env:
    """The environment as a policy of a run with these settings sees it."""
    return PreviousStep(env=env) if settings.get("previous") else env


init = ppo.init


def update(
    learner: Learner[Any],
    runner: Runner,
    choose: Choose = ppo.choose,
    loss: Callable[..., Any] | None = None,
    counted: Callable[[Rollout], Rollout] = identity,
) -> tuple[Runner, dict[str, Array]]:
    """Collect a rollout and learn from it; also return the metrics of this update.

    `counted` maps the rollout to the one whose episodes the metrics count.
    """
    memory = runner.memory
    runner, key_act, key_learn = rollouts.next_update(learner, runner)
    runner, rollout = rollouts.collect(learner, runner, key_act, choose)
    runner, losses = learn(learner, runner, memory, rollout, key_learn, loss)
    return rollouts.finish_update(learner, runner, counted(rollout), losses)


def learn(
    learner: Learner[Any],
    runner: Runner,
    memory: PyTree[Array],
    rollout: Rollout,
    key: Array,
    loss: Callable[..., Any] | None = None,
) -> tuple[Runner, dict[str, Array]]:
    """Learn from a rollout before whose first step `memory` was remembered.

    The runner is that of the rollout's end.
    """
    rollout = rollout._replace(memory=jax.tree.map(lambda leaf: leaf[None], memory))
    runner, batch = ppo.scaled_targets(learner, runner, rollout)
    loss = loss or functools.partial(ppo.loss, unroll=unroll)
    return ppo.learn(learner, runner, as_sequences(batch), key, loss)


def unroll(learner: Learner, weights: PyTree, rollout: Rollout) -> tuple[Array, Array]:
    """Logits and values, by these weights, of sequences from their first memory on."""
    done = rollout.terminated | rollout.truncated
    over_batch = jax.vmap(learner.network.unroll, in_axes=(None, 0, 0, 0))
    memory = jax.tree.map(lambda leaf: leaf[:, 0], rollout.memory)
    logits, value = over_batch(weights, memory, rollout.obs, done)
    return legal(logits, rollout.mask), value
