"""Recurrent PPO: PPO with a GRU (Cho et al., 2014) over the observations of an episode.

`--cell mingru --layers 3` replaces the GRU by a stack of MinGRU layers (networks/mingru.py).

It is PPO (ppo.py) with minibatches of whole sequences. A rollout stores the recurrent state before
its first step. Every gradient step unrolls the network with the current weights, beginning with the
stored state, and resets the recurrent state at the ends of episodes. Run it with
`jaxenvs train ID --algo ppo-rnn`.

Deliberate difference from common practice: a truncated episode is bootstrapped with the value of
its final observation, computed with the recurrent state of that step.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from jaxenvs import Env
from jaxenvs.core.facts import identity
from jaxenvs.core.masking import legal
from jaxenvs.core.wrappers import PreviousStep

from ..core import returns, rollouts, value_scales
from ..core.bounds import Bounds, Count, NonNegativeInt
from ..core.learner import Learner
from ..core.minibatches import as_sequences
from ..core.rollouts import Choose, Rollout, Runner
from ..core.settings import Memory
from ..networks.mingru import MinGRU, SpatialMinGRU
from ..networks.policies import Recurrent
from ..networks.spatial import Spatial
from . import ppo

Cell = Literal["gru", "mingru"]


@dataclasses.dataclass(frozen=True)
class Settings(Memory, ppo.Settings):
    """Hyperparameters of recurrent PPO.

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    # size of the recurrent state, of each layer if there are several
    memory: Annotated[int, Bounds(least=1, hint="without one use --algo ppo")] = 128
    cell: Cell = "gru"  # kind of the recurrent layer: gru, or mingru, which learns windows faster
    layers: Count = 1  # number of recurrent layers, such as 3; more than one only with mingru
    # whether each minibatch computes its advantages and value targets with its current values,
    # instead of the values of the rollout
    recompute: bool = False
    # features of a 3 x 3 convolution over a map (spatial.py); 0: off
    neighbours: NonNegativeInt = 0

    def check(self) -> None:
        super().check()
        check_one_map(self)
        check_cell(self)
        if self.neighbours and self.network:
            raise ValueError(
                f"neighbours={self.neighbours} does not apply to your own network; give "
                f"--neighbours 0 with --network {self.network}"
            )


def check_cell(settings: Any) -> None:
    """Raise `ValueError` if the network cannot have the recurrent layers of the settings."""
    if settings.layers > 1 and settings.cell != "mingru":
        raise ValueError(
            f"layers={settings.layers} with cell={settings.cell}: only mingru can be stacked; give "
            f"--cell mingru, or omit --layers"
        )
    if settings.cell != "gru" and getattr(settings, "network", ""):
        raise ValueError(
            f"cell={settings.cell} does not apply to your own network; omit --cell with --network "
            f"{settings.network}"
        )


def check_one_map(settings: Any) -> None:
    """Raise `ValueError` if both `neighbours` and `conv` are set."""
    if settings.neighbours and settings.conv:
        raise ValueError(
            f"neighbours={settings.neighbours} and conv={settings.conv} both read a map; give one"
        )


def network(env: Env, cell: Cell = "gru", layers: int = 1, **given: Any) -> Recurrent:
    """Return the network for an environment, with a convolution if `neighbours` is set."""
    if cell == "mingru":
        kind: Any = SpatialMinGRU if given.get("neighbours") else MinGRU
        return kind.of(env, depth=layers, **given)
    return (Spatial if given.get("neighbours") else Recurrent).of(env, **given)


def wrapped(env: Env, settings: Mapping[str, Any]) -> Env:
    """Return the environment in which a policy trained with `settings` acts.

    If the setting `previous` is on, observations include the previous action and reward.
    """
    return PreviousStep(env=env) if settings.get("previous") else env


init = ppo.init


def update(
    learner: Learner[Any],
    runner: Runner,
    choose: Choose = ppo.choose,
    loss: Callable[..., Any] | None = None,
    counted: Callable[[Rollout], Rollout] = identity,
) -> tuple[Runner, dict[str, Array]]:
    """Collect a rollout and learn from it; return the new training state and metrics.

    By default, PPO's functions `choose` and `loss` are used; learners that build on recurrent PPO
    pass other functions. The metrics cover all episodes of the rollout, unless a learner passes a
    function `counted`, which returns the rollout without the episodes to leave out.
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
    """Learn from a rollout; return the new training state and mean losses.

    `runner` is the training state after the rollout, and `memory` is the recurrent state before the
    rollout's first step. `loss` is by default PPO's loss on sequences.
    """
    rollout = rollout._replace(memory=jax.tree.map(lambda leaf: leaf[None], memory))
    runner, batch = ppo.scaled_targets(learner, runner, rollout)
    if loss is None:
        # ppo-trxl, which also learns by this function, has no such setting
        is_current = getattr(learner.settings, "recompute", False)
        recompute = current_targets if is_current else None
        loss = functools.partial(ppo.loss, unroll=unroll, recompute=recompute)
    return ppo.learn(learner, runner, as_sequences(batch), key, loss)


def unroll(learner: Learner, weights: PyTree, rollout: Rollout) -> tuple[Array, Array]:
    """Return logits and values for each step of a minibatch of sequences.

    The network is unrolled from the recurrent states that are stored with the sequences.
    """
    done = rollout.terminated | rollout.truncated
    over_batch = jax.vmap(learner.network.unroll, in_axes=(None, 0, 0, 0))
    memory = jax.tree.map(lambda leaf: leaf[:, 0], rollout.memory)
    logits, value = over_batch(weights, memory, rollout.obs, done)
    return legal(logits, rollout.mask), value


def current_targets(
    learner: Learner[Any], weights: PyTree, rollout: Rollout, value: Array
) -> tuple[Array, Array, Array, Array]:
    """Return advantages and value targets for current values, and the moments of the advantages.

    `value` are the network's value outputs (envs, steps) for the sequences of a minibatch. No
    gradient flows through the results. The values of observations after a truncation or after the
    rollout are still the ones of the rollout. With `target_scaling`, values have the newest scale.
    """
    settings = learner.settings
    value = value_scales.in_learned_rewards(weights, jax.lax.stop_gradient(value))
    fields = ("reward", "terminated", "truncated", "truncation_value")
    in_time = Rollout(value=value.T, **{name: getattr(rollout, name).T for name in fields})
    in_time = in_time._replace(forced=jax.tree.map(jnp.transpose, rollout.forced))
    last_value = rollout.last_value[:, 0]
    advantage = returns.advantages(in_time, last_value, settings.gamma, settings.gae_lambda).T
    every = jnp.arange(len(value), dtype=jnp.int32)[None]
    mean, std = ppo.normalisers(learner, (rollout, advantage), every)
    return advantage, value_scales.in_outputs(weights, advantage + value), mean[0], std[0]
