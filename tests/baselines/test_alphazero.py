"""Tests of Gumbel AlphaZero: masks, rewards and episode ends in the search, targets, runs."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from tiny import Clock, Countdown, Endless

import jaxenvs
from jaxenvs.adapters.mctx import Node
from jaxenvs.baselines.core import playing, rollouts
from jaxenvs.baselines.core.learner import Learner
from jaxenvs.baselines.model_based import alphazero
from jaxenvs.baselines.networks import policies
from jaxenvs.baselines.run import loop, train
from jaxenvs.baselines.storage import runs
from jaxenvs.core.masking import NEVER
from jaxenvs.puzzles import Minesweeper, SlidingTile

pytestmark = pytest.mark.full

KEY = jax.random.key(0)
MINES = Minesweeper(rows=4, columns=4, mines=4)
FLAGS = ["--set", "scramble=4", "--num-envs", "4", "--rollout-steps", "4", "--minibatches", "2"]
FLAGS += ["--hidden", "8", "--simulations", "4", "--eval-episodes", "4"]


def learner(env, **settings) -> Learner:
    """Return a small AlphaZero learner with PPO's network.

    AlphaZero's own network would predict values of 0 before training; PPO's does not.
    """
    agent = tiny.learner(env, "alphazero", **settings)
    return dataclasses.replace(agent, network=policies.ActorCritic.of(env, (8,), 2))


plan_for = jax.jit(alphazero.plan, static_argnums=0)
predict = jax.jit(rollouts.predict, static_argnums=0)


@pytest.fixture(scope="module")
def tiles():
    """Return a learner for the 8-puzzle, weights, observations and states of four boards."""
    agent = learner(SlidingTile(size=3, scramble=6))
    obs, world = agent.env.reset(jax.random.key(1))
    return agent, jax.jit(agent.network.init)(jax.random.key(0), obs[0]), obs, world.env


def masks(agent, states):
    """Return the mask of legal actions of each state."""
    return jax.jit(jax.vmap(agent.env.env.action_mask))(states)


def test_illegal_actions_are_never_planned(tiles):
    agent, weights, obs, state = tiles
    mask = np.asarray(masks(agent, state))
    assert not mask.all()
    plan = functools.partial(alphazero.plan, agent)
    plan = jax.jit(jax.vmap(plan, in_axes=(None, 0, None, None)))
    plans = plan(weights, jax.random.split(jax.random.key(2), 32), obs, state)
    assert np.take_along_axis(mask[None], np.asarray(plans.action)[..., None], axis=2).all()
    np.testing.assert_array_equal(np.asarray(plans.policy)[:, ~mask], 0.0)
    np.testing.assert_allclose(plans.policy.sum(axis=-1), 1.0, rtol=1e-5)
    node = Node(state, jnp.zeros(4, jnp.bool_))
    expand = jax.jit(alphazero.expand(agent))
    inner, after = expand(weights, jax.random.key(0), plans.action[0], node)
    mask = masks(agent, after.state)
    np.testing.assert_array_equal(inner.prior_logits == NEVER, ~mask)


def test_a_solution_within_the_search_is_taken(tiles):
    agent, weights, _, _ = tiles
    env = agent.env.env
    boards = [env.apply((), env.goal(()), jnp.int32(action)).board for action in (0, 3)]
    level = env.sample_level(jax.random.key(0))
    resets = [env.reset_to(jax.random.key(0), level.replace(board=board)) for board in boards]
    obs, state = jax.tree.map(lambda *leaves: jnp.stack(leaves), *resets)
    agent = learner(env, num_envs=2, value_scale=10.0)
    greedy = jax.jit(functools.partial(alphazero.plan, agent, gumbel_scale=0.0))
    plan = greedy(weights, jax.random.key(0), obs, state)
    # Each board is one move from the goal, so the plan must be the opposite move.
    np.testing.assert_array_equal(plan.action, [2, 1])
    assert (plan.policy.max(axis=1) > 0.9).all()


def test_before_the_first_reward_the_search_changes_no_policy():
    """As long as no reward has been received, the search returns the network's policy unchanged.

    All values are then noise, and a policy that follows noise would stop exploring.
    """
    # In this puzzle, boards are too far from the goal for 8 simulations to find a reward.
    env = SlidingTile(size=3)
    agent = learner(env, value_scale=1.0)

    @jax.jit
    def change(weights, key):
        """Return the largest difference between the search policy and the prior."""
        obs, world = agent.env.reset(key)
        mask = jax.vmap(env.action_mask)(world.env)
        prior = jax.nn.softmax(jnp.where(mask, rollouts.predict(agent, weights, obs)[0], -jnp.inf))
        return jnp.abs(alphazero.plan(agent, weights, key, obs, world.env).policy - prior).max()

    blank = jnp.zeros((3, 3), jnp.uint8)
    start = alphazero.network(env, (8,), 2)
    assert change(jax.jit(start.init)(KEY, blank), jax.random.key(2)) < 1e-5
    assert change(jax.jit(agent.network.init)(KEY, blank), jax.random.key(2)) > 0.1


def test_plans_with_hidden_state_need_clairvoyant():
    with pytest.raises(ValueError, match=r"Minesweeper.* hides .* or give --clairvoyant"):
        alphazero.check_sight(MINES, alphazero.Settings())
    alphazero.check_sight(MINES, alphazero.Settings(clairvoyant=True))


def test_clairvoyant_plans_meet_no_mine():
    """An untrained learner with `clairvoyant=True` opens no mine: its search sees the mines."""
    agent = learner(MINES, clairvoyant=True, simulations=64, considered=16)
    weights = jax.jit(agent.network.init)(KEY, jnp.zeros((4, 4), jnp.uint8))

    def search(key, obs, state):
        return alphazero.plan(agent, weights, key, obs, state, gumbel_scale=0.0).action

    play = jax.jit(playing.first_episodes, static_argnums=(0, 1, 3))
    assert play(MINES, search, KEY, 16).succeeded.all()


def test_the_error_names_a_full_observation():
    with pytest.raises(ValueError, match="show it with --set obs=full, train with"):
        alphazero.check_sight(jaxenvs.make("Grid-DoorKey-5x5-v0"), alphazero.Settings())
    alphazero.check_sight(jaxenvs.make("Grid-DoorKey-5x5-v0", obs="full"), alphazero.Settings())


def test_no_reward_after_a_terminal_state(tiles):
    agent, weights, _, _ = tiles
    env = agent.env.env
    level = env.sample_level(jax.random.key(0))
    level = level.replace(board=env.apply((), env.goal(()), jnp.int32(0)).board)
    state = jax.tree.map(lambda x: x[None], env.reset_to(jax.random.key(0), level).state)
    node = Node(state, jnp.zeros(1, jnp.bool_))
    expand = jax.jit(alphazero.expand(agent))
    solved, node = expand(weights, jax.random.key(1), jnp.array([2], jnp.int32), node)
    assert (solved.reward, solved.discount, solved.value) == (1.0, 0.0, 0.0)
    assert bool(node.ended[0])
    later, after = expand(weights, jax.random.key(2), jnp.array([0], jnp.int32), node)
    assert (later.reward, later.discount, later.value) == (0.0, 0.0, 0.0)
    for a, b in zip(*map(jax.tree.leaves, (node, after)), strict=True):
        np.testing.assert_array_equal(a, b)


def expanded(agent, weights, node):
    """Return the result of `alphazero.expand` for action 0 in the search node `node`."""
    action = jnp.zeros(1, jnp.int32)
    return alphazero.expand(agent)(weights, jax.random.key(0), action, node)


def test_a_reward_counts_once():
    agent = learner(Countdown(), num_envs=1, clairvoyant=True)
    obs, world = agent.env.reset(jax.random.key(0))
    weights = jax.jit(agent.network.init)(jax.random.key(0), obs[0])
    # State at the end of an episode of length 3. A step from it earns the reward 3 again, unless
    # the node is marked as ended.
    state = jax.tree.map(lambda _: jnp.array([3], jnp.int32), world.env)
    for ended, reward in ((False, 3.0), (True, 0.0)):
        node = Node(state, jnp.array([ended]))
        found, _ = expanded(agent, weights, node)
        assert found.reward == reward


def test_a_truncation_is_not_terminal():
    agent = learner(Clock(), num_envs=1, gamma=0.5)
    obs, world = agent.env.reset(jax.random.key(0))
    weights = jax.jit(agent.network.init)(jax.random.key(0), obs[0])
    last = jax.tree.map(
        lambda _: jnp.array([4], jnp.int32), world.env
    )  # time 4 of 5: the next step truncates the episode
    node = Node(last, jnp.zeros(1, jnp.bool_))
    found, after = expanded(agent, weights, node)
    value = predict(agent, weights, jnp.full((1, 1), 5.0))[1]
    assert (found.reward, found.discount, bool(after.ended[0])) == (1.0, 0.5, False)
    np.testing.assert_allclose(found.value, value, rtol=1e-6)
    assert abs(float(value[0])) > 1e-3


def test_simulations_have_separate_keys():
    """Each board and each simulation has a separate random key for the environment's step."""
    seen = []

    class Watched(Endless):
        def step_state(self, key, state, action, params):
            jax.debug.callback(lambda data: seen.append(data.tolist()), jax.random.key_data(key))
            return super().step_state(key, state, action, params)

    agent = learner(Watched(), num_envs=2)
    obs, world = agent.env.reset(jax.random.key(0))
    weights = jax.jit(agent.network.init)(jax.random.key(0), obs[0])
    plan_for(agent, weights, jax.random.key(3), obs, world.env)
    jax.effects_barrier()
    assert len(seen) == len(set(map(tuple, seen))) == 2 * agent.settings.simulations


