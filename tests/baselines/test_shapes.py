"""Tests that arrays of a wrong shape, which would broadcast silently, are refused in tracing."""

import jax
import jax.numpy as jnp
import pytest
import test_alphazero
import test_dqn
import test_pqn
from test_ppo import rollout_of
from tiny import Endless, learner

import jaxenvs
from jaxenvs import Step
from jaxenvs.baselines import registry
from jaxenvs.baselines.core import replay_buffer, returns, rollouts
from jaxenvs.baselines.core.devices import ALONE
from jaxenvs.baselines.core.moments import Moments
from jaxenvs.baselines.core.returns import baselines
from jaxenvs.baselines.model_based import alphazero
from jaxenvs.baselines.networks import q_network
from jaxenvs.baselines.off_policy import dqn
from jaxenvs.baselines.on_policy import ppo, pqn
from jaxenvs.baselines.puzzles import davi
from jaxenvs.puzzles import SlidingTile

pytestmark = pytest.mark.usefixtures("as_a_user")  # disable jaxtyping, which would raise first
STEPS, ENVS, ROWS = 7, 5, 6
KEY = jax.random.key(0)
FLAT, COLUMN, TABLE = jnp.zeros(ROWS), jnp.zeros((ROWS, 1)), jnp.zeros((ROWS, 4))
ZERO = jnp.float32(0)
ACTION = jnp.zeros(ROWS, jnp.int32)


def advantages(**wrong):
    rollout = rollout_of(STEPS, ENVS, 0)._replace(**wrong)
    return returns.advantages(rollout, jnp.zeros(ENVS), 0.9, 0.8)


def episode_sums(**wrong):
    return rollouts.episode_sums(rollout_of(STEPS, ENVS, 0)._replace(**wrong))


def corrected(weight):
    return returns.advantages(rollout_of(STEPS, ENVS, 0), jnp.zeros(ENVS), 0.9, 0.8, weight)


def centred(weight):
    return baselines(jnp.zeros((2, ROWS)), weight, ALONE)


def ppo_loss(advantage=FLAT, target=FLAT, mean=ZERO):
    agent = learner(Endless())
    rollout = jax.tree.map(lambda leaf: leaf[0, :1].repeat(ROWS), rollout_of(STEPS, ENVS, 0))
    rollout = rollout._replace(obs=COLUMN)
    weights = agent.network.init(KEY, jnp.ones(1))
    return ppo.loss(agent, weights, rollout, advantage, target, mean, jnp.float32(1))


def pqn_loss(target):
    agent = test_pqn.learner(Endless())
    nothing = dict.fromkeys(rollouts.Rollout._fields)
    rollout = rollouts.Rollout(**(nothing | {"obs": COLUMN, "action": ACTION}))
    return pqn.loss(agent, agent.network.init(KEY, jnp.ones(1)), rollout, target)


def dqn_loss(worth):
    agent = test_dqn.learner(Endless())
    weights = agent.network.init(KEY, jnp.ones(1))
    return dqn.loss(agent, weights, test_dqn.some_batch(ROWS), worth)


def dqn_worth(reward):
    agent = test_dqn.learner(Endless())
    weights = agent.network.init(KEY, jnp.ones(1))
    batch = test_dqn.some_batch(ROWS)._replace(reward=reward)
    return dqn.td_target(agent, weights, weights, batch)


def alphazero_loss(target=FLAT, policy=TABLE):
    agent = test_alphazero.learner(SlidingTile(size=3))
    obs = jnp.zeros((ROWS, *agent.env.env.observation_space.shape), jnp.uint8)
    nothing = dict.fromkeys(rollouts.Rollout._fields)
    rollout = rollouts.Rollout(**(nothing | {"obs": obs, "policy": policy}))
    return alphazero.loss(agent, agent.network.init(KEY, obs[0]), rollout, target)


def stored(obs=COLUMN, reward=FLAT, action=ACTION):
    ends = jnp.zeros(ROWS, bool)
    step = Step(None, None, reward, ends, ends, {"final_obs": COLUMN})
    return replay_buffer.add(replay_buffer.empty(COLUMN, None, 9), obs, None, action, step)


