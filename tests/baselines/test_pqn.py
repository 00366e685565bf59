"""Tests of PQN: targets, schedules, network, resuming a run."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from tiny import Clock, Countdown, Endless, collected

import jaxenvs
from jaxenvs.baselines.core import minibatches, rollouts
from jaxenvs.baselines.core.playing import first_episodes
from jaxenvs.baselines.networks import q_network
from jaxenvs.baselines.on_policy import pqn, pqn_rnn
from jaxenvs.baselines.run import loop, train
from jaxenvs.baselines.storage import runs

pytestmark = pytest.mark.full

TINY = ["--num-envs", "8", "--rollout-steps", "8", "--minibatches", "2", "--hidden", "8"]
TINY += ["--embed", "2", "--eval-episodes", "4", "--checkpoint-every", "2", "--seeds", "2"]


learner = functools.partial(tiny.learner, algorithm="pqn")
values_of = jax.jit(rollouts.predict, static_argnums=0)
lambda_returns = jax.jit(rollouts.lambda_returns, static_argnums=0)


def first_rollout(agent):
    """Return the runner (training state) of one seed after its first rollout, and the rollout."""
    runners = loop.start(agent, jax.random.split(jax.random.key(0), 1))
    explore = functools.partial(pqn.choose, epsilon=jnp.float32(1.0))
    made = collected(agent, runners, jax.random.split(jax.random.key(1), 1), explore)
    return jax.tree.map(lambda leaf: leaf[0], made)


class Lever(Endless):
    """Environment: action 1 has reward 1 and continues; action 0 ends the episode, reward 0."""

    def step_state(self, key, state, action, params):
        """Give reward 1 for action 1; end the episode after action 0."""
        after = super().step_state(key, state, action, params)
        return after._replace(reward=action.astype(jnp.float32), terminated=action == 0)


def test_targets_are_lambda_returns():
    gamma, gae_lambda = 0.9, 0.8
    agent = learner(Countdown(), gamma=gamma, gae_lambda=gae_lambda)
    after, rollout = first_rollout(agent)
    got = np.asarray(lambda_returns(agent, after, rollout))
    following = jnp.concatenate([rollout.obs[1:], after.obs[None]])
    best = [np.asarray(values_of(agent, after.weights, obs)).max(axis=-1) for obs in following]
    rollout = jax.device_get(rollout)
    assert rollout.terminated.any() and rollout.truncated.any()
    for env in range(4):
        later = best[-1][env]
        for t in reversed(range(16)):
            value = best[t][env]
            # All observations of Countdown are equal, so the final observation has the same value
            # as any other observation.
            if rollout.truncated[t, env]:
                later = value = rollout.truncation_value[t, env]
                assert value == pytest.approx(best[0][env], rel=1e-5)
            if rollout.terminated[t, env]:
                later = value = 0.0
            mixed = (1 - gae_lambda) * value + gae_lambda * later
            later = rollout.reward[t, env] + gamma * mixed
            np.testing.assert_allclose(got[t, env], later, rtol=1e-4, atol=1e-5)


def test_a_truncated_episode_is_bootstrapped_with_the_best_next_value():
    agent = learner(Clock(), rollout_steps=6)
    after, rollout = first_rollout(agent)
    # The final observation is 5, although the next episode begins with observation 0.
    best = values_of(agent, after.weights, jnp.full((1, 1), 5.0)).max()
    expected = np.where(np.arange(6) == 4, best, 0.0)
    np.testing.assert_allclose(rollout.truncation_value, np.tile(expected, (4, 1)).T, rtol=1e-5)
    assert abs(float(best)) > 1e-3


def test_the_loss_has_a_gradient_by_the_taken_action_only():
    agent = learner(Endless())
    weights = jax.jit(agent.network.init)(jax.random.key(0), jnp.ones(1))
    obs, action = jnp.ones((6, 1)), jnp.zeros(6, jnp.int32)
    nothing = dict.fromkeys(rollouts.Rollout._fields, None)
    rollout = rollouts.Rollout(**{**nothing, "obs": obs, "action": action})
    values = values_of(agent, weights, obs)
    minimised = functools.partial(pqn.loss, agent)
    loss, parts = jax.jit(minimised)(weights, rollout, values[:, 0] + 2.0)
    np.testing.assert_allclose(loss, 0.5 * 2.0**2, rtol=1e-5)
    np.testing.assert_allclose(parts["q"], values[0, 0], rtol=1e-5)
    slope = jax.jit(jax.grad(lambda w: minimised(w, rollout, values[:, 0] + 2.0)[0]))
    gradient = slope(weights)
    last = gradient["params"]["Dense_1"]["bias"]
    np.testing.assert_allclose(last, [-2.0, 0.0], rtol=1e-5)


def test_unrolled_values_equal_those_of_acting():
    """Unroll the network over a rollout: the values must equal those stored while acting.

    The rollout begins within episodes and continues after their ends.
    """
    agent = tiny.learner(Countdown(), "pqn-rnn", rollout_steps=7)
    explore = functools.partial(pqn.choose, epsilon=jnp.float32(1.0))
    keys = jax.random.split(jax.random.key(0), 3)
    before, _ = collected(agent, loop.start(agent, keys[:1]), keys[1:2], explore)
    made = collected(agent, before, keys[2:], explore)
    after, rollout = jax.tree.map(lambda leaf: leaf[0], made)
    assert np.asarray(rollout.terminated).any() and np.asarray(rollout.truncated).any()
    assert (np.asarray(before.memory) != 0).any()
    rows = minibatches.as_sequences(rollout._replace(memory=before.memory))
    values = jax.jit(pqn_rnn.unroll, static_argnums=0)(agent, after.weights, rows)
    assert values.shape == (8, 7, 2)
    np.testing.assert_allclose(values.max(axis=-1), rollout.value.T, rtol=0, atol=1e-6)
    forgotten = rows._replace(memory=jnp.zeros_like(rows.memory))
    others = jax.jit(pqn_rnn.unroll, static_argnums=0)(agent, after.weights, forgotten)
    done = np.asarray(rows.terminated | rows.truncated)
    ended = np.cumsum(done, axis=1) - done  # number of episode ends before each step
    same = (np.asarray(values) == np.asarray(others)).all(axis=-1)
    assert same[ended > 0].all() and not same[:, 0].all()
    np.testing.assert_array_equal((np.asarray(after.memory) == 0).all(axis=-1), done[:, -1])


def test_epsilon_falls_by_updates_over_its_share_of_the_run():
    agent = learner(Endless(), total_steps=64 * 8, epochs=2, epsilon_end=0.2)
    assert agent.settings.updates == 8
    runners, seen = loop.start(agent, jax.random.split(jax.random.key(0), 1)), []
    for _ in range(6):
        runners, metrics = loop.run_chunk(agent, runners)
        seen.append(float(metrics["epsilon"][0, 0]))
    np.testing.assert_allclose(seen, [1.0, 0.8, 0.6, 0.4, 0.2, 0.2], rtol=1e-5)


def test_epsilon_is_the_share_of_random_actions():
    values = jnp.tile(jnp.array([0.0, 3.0, 1.0, 2.0]), (4000, 1))
    explore = jax.jit(q_network.explore)
    for epsilon in (0.0, 0.4, 1.0):
        actions = explore(jax.random.key(0), values, jnp.float32(epsilon), None)
        share = np.bincount(actions, minlength=4) / 4000
        expected = epsilon / 4 + (1 - epsilon) * np.array([0, 1, 0, 0])
        np.testing.assert_allclose(share, expected, atol=0.03)


def test_radam_clips_and_its_rate_falls():
    agent = learner(Endless(), total_steps=64 * 4, epochs=1, learning_rate=0.3, max_grad_norm=0.5)
    weights = {"w": jnp.zeros(9)}
    optimiser = minibatches.optimiser(agent.settings)
    state = optimiser.init(weights)
    with jax.numpy_dtype_promotion("standard"):
        change, state = jax.jit(optimiser.update)({"w": jnp.full(9, 4.0)}, state, weights)
        moments = state[1][0].mu["w"]
        # In its first steps, RAdam cannot estimate the gradient's variance yet, so each step is the
        # learning rate times the mean gradient. Adam's first steps differ from this.
        np.testing.assert_allclose(change["w"], -0.3 * 0.5 / 3, rtol=1e-4)
        np.testing.assert_allclose(jnp.linalg.norm(moments), 0.5 * (1 - 0.9), rtol=1e-5)
        rate = minibatches.learning_rate(agent.settings)
        rates = jax.jit(jax.vmap(rate))(np.arange(0, 10, 2, dtype=np.int32))
    np.testing.assert_allclose(rates, [0.3, 0.225, 0.15, 0.075, 0.0], atol=1e-6)


def test_advantages_of_dueling_heads_have_no_mean():
    """Over the actions, the advantages of a dueling network have mean 0."""
    network = q_network.QNetwork.of(Endless(), (8,), 0, dueling=True)
    obs = jnp.ones(1)
    weights = jax.jit(network.init)(jax.random.key(0), obs)
    value = weights["params"]["Dense_2"]["bias"]
    assert value.shape == (1,)
    before = jax.jit(network.apply)(weights, obs)
    raised = {**weights["params"], "Dense_2": {**weights["params"]["Dense_2"], "bias": value + 2.0}}
    np.testing.assert_allclose(
        jax.jit(network.apply)({"params": raised}, obs), before + 2.0, rtol=1e-5
    )
    both = weights["params"]["Dense_1"]
    shifted = {**weights["params"], "Dense_1": {**both, "bias": both["bias"] + 7.0}}
    np.testing.assert_allclose(jax.jit(network.apply)({"params": shifted}, obs), before, atol=1e-5)


def test_every_layer_is_normalised():
    network = q_network.QNetwork.of(Endless(), (8, 8), 0)
    weights = jax.jit(network.init)(jax.random.key(0), jnp.ones(1))["params"]
    assert {"LayerNorm_0", "LayerNorm_1"} <= set(weights)


@pytest.mark.parametrize("id", ["Grid-Fetch-5x5-N2-v0", "Craft-Classic-Ids-v0"])
def test_a_network_for_missions_and_for_compact_observations(id):
    env = jaxenvs.make(id)
    network = q_network.QNetwork.of(env, (8,), 4)
    sample = jax.eval_shape(env.observation_space.sample, jax.random.key(0))
    weights = jax.eval_shape(network.init, jax.random.key(0), sample)
    assert jax.eval_shape(network.apply, weights, sample).shape == (env.action_space.n,)


def test_it_learns_the_better_lever_and_bootstraps_at_the_time_limit():
    """PQN learns to pull the lever that pays 1 per step, whose value is 1 / (1 - 0.8) = 5.

    Without bootstrapping at the time limit of five steps, the value would be at most 3.4.
    """
    agent = learner(
        Lever(), num_envs=16, gamma=0.8, learning_rate=1e-2, total_steps=20_480, chunk=40
    )
    runners = loop.start(agent, jax.random.split(jax.random.key(0), 1))
    for _ in range(2):
        runners, _ = loop.run_chunk(agent, runners)
    weights = jax.tree.map(lambda leaf: leaf[0], runners.weights)
    values = values_of(agent, weights, jnp.ones((1, 1)))[0]
    np.testing.assert_allclose(values, [0.0, 5.0], atol=0.3)

    _, logits, value = jax.jit(agent.network.think)(weights, (), jnp.ones(1), None)
    np.testing.assert_allclose(value, values.max(), rtol=1e-6)
    np.testing.assert_allclose(jax.nn.softmax(logits), [0.01, 0.99], atol=1e-5)

    def act(key, obs, state):
        logits = jax.vmap(lambda obs: agent.network.think(weights, (), obs, None)[1])(obs)
        return jax.random.categorical(key, logits).astype(jnp.int32)

    episodes = first_episodes(Lever(), act, jax.random.key(1), 64)
    assert episodes.returns.mean() > 4.5


@pytest.mark.slow
def test_a_resumed_run_is_bit_identical_and_has_a_policy(tmp_path, capsys):
    flags = ["Grid-Empty-Random-5x5-v0", "--algo", "pqn", *TINY, "--total-steps", str(64 * 4)]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert train.main([*flags, "--out", str(whole)]) == 0
    assert train.main([*flags, "--out", str(parts)]) == 0
    newest = runs.Run.open(parts).checkpoints / "00000004"
    newest.rename(tmp_path / "dropped")
    assert train.main(["--resume", str(parts), "--eval-episodes", "4"]) == 0
    assert "pqn" in runs.Run.open(parts).config.algorithm
    first, second = (runs.Run.open(path) for path in (whole, parts))
    for a, b in zip(first.records(), second.records(), strict=True):
        different = {name for name in a if a[name] != b[name]}
        assert different <= {"seconds", "steps_per_second"}
        assert {"q_loss", "q", "epsilon"} <= set(a)
    assert (whole / "eval.json").read_text() == (parts / "eval.json").read_text()
    policy = runs.load_policy(whole, seed=1)
    logits, value = jax.jit(policy.apply)(policy.env.reset(jax.random.key(0)).obs)
    assert logits.shape == (7,) and value.shape == ()
    np.testing.assert_allclose(jax.nn.softmax(logits).max(), 0.98 + 0.02 / 7, rtol=1e-5)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"epsilon_end": 0.5, "epsilon_start": 0.4}, "give 1 >= start >= end >= 0"),
        ({"epsilon_start": 1.5}, "epsilon_start=1.5 must be at most 1"),
        ({"epsilon_share": 0.0}, "epsilon_share=0.0 must be above 0 and at most 1; it is"),
        ({"epochs": 0}, "epochs=0 must be at least 1"),
        ({"minibatches": 7}, "choose a divisor of 2048"),
    ],
)
def test_settings_that_cannot_work_say_why(wrong, words):
    with pytest.raises(ValueError, match=words):
        pqn.Settings(**wrong).check()
