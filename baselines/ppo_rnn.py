"""Recurrent PPO: a GRU (Cho et al., 2014) remembers what has been seen in the episode.

Run it with `jaxenvs train ID --algo ppo-rnn`. It is PPO (ppo.py) whose minibatches are whole
sequences: a rollout keeps what was remembered before its first step, and the network is unrolled
from there with each gradient step's weights, forgetting at every end of an episode before the next
observation. Deliberate difference to common practice: a cut episode is worth what its true
successor says to the memory of that moment.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from jaxenvs import Step
from jaxenvs.core.masking import legal

from . import options, ppo
from .loop import command
from .networks import Recurrent
from .ppo import PPO, Runner
from .rnd import RND
from .runs import Config


@dataclasses.dataclass(frozen=True)
class Settings(ppo.Settings):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    memory: int = 128  # numbers that the GRU remembers

    def check(self) -> None:
        super().check()
        if self.memory < 1:
            raise ValueError(f"memory={self.memory} must be at least 1; without one use --algo ppo")

    def items(self, num_envs: int) -> int:
        """Number of items that minibatches are drawn from: here sequences of an environment."""
        return num_envs


@dataclasses.dataclass(frozen=True)
class RecurrentPPO(PPO):
    """The algorithm: pure functions of a `Runner`, for one seed, on one of `devices`."""

    network: Recurrent
    settings: Settings

    def init(self, key: Array) -> Runner:
        """Start, with nothing to remember."""
        memory = jnp.zeros((self.env.num_envs, self.settings.memory), jnp.float32)
        return super().init(key)._replace(memory=memory)

    def collect(self, runner: Runner, key: Array) -> tuple[Runner, Any]:
        """Act for `rollout_steps` steps in every environment, and keep the first memory."""
        after, rollout = super().collect(runner, key)
        return after, rollout._replace(memory=runner.memory[None])

    def after(self, runner: Runner, step: Step) -> Runner:
        """The runner when the environments have stepped: what has ended is forgotten."""
        memory = jnp.where(step.done[:, None], 0.0, runner.memory)
        return super().after(runner, step)._replace(memory=memory)

    def items(self, leaf: Array) -> Array:
        """Items that minibatches are drawn from: environments, with all their steps in order."""
        return leaf.swapaxes(0, 1)

    def unroll(self, weights: PyTree[Array], rollout: ppo.Rollout) -> tuple[Array, Array]:
        """Logits and values, by these weights, of sequences from their first memory on."""
        done = rollout.terminated | rollout.truncated
        sequences = jax.vmap(self.network.unroll, in_axes=(None, 0, 0, 0))
        logits, value = sequences(weights, rollout.memory[:, 0], rollout.obs, done)
        return legal(logits, rollout.mask), value


def build(asked: options.Options[Settings], config: Config) -> RecurrentPPO:
    """Return the algorithm for what was asked; raises for what cannot work."""
    settings = asked.settings
    venv, devices = options.environments(asked, config)
    shape = (settings.hidden, settings.embed)
    network = Recurrent.of(venv.env, *shape, memory=settings.memory)
    return RecurrentPPO(venv, network, settings, devices, RND.asked(settings, network))


ABOUT = "Train an agent with recurrent PPO."
prepare = functools.partial(options.prepare, "ppo-rnn", Settings, ABOUT, build)
main = functools.partial(command, prepare, ppo.report)  # of a command line: the exit code
