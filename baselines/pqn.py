"""PQN (Gallici et al., 2024): Q-learning from rollouts, without a buffer or a target network.

Run it with `jaxenvs train ID --algo pqn`. It is PPO's loop (ppo.py) around a network with LayerNorm
whose actions are epsilon-greedy; targets are the lambda-returns of the rollout (Peng and Williams,
1994), computed once before its gradient steps, so that no gradient enters them. Deliberate
difference: an episode cut by the time limit is bootstrapped with the best value of its true
successor. Where the environment forbids actions, they are neither explored nor counted among those
that might be the best.
"""

import dataclasses
import functools
from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float32, Int32, PyTree

from jaxenvs.core.masking import legal

from . import options, ppo, q_network
from .lambda_returns import LambdaReturns
from .loop import command
from .ppo import Rollout, Runner
from .q_network import QNetwork
from .runs import Config


@dataclasses.dataclass(frozen=True)
class Exploring(ppo.Common):
    """How a learner explores: `epsilon` is the share of random actions."""

    epsilon_start: float = 1.0  # at the beginning
    epsilon_end: float = 0.05  # when it has fallen
    epsilon_share: float = 0.5  # share of the run's updates over which it falls, linearly

    def check(self) -> None:
        super().check()
        if not self.epsilon_end <= self.epsilon_start <= 1.0:
            raise ValueError(
                f"epsilon_start={self.epsilon_start} and epsilon_end={self.epsilon_end} are shares "
                f"of random actions: give 1 >= start >= end >= 0"
            )
        if not 0.0 < self.epsilon_share <= 1.0:
            raise ValueError(
                f"epsilon_share={self.epsilon_share} is the share of the run over which epsilon "
                f"falls: give more than 0, at most 1"
            )

    def epsilon(self, update: Int32[Array, ""]) -> Float32[Array, ""]:
        """The share of random actions after so many updates."""
        share = update.astype(jnp.float32) / (self.epsilon_share * self.updates)
        fallen = jnp.minimum(share, 1.0)
        return self.epsilon_start + (self.epsilon_end - self.epsilon_start) * fallen


@dataclasses.dataclass(frozen=True)
class Settings(Exploring, ppo.Learning):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    rollout_steps: int = 32  # steps of each environment between updates
    gae_lambda: float = 0.65  # how far targets look ahead: 0 one step, 1 the whole episode
    max_grad_norm: float = 10.0  # global norm of the gradient, at most


@dataclasses.dataclass(frozen=True)
class PQN(LambdaReturns):
    """The algorithm: pure functions of a `Runner`, for one seed, on one of `devices`."""

    network: QNetwork
    settings: Settings  # type: ignore[assignment]

    def update(self, runner: Runner, _: None = None) -> tuple[Runner, dict[str, Array]]:
        """Collect a rollout and learn from it; also return the metrics of this update."""
        epsilon = self.epsilon(runner)
        runner, metrics = super().update(runner)
        return runner, {**metrics, "epsilon": epsilon}

    def epsilon(self, runner: Runner) -> Float32[Array, ""]:
        """The share of random actions, by the gradient steps that the optimiser has counted."""
        return self.settings.epsilon(counted(runner.optimiser) // self.settings.gradient_steps)

    def values(self, weights: PyTree[Array], obs: PyTree[Array]) -> Float32[Array, "batch actions"]:
        """Values of all actions in a batch of observations."""
        return jax.vmap(self.network.apply, in_axes=(None, 0))(weights, obs)  # type: ignore[return-value]

    def collect(self, runner: Runner, key: Array) -> tuple[Runner, Any]:
        """Act for `rollout_steps` steps; values are those of the best legal actions."""
        epsilon = self.epsilon(runner)

        def act(runner: Runner, key: Array) -> tuple[Runner, Rollout]:
            key_action, key_step = jax.random.split(key)
            mask = self.mask(runner.world.env)
            values = legal(self.values(runner.weights, runner.obs), mask)
            action = q_network.explore(key_action, values, epsilon, mask)
            step = self.env.step(key_step, runner.world, action)
            record = Rollout(
                obs=runner.obs,
                action=action,
                log_prob=(),
                value=values.max(axis=-1),
                **self.outcome(runner, step),
            )
            return self.after(runner, step), record

        return jax.lax.scan(act, runner, jax.random.split(key, self.settings.rollout_steps))

    def loss(  # type: ignore[override]
        self, weights: PyTree[Array], rollout: Rollout, target: Array
    ) -> tuple[Array, dict[str, Array]]:
        """Squared error of the values of the actions of a minibatch."""
        value = q_network.chosen(self.values(weights, rollout.obs), rollout.action)
        chex.assert_equal_shape([value, target], custom_message="value and target, [batch]")
        loss = 0.5 * jnp.square(value - target).mean()
        return loss, {"q_loss": loss, "q": value.mean()}

    @property
    def optimiser(self) -> optax.GradientTransformation:
        """RAdam (Liu et al., 2020) behind a clip of the global norm."""
        return optax.chain(
            optax.clip_by_global_norm(self.settings.max_grad_norm), optax.radam(self.learning_rate)
        )


def counted(optimiser: Any) -> Int32[Array, ""]:
    """Gradient steps that the optimiser, behind a clip of the norm, has counted."""
    return optimiser[1][0].count


def build(asked: options.Options[Settings], config: Config) -> PQN:
    """Return the algorithm for what was asked; raises for what cannot work."""
    venv, devices = options.environments(asked, config)
    network = QNetwork.of(venv.env, asked.settings.hidden, asked.settings.embed)
    return PQN(venv, network, asked.settings, devices)


prepare = functools.partial(options.prepare, "pqn", Settings, "Train an agent with PQN.", build)
main = functools.partial(command, prepare, ppo.report)  # of a command line: the exit code
