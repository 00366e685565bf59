"""Recurrent PPO: a GRU (Cho et al., 2014) remembers what has been seen in the episode.

Run it with `jaxenvs train ID --algo ppo-rnn`. It is PPO (ppo.py) whose minibatches are whole
sequences: a rollout keeps what was remembered before its first step, and the network is unrolled
from there with each gradient step's weights, forgetting at every end of an episode before the next
observation. Deliberate difference to common practice: a cut episode is worth what its true
successor says to the memory of that moment.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array, PyTree

from jaxenvs import Env
from jaxenvs.core.facts import identity
from jaxenvs.core.masking import legal

from . import acting, evaluate, ppo
from .acting import Choose, Rollout, Runner
from .algorithms import Learner
from .networks import Recurrent
from .run import options
from .spatial import Spatial


@dataclasses.dataclass(frozen=True)
class Settings(ppo.Settings):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    memory: int = 128  # numbers that the GRU remembers
    neighbours: int = 0  # features of a cell with the eight around it (spatial.py); 0: without

    def check(self) -> None:
        super().check()
        if self.memory < 1:
            raise ValueError(f"memory={self.memory} must be at least 1; without one use --algo ppo")
        if self.neighbours and self.conv:
            raise ValueError(
                f"neighbours={self.neighbours} and conv={self.conv} both read a map; give one"
            )
        if self.neighbours and self.network:
            raise ValueError(
                f"neighbours={self.neighbours} is not for a network of your own; give "
                f"--neighbours 0 with --network {self.network}"
            )

    def items(self, num_envs: int) -> int:
        """Number of items that minibatches are drawn from: here sequences of an environment."""
        return num_envs


DIVIDED = ppo.DIVIDED


def network(env: Env, **given: Any) -> Recurrent:
    """The network for an environment, `Spatial` if `neighbours` is not 0."""
    return (Spatial if given.get("neighbours") else Recurrent).of(env, **given)


build = functools.partial(options.learner, "ppo-rnn")
init = ppo.init
report = evaluate.report


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
    runner, key_act, key_learn = acting.next_update(learner, runner)
    runner, rollout = acting.collect(learner, runner, key_act, choose)
    rollout = rollout._replace(memory=jax.tree.map(lambda leaf: leaf[None], memory))
    runner, batch = ppo.scaled_targets(learner, runner, rollout)
    batch = sequences(batch)
    loss = loss or functools.partial(ppo.loss, unroll=unroll)
    runner, losses = ppo.learn(learner, runner, batch, key_learn, loss)
    return acting.finished(learner, runner, counted(rollout), losses)


def sequences(batch: PyTree[Array]) -> PyTree[Array]:
    """Items to draw minibatches from: environments, each with all its steps in order."""
    return jax.tree.map(lambda leaf: leaf.swapaxes(0, 1), batch)


def unroll(learner: Learner, weights: PyTree, rollout: Rollout) -> tuple[Array, Array]:
    """Logits and values, by these weights, of sequences from their first memory on."""
    done = rollout.terminated | rollout.truncated
    over_batch = jax.vmap(learner.network.unroll, in_axes=(None, 0, 0, 0))
    memory = jax.tree.map(lambda leaf: leaf[:, 0], rollout.memory)
    logits, value = over_batch(weights, memory, rollout.obs, done)
    return legal(logits, rollout.mask), value
