"""Exploration bonuses: intrinsic rewards for novelty, added to the rewards of a rollout.

A bonus is a frozen dataclass of pure functions. `init` returns the bonus's networks and statistics.
`begin` returns a state for each environment, such as NovelD's table of visited observations; the
state is reset at the end of an episode. `rewards` trains the networks on a rollout and returns the
novelty of each step.

Bonuses are divided by the running standard deviation of their discounted sums.

Bonuses read observations without the previous action, even if the policy reads it. E3B's inverse
model is trained to predict that action, and could otherwise copy it from its input.
"""

import dataclasses
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


class Visits(NamedTuple):
    """Arrays of a rollout that exploration bonuses read."""

    # observations (steps + 1, envs, ...): before each action, and after the last action
    obs: PyTree[Array]
    action: Int32[Array, "steps envs"]
    done: Bool[Array, "steps envs"]  # whether the step ended an episode


# Result of `Bonus.rewards`, a tuple of: networks and statistics after the rollout; the bonus's
# state in each environment's episode after the rollout; the discounted sums of bonuses after the
# rollout; the bonus of each step.
Rewards = tuple[Any, PyTree[Array], Float32[Array, " envs"], Float32[Array, "steps envs"]]


@dataclasses.dataclass(frozen=True)
class Bonus:
    """Base class of exploration bonuses.

    The methods have two common arguments. `curiosity` contains the bonus's networks and statistics,
    as `init` returns them. `memory` contains the bonus's state in each environment's current
    episode, as `begin` returns it.
    """

    space: spaces.Space  # space of the networks' input
    # function that converts an observation to the networks' input
    read: Callable[[Any], Any] = identity
    embed: int = 8  # embedding size of each cell of an observed map; 0: cells are one-hot vectors
    conv: tuple[int, ...] = ()  # kernel size and features of each convolution, such as (7, 32)
    weight: float = 0.1  # coefficient with which the bonus is added to the reward
    # discount factor of the sum of bonuses; each bonus is divided by this sum's standard deviation
    gamma: float = 0.99
    minibatches: int = 8  # number of minibatches of a rollout, each for one gradient step
    learning_rate: float = 1e-4
    width: int = 128  # width of each layer of the bonus's networks
    num_actions: int = 1  # number of actions; 0: the action space is not Discrete

    def init(self, key: Array, obs: PyTree[Array]) -> Any:
        """Return initial networks and statistics; `obs` is an example of one observation."""
        raise NotImplementedError

    def begin(self, curiosity: Any, obs: PyTree[Array]) -> PyTree[Array]:
        """Return the bonus's state in each environment after the first observations `obs`.

        The state is (), unless the bonus compares observations within an episode.
        """
        return ()

    def rewards(
        self,
        curiosity: Any,
        memory: PyTree[Array],
        returns: Float32[Array, " envs"],
        visits: Visits,
        devices: Devices = ALONE,
    ) -> Rewards:
        """Train on a rollout; return the novelty of each step's next observation, see `Rewards`.

        `returns` has the discounted sum of all bonuses before the rollout, one per environment.
        Callers must ignore the bonus of a step that ends an episode, because this bonus is
        undefined.
        """
        raise NotImplementedError

    def scaled(
        self,
        earned: Moments,
        before: Float32[Array, " envs"],
        new: Float32[Array, "steps envs"],
        devices: Devices,
    ) -> tuple[Moments, Float32[Array, " envs"], Float32[Array, "steps envs"]]:
        """Divide the bonuses `new` by the running standard deviation of their discounted sums.

        `before` has each environment's discounted sum before the rollout. `earned` is the running
        mean and variance of all discounted sums so far. Return the updated `earned`, the discounted
        sums after the rollout, and the divided bonuses.
        """
        sums = self.returns(before, new)
        earned = earned.merged_with(sums.reshape(1, -1), devices)
        return earned, sums[-1], new / earned.deviation

    def returns(
        self, before: Float32[Array, " envs"], new: Float32[Array, "steps envs"]
    ) -> Float32[Array, "steps envs"]:
        """Return the discounted sum of all bonuses up to each step, across episodes and rollouts.

        A sum continues from the last rollout: sums that restarted at 0 would rise during every
        rollout, and their standard deviation would mostly measure the rise.
        """

        def add(total: Array, bonus: Array) -> tuple[Array, Array]:
            total = self.gamma * total + bonus
            return total, total

        return jax.lax.scan(add, before, new)[1]


def of_settings(learner: Learner[Any]) -> Bonus | None:
    """Return the exploration bonus that a learner's settings select, or None."""
    settings, env = learner.settings, learner.env.env
    if not getattr(settings, "bonus", 0.0):
        return None
    kind = settings.bonus_class()
    names = ("embed", "conv", "gamma", "minibatches")
    shared = {name: getattr(settings, name) for name in names}
    count = env.action_space.n if isinstance(env.action_space, spaces.Discrete) else 0
    shared |= {"weight": settings.bonus, "num_actions": count}
    if isinstance(env, PreviousStep):
        return kind(*env.env.features, **shared)
    return kind(learner.network.observation_space, learner.network.read, **shared)


def visible(learner: Learner[Any], obs: PyTree[Array]) -> PyTree[Array]:
    """Return observations as bonuses read them: without the previous action and reward."""
    return obs["obs"] if isinstance(learner.env.env, PreviousStep) else obs


def begin(learner: Learner[Any], obs: PyTree[Array], key: Array) -> dict[str, Any]:
    """Return initial values of the `Runner` fields of an exploration bonus; {} without a bonus."""
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
    """Train the exploration bonus, if any, on a rollout, and add its bonuses to the rewards.

    Each step gets the bonus of its next observation; steps that end an episode get none. Return the
    runner and the rollout.
    """
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
    if rollout.forced:  # a decision gets one bonus, however many forced steps follow it
        done |= rollout.forced.following
    reward = rollout.reward + bonus.weight * jnp.where(done, 0.0, new)
    runner = runner._replace(bonus=curiosity, bonus_memory=memory, bonus_returns=returns)
    return runner, rollout._replace(reward=reward)