def test_targets_are_lambda_returns_of_search_values():
    gamma, gae_lambda = 0.9, 0.8
    agent = learner(
        Countdown(), gamma=gamma, gae_lambda=gae_lambda, rollout_steps=16, clairvoyant=True
    )
    runners = loop.start(agent, jax.random.split(jax.random.key(0), 1))
    keys = jax.random.split(jax.random.key(1), 1)
    made = tiny.collected(agent, runners, keys, alphazero.choose)
    after, rollout = jax.tree.map(lambda leaf: leaf[0], made)
    got = np.asarray(jax.jit(rollouts.lambda_returns, static_argnums=0)(agent, after, rollout))
    bootstrap = np.asarray(predict(agent, after.weights, after.obs)[1])
    rollout = jax.device_get(rollout)
    assert rollout.terminated.any() and rollout.truncated.any()
    np.testing.assert_array_equal(rollout.truncation_value != 0, rollout.truncated)
    for env in range(4):
        later = value = bootstrap[env]
        for t in reversed(range(16)):
            if rollout.truncated[t, env]:
                later = value = rollout.truncation_value[t, env]
            if rollout.terminated[t, env]:
                later = value = 0.0
            mixed = (1 - gae_lambda) * value + gae_lambda * later
            later, value = rollout.reward[t, env] + gamma * mixed, rollout.value[t, env]
            np.testing.assert_allclose(got[t, env], later, rtol=1e-4, atol=1e-5)


