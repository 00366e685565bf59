"""Exploration bonuses: rewards for novelty that a learner from rollouts adds to its own.

A bonus is a frozen dataclass of pure functions: `init` and `begin` make what it has learned and
what it remembers of each environment's episode, `rewards` learns a rollout and returns how new each
step was. All of them are divided by the standard deviation of their discounted returns. None of
them sees the previous action where the network does: it would tell what was done.
"""

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import chex
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, PyTree

from jaxenvs import spaces
from jaxenvs.core.facts import identity
from jaxenvs.core.wrappers import PreviousStep

from .devices import ALONE, Devices
from .learner import Learner
from .moments import Moments

Novelty = Literal["rnd", "noveld", "e3b"]
KINDS = {
    "rnd": ("..exploration.rnd", "RND"),
    "noveld": ("..exploration.noveld", "NovelD"),
    "e3b": ("..exploration.e3b", "E3B"),
}


class Visits(NamedTuple):
    """What a rollout saw."""

    obs: PyTree[Array]  # (steps + 1, envs, ...), the last one after the rollout
    action: Int32[Array, "steps envs"]
    done: Bool[Array, "steps envs"]  # whether the next observation begins another episode


# What has been learned, what is remembered and the discounted sums, all after it; the bonuses.
Rewards = tuple[Any, PyTree[Array], Float32[Array, " envs"], Float32[Array, "steps envs"]]


@dataclasses.dataclass(frozen=True)
class Bonus:
    """What bonuses share."""

    space: spaces.Space  # of the networks' input
    read: Callable[[Any], Any] = identity  # from an observation to the networks' input
    embed: int = 8  # features per cell of a map, 0: its one-hots
    conv: tuple[int, ...] = ()  # see encoders.Encoder
    weight: float = 0.1  # of the bonus beside the rewards
    gamma: float = 0.99  # its discount
    minibatches: int = 8  # gradient steps in a rollout
    learning_rate: float = 1e-4
    width: int = 128  # of each layer
    num_actions: int = 1  # 0: they are not numbered

    def init(self, key: Array, obs: PyTree[Array]) -> Any:
        """Draw the networks for observations like this one."""
        raise NotImplementedError

    def begin(self, curiosity: Any, obs: PyTree[Array]) -> PyTree[Array]:
        """What is remembered of each environment after its first observation; () for nothing."""
        return ()

    def rewards(
        self,
        curiosity: Any,
        memory: PyTree[Array],
        returns: Float32[Array, " envs"],
        visits: Visits,
        devices: Devices = ALONE,
    ) -> Rewards:
        """Learn a rollout; return how new what each of its steps led to was.

        `returns` are each environment's discounted sums of bonuses before the rollout. Bonuses of
        steps that end an episode mean nothing.
        """
        raise NotImplementedError

    def scaled(
        self,
        earned: Moments,
        before: Float32[Array, " envs"],
        new: Float32[Array, "steps envs"],
        devices: Devices,
    ) -> tuple[Moments, Float32[Array, " envs"], Float32[Array, "steps envs"]]:
        """Bonuses in deviations of their discounted returns; with the moments and sums of these."""
        sums = self.returns(before, new)
        earned = earned.and_of(sums.reshape(1, -1), devices)
        return earned, sums[-1], new / earned.deviation

    def returns(
        self, before: Float32[Array, " envs"], new: Float32[Array, "steps envs"]
    ) -> Float32[Array, "steps envs"]:
        """Discounted sums of bonuses up to each step, over all ends of episodes and rollouts.

        A sum that restarted with each rollout would be a ramp, whose spread is the ramp's height.
        """

        def add(total: Array, bonus: Array) -> tuple[Array, Array]:
            total = self.gamma * total + bonus
            return total, total

        return jax.lax.scan(add, before, new)[1]


def of_settings(learner: Learner[Any]) -> Bonus | None:
    """Return the bonus that a learner's settings ask for, if they do."""
    settings, env = learner.settings, learner.env.env
    if not getattr(settings, "bonus", 0.0):
        return None
    module, name = KINDS[settings.novelty]
    kind = getattr(importlib.import_module(module, __package__), name)
    names = ("embed", "conv", "gamma", "minibatches")
    shared = {name: getattr(settings, name) for name in names}
    count = env.action_space.n if isinstance(env.action_space, spaces.Discrete) else 0
    shared |= {"weight": settings.bonus, "num_actions": count}
    if isinstance(env, PreviousStep):
        return kind(*env.env.features, **shared)
    return kind(learner.network.observation_space, learner.network.read, **shared)


def visible(learner: Learner[Any], obs: PyTree[Array]) -> PyTree[Array]:
    """What a bonus sees of observations: without what the agent did before."""
    return obs["obs"] if isinstance(learner.env.env, PreviousStep) else obs


def begin(learner: Learner[Any], obs: PyTree[Array], key: Array) -> dict[str, Any]:
    """Fields of a runner that the bonus needs; none if the settings ask for no bonus."""
    bonus, obs = of_settings(learner), visible(learner, obs)
    if bonus is None:
        return {}
    curiosity = bonus.init(key, jax.tree.map(lambda leaf: leaf[0], obs))
    return {
        "bonus": curiosity,
        "bonus_memory": bonus.begin(curiosity, obs),
        "bonus_returns": jnp.zeros(learner.env.num_envs, jnp.float32),
    }


def add_bonus(learner: Learner[Any], runner: Any, rollout: Any) -> tuple[Any, Any]:
    """Add the bonus, if there is one, for what each step led to in its episode."""
    bonus = of_settings(learner)
    if bonus is None:
        return runner, rollout
    done = rollout.terminated | rollout.truncated
    obs = jax.tree.map(
        lambda seen, now: jnp.concatenate([seen, now[None]]),
        *(visible(learner, each) for each in (rollout.obs, runner.obs)),
    )
    curiosity, memory, returns, new = bonus.rewards(
        runner.bonus,
        runner.bonus_memory,
        runner.bonus_returns,
        Visits(obs, rollout.action, done),
        learner.devices,
    )
    chex.assert_equal_shape(
        [new, rollout.reward, done], custom_message="bonus, reward and done, [steps, envs]"
    )
    reward = rollout.reward + bonus.weight * jnp.where(done, 0.0, new)
    runner = runner._replace(bonus=curiosity, bonus_memory=memory, bonus_returns=returns)
    return runner, rollout._replace(reward=reward)
