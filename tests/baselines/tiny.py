"""Small environments and learners for the tests of the baselines."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Int32

import jaxenvs
from jaxenvs.baselines import registry
from jaxenvs.baselines.core import rollouts
from jaxenvs.baselines.core.devices import ALONE, Devices
from jaxenvs.baselines.core.learner import SEEDS, Learner
from jaxenvs.baselines.on_policy import ppo
from jaxenvs.baselines.registry import ALGORITHMS
from jaxenvs.baselines.run import loop
from jaxenvs.baselines.run.progress import ProgressLine
from jaxenvs.baselines.storage.runs import Config
from jaxenvs.core.env import Env, Params, State, Transition
from jaxenvs.core.spaces import Box, Discrete

# Flags of a run that takes seconds; the runs of one test file share a compiled program.
FLAGS = ["--num-envs", "8", "--rollout-steps", "32", "--hidden", "8", "--embed", "2"]
FLAGS += ["--eval-episodes", "16", "--checkpoint-every", "2", "--seeds", "2", "--seed", "3"]


class Endless(Env):
    """Environment with a reward of 1 at every step, truncated after five steps.

    The observation is always 1.
    """

    fully_observed = True  # states differ only in `time`, which may stay hidden

    @property
    def default_params(self) -> Params:
        """Return params with a time limit of five steps."""
        return Params(max_steps_in_episode=np.int32(5))

    @property
    def action_space(self) -> Discrete:
        """Return a space of two actions, which have the same effect."""
        return Discrete(2)

    @property
    def observation_space(self) -> Box:
        """Return a space of one number."""
        return Box(0.0, 9.0, (1,), np.float32)

    def reset_state(self, key, level, params):
        """Return the initial state, which contains only the time."""
        return State(time=jnp.int32(0))

    def step_state(self, key, state, action, params):
        """Return a reward of 1; the episode does not terminate."""
        return Transition(state, jnp.float32(1.0), jnp.bool_(False))

    def observe(self, state, params=None):
        """Observe a constant, so that the time is hidden."""
        return jnp.ones(1, jnp.float32)


class Clock(Endless):
    """Environment `Endless` whose observation is the time; the final observation is 5."""

    def observe(self, state, params=None):
        """Observe the time."""
        return state.time[None].astype(jnp.float32)


LOW, HIGH = np.array([-1.0, 0.0], np.float32), np.array([1.0, 4.0], np.float32)


class Push(Clock):
    """Environment `Clock` with two-dimensional continuous actions; the reward is their sum."""

    @property
    def action_space(self):
        """Return a space of two numbers with different bounds."""
        return Box(LOW, HIGH, (2,), np.float32)

    def step_state(self, key, state, action, params):
        """Return the sum of the action's components as the reward."""
        return super().step_state(key, state, action, params)._replace(reward=action.sum())


@jaxenvs.struct
class CountdownState(State):
    """State of an episode whose length is drawn at the reset."""

    length: Int32[Array, ""]  # number of steps of the episode


class Countdown(Endless):
    """Environment whose episodes have a random length from 1 to 8.

    The last step's reward is the length of the episode; all other rewards are 0.
    """

    fully_observed = False  # the length is hidden

    @property
    def default_params(self) -> Params:
        """Return a time limit that truncates episodes of 7 and 8 steps before their reward."""
        return Params(max_steps_in_episode=np.int32(6))

    def draw_level(self, key, params):
        """Draw the length of the episode."""
        return jaxenvs.core.random.below(jaxenvs.core.random.words(key, 1)[0], 8) + 1

    def reset_state(self, key, level, params):
        """Return a state with the level's length."""
        return CountdownState(time=jnp.int32(0), length=level)

    def step_state(self, key, state, action, params):
        """Return the episode's length as the reward of its last step, else 0."""
        ends = state.time >= state.length
        return Transition(state, jnp.where(ends, state.length, 0).astype(jnp.float32), ends)

    def succeeded(self, step):
        """Return whether the reward is more than 3, which counts as success."""
        return step.reward > 3


class Timed:
    """Mixin of environments that measures the time before and after the last step."""

    measures = ("before", "after")

    def measure(self, before, step):
        """Return the time before the step, and the time after it, which is the episode's length."""
        return jnp.stack([before.time, step.state.time]).astype(jnp.float32)


class TimedCountdown(Timed, Countdown):
    """Environment `Countdown` that measures its episodes."""


class TimedPush(Timed, Push):
    """Environment `Push` that measures its episodes."""