def test_the_loss_is_minimal_at_the_search_policy(tiles):
    agent, weights, obs, state = tiles
    logits, value = predict(agent, weights, obs)
    mask = masks(agent, state)
    same = jax.nn.softmax(jnp.where(mask, logits, -jnp.inf))
    nothing = dict.fromkeys(rollouts.Rollout._fields, None)
    rollout = rollouts.Rollout(**{**nothing, "obs": obs, "mask": mask, "policy": same})
    loss = jax.jit(jax.grad(lambda w, r: alphazero.loss(agent, w, r, value)[0]))
    at_own = jax.tree.leaves(loss(weights, rollout))
    other = jax.nn.softmax(jnp.where(mask, logits + jnp.arange(4.0), -jnp.inf))
    elsewhere = jax.tree.leaves(loss(weights, rollout._replace(policy=other)))
    assert max(float(jnp.abs(leaf).max()) for leaf in at_own) < 1e-6
    assert max(float(jnp.abs(leaf).max()) for leaf in elsewhere) > 1e-2


@pytest.mark.slow
def test_a_run_is_resumed_and_has_a_policy(tmp_path, capsys):
    out = tmp_path / "run"
    asked = ["Puzzle-SlidingTile-3x3-v0", "--algo", "alphazero", *FLAGS]
    assert train.main([*asked, "--total-steps", "32", "--out", str(out)]) == 0
    more = ["--total-steps", "48", "--learning-rate", "1e-3", "--eval-episodes", "4"]
    assert train.main(["--resume", str(out), *more]) == 0
    run = runs.Run.open(out)
    assert run.config.algorithm == "alphazero"
    assert [row["steps"] for row in run.records()] == [16, 32, 48]
    result = json.loads((out / "eval.json").read_text())
    assert result["episodes"] == result["without_search"]["episodes"] == 4
    policy = runs.load_policy(out)
    obs, state = policy.env.reset(jax.random.key(0))
    logits, _ = policy.apply(obs, policy.env.action_mask(state))
    assert logits.shape == (4,)

    capsys.readouterr()
    assert train.main(["--algo", "ppo", "--resume", str(out)]) == 2
    assert "was trained by alphazero, not by ppo" in capsys.readouterr().err
    assert train.main(["--algo=guessing", "Grid-v0"]) == 2
    known = ", ".join(train.ALGORITHMS)
    assert f"--algo guessing: choose one of {known}" in capsys.readouterr().err
    assert train.chosen(["Grid-v0", "--seed", "3"]) == ("ppo", ["Grid-v0", "--seed", "3"])


def test_what_cannot_work_is_refused(tmp_path, capsys):
    asked = ["Puzzle-SlidingTile-3x3-v0", "--algo", "alphazero", "--simulations", "0"]
    assert train.main([*asked, "--out", str(tmp_path / "run")]) == 2
    assert "simulations=0 must be at least 1" in capsys.readouterr().err
    assert jaxenvs.spec("Puzzle-SlidingTile-3x3-v0")