def sampled(row):
    return replay_buffer.window(replay_buffer.empty(COLUMN, None, 9), row, ACTION, 3, 0.9)


def explored(mask):
    return q_network.explore(KEY, TABLE, ZERO, mask)


def running(mean):
    return Moments(ZERO, mean, mean).merged_with(jnp.zeros((4, ROWS)), ALONE)


def costs(actions):
    agent = registry.build(
        "davi", jaxenvs.make("Puzzle-Cube-2x2-v0"), davi.Settings(width=8, blocks=1)
    )
    _, boards = davi.walk(agent, KEY)
    boards = boards._replace(cost=boards.cost[:, :actions])
    return davi.targets(agent, agent.init(KEY).weights, (), boards)


ACCEPTED = [
    *(advantages, episode_sums, ppo_loss, alphazero_loss, stored),
    lambda: ppo_loss(mean=FLAT),  # each sample has its own mean of advantages
    lambda: corrected(jnp.ones((STEPS, ENVS))),
    lambda: centred(jnp.ones((2, ROWS))),
    lambda: pqn_loss(FLAT),
    lambda: dqn_loss(FLAT),
    lambda: dqn_worth(FLAT),
    lambda: sampled(ACTION),
    lambda: explored(jnp.ones((ROWS, 4), bool)),
    lambda: q_network.of_actions(TABLE, ACTION),
    lambda: running(jnp.zeros(4)),
    lambda: costs(6),
]
REFUSED = {
    "advantages, a reward for all environments": (
        lambda: advantages(reward=jnp.zeros((STEPS, 1))),
        r"reward.* \[steps, envs\]",
    ),
    "advantages, a value of no step": (
        lambda: advantages(truncation_value=jnp.zeros(ENVS)),
        "truncation_value",
    ),
    "sums of episodes": (lambda: episode_sums(returns=jnp.zeros((STEPS, 1))), "returns"),
    "V-trace's weights": (lambda: corrected(jnp.ones((STEPS, 1))), "value and weight"),
    "V-trace's baselines": (lambda: centred(jnp.ones((2, 1))), "weighted and weight"),
    "PPO's advantages": (lambda: ppo_loss(advantage=COLUMN), "advantage and target"),
    "PPO's targets": (lambda: ppo_loss(target=COLUMN), "advantage and target"),
    "PPO's means": (lambda: ppo_loss(mean=COLUMN), r"\(6, 1\)"),
    "PQN's targets": (lambda: pqn_loss(COLUMN), "value and target"),
    "DQN's targets": (lambda: dqn_loss(COLUMN), "value and target"),
    "DQN's rewards": (lambda: dqn_worth(COLUMN), "reward, discount"),
    "AlphaZero's targets": (lambda: alphazero_loss(target=COLUMN), "value and target"),
    "AlphaZero's policies": (lambda: alphazero_loss(policy=jnp.zeros((1, 4))), "the policy"),
    "a replay buffer's rewards": (lambda: stored(reward=ZERO), "one slot of each environment"),
    "a replay buffer's observations": (
        lambda: stored(obs=COLUMN.astype(jnp.int32)),
        "as the replay",
    ),
    "a replay buffer's actions": (lambda: stored(action=ACTION[None]), "one action of each"),
    "a replay buffer's windows": (lambda: sampled(ACTION[:1]), "env and first"),
    "exploration": (lambda: explored(jnp.ones(4, bool)), "values and mask"),
    "chosen values": (lambda: q_network.of_actions(TABLE, ACTION[:1]), "one action"),
    "running statistics": (lambda: running(jnp.zeros(1)), "a mean of each number"),
    "DAVI's costs": (lambda: costs(1), "valid, cost"),
}


def test_arrays_of_the_right_shapes_pass():
    for call in ACCEPTED:
        jax.eval_shape(call)


@pytest.mark.parametrize("name", REFUSED)
def test_arrays_that_would_broadcast_are_refused(name):
    call, sentence = REFUSED[name]
    with pytest.raises(AssertionError, match=sentence):
        jax.eval_shape(call)