REPLAY = {
    **{"num_envs": 4, "rollout_steps": 8, "capacity": 64, "warm_up": 32},
    **{"gradient_steps": 4, "batch_size": 16},
}
REPLAYING = {"num_envs": 4, "rollout_steps": 8, "capacity": 64, "warm_up": 36, "replays": 2}
REPLAYING |= {"batch_size": 16}
USUAL = {**REPLAY, "minibatches": 2, "memory": 8}  # settings of a learner that is not in `TINY`
# Small settings for tests, by the name of the learner.
TINY = {
    "ppo": {"num_envs": 8, "rollout_steps": 16, "minibatches": 2},
    "ppo-rnn": {"num_envs": 8, "rollout_steps": 16, "minibatches": 2, "memory": 8},
    "ppo-trxl": {
        **{"num_envs": 8, "rollout_steps": 16, "minibatches": 2, "memory": 5},
        **{"width": 8, "num_heads": 2, "depth": 2},
    },
    "dyna": {
        **{"num_envs": 8, "rollout_steps": 8, "minibatches": 2, "memory": 8, "capacity": 256},
        **{"warm_up": 128, "context": 3, "width": 8, "num_heads": 2, "depth": 1, "atoms": 4},
        **{"model_steps": 2, "model_batch": 8, "imagined_rollouts": 2, "imagined_envs": 4},
        **{"imagined_steps": 5},
    },
    "rl2": {"num_envs": 8, "rollout_steps": 16, "minibatches": 2, "memory": 8},
    "plr": {"num_envs": 8, "rollout_steps": 16, "minibatches": 2, "memory": 8, "buffer": 12},
    "sfl": {
        **{"num_envs": 8, "rollout_steps": 16, "minibatches": 2, "memory": 8, "every": 2},
        **{"candidates": 12, "candidate_envs": 6, "candidate_steps": 24, "kept": 5},
    },
    "pqn": {"num_envs": 4, "rollout_steps": 16, "minibatches": 2},
    "pqn-rnn": {"num_envs": 8, "rollout_steps": 16, "minibatches": 2, "memory": 8},
    "dqn": REPLAY,
    "c51": {**REPLAY, "atoms": 5},
    "qr-dqn": {**REPLAY, "quantiles": 5},
    "iqn": {**REPLAY, "fractions": 3, "cosines": 6},
    "rainbow": {**REPLAY, "atoms": 5},
    "r2d2": {
        **{**REPLAY, "batch_size": 8, "memory": 8, "n_step": 2},
        **{"burn_in": 2, "sequence": 4, "period": 2},
    },
    "sac": REPLAYING,
    "td3": REPLAYING,
    "tqc": REPLAYING | {"quantiles": 5},
    "crossq": REPLAYING | {"critic_hidden": (12,)},
    "alphazero": {
        **{"num_envs": 4, "rollout_steps": 6, "minibatches": 2, "simulations": 8, "epochs": 1},
    },
    "muzero": {
        **{"num_envs": 4, "rollout_steps": 8, "capacity": 128, "warm_up": 32, "latent": 8},
        **{"gradient_steps": 2, "batch_size": 8, "unroll_steps": 3, "n_step": 2, "simulations": 4},
    },
    "ppo-ray": {"num_envs": 4, "rollout_steps": 8, "minibatches": 2},
}


def learner(env: Env, algorithm: str = "ppo", devices: Devices = ALONE, **settings) -> Learner:
    """Return a learner with small settings for tests, PPO by default."""
    kind = ALGORITHMS[algorithm].load().Settings
    known = {field.name for field in dataclasses.fields(kind)}
    usual = {name: value for name, value in USUAL.items() if name in known}
    chosen = {"hidden": (8,), "embed": 2} | TINY.get(algorithm, usual) | settings
    made = kind(**chosen)
    env = registry.training_env(algorithm, env, made) if algorithm in ("plr", "sfl") else env
    return registry.build(algorithm, env, made, devices)


def rows_of(agent: Learner, updates: int) -> list[dict[str, Any]]:
    """Return the log records of a new learner's first updates."""
    runners, rows = loop.start(agent, jax.random.key(0)[None]), []
    config = Config("Classic-Pendulum-v0", {}, 0, 1, {}, agent.algorithm.name)
    line = ProgressLine(config, agent.settings.steps_per_update, updates, 0)
    for _ in range(updates):
        runners, metrics = loop.run_chunk(agent, runners)
        rows += line.update(jax.device_get(metrics))
    return rows


def warm_up_is_not_averaged(agent: Learner, of_turns: tuple[str, ...] = ("actor_loss",)) -> None:
    """Check that losses are None in the log before the first gradient step, and means after it.

    The first two updates of `agent` are compared. The first must lie within the warm-up; in the
    second, gradient steps must follow every environment step. `of_turns` names other metrics that
    must be None in the first update.
    """
    first, second = rows_of(agent, 2)
    for name in ("critic_loss", "q", *of_turns):
        assert first[name] == [None], name
        assert np.isfinite(second[name]).all() and second[name] != [0.0], name
    assert not [name for name in (*first, *second) if "known" in name]
    if agent.algorithm.name != "td3":
        assert first["temperature"] == pytest.approx([agent.settings.temperature])
        assert 0.0 < abs(second["temperature"][0] - agent.settings.temperature) < 0.1


@functools.partial(jax.jit, static_argnums=(0, 3))
def collected(agent: Learner, runners: Any, keys: Array, choose: Any = ppo.choose) -> Any:
    """Return the runners of all seeds after a rollout, and their rollouts."""
    one_seed = functools.partial(rollouts.collect, agent, choose=choose)
    return jax.vmap(one_seed, axis_name=SEEDS)(runners, keys)
