"""Tests of the measures of episodes in a run's log, and of explained variance."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import FLAGS, Countdown, learner

from jaxenvs.baselines.core import rollouts
from jaxenvs.baselines.evaluation import episode_measures
from jaxenvs.baselines.on_policy import ppo
from jaxenvs.baselines.run import loop, train
from jaxenvs.baselines.run.progress import ProgressLine
from jaxenvs.baselines.storage.runs import Config, Run
from jaxenvs.core.wrappers import PreviousStep


class Measured(Countdown):
    """Environment `Countdown` that measures the time before the last step, and the drawn length."""

    measures = ("before", "drawn/length")

    def measure(self, before, step):
        """Return the time before the step, and the length of the episode."""
        return jnp.stack([before.time, step.state.length]).astype(jnp.float32)


@pytest.mark.parametrize("algorithm", ["ppo", "ppo-rnn"])
def test_sums_are_those_of_the_episodes_that_ended(algorithm):
    """Compare with a loop over the transitions of the same rollout."""
    agent = learner(Measured(), algorithm, rollout_steps=16, num_envs=8, chunk=1)
    runners = loop.start(agent, jax.random.split(jax.random.key(0), 2))

    @jax.jit
    @functools.partial(jax.vmap, axis_name="seeds")
    def replay(runner):
        runner, key, _ = rollouts.next_update(agent, runner)
        after, rollout = rollouts.collect(agent, runner, key, ppo.choose)
        return after.measured, rollout

    measured, rollout = replay(runners)
    _, metrics = loop.run_chunk(agent, jax.tree.map(jnp.copy, runners))
    done = np.asarray(rollout.terminated | rollout.truncated)
    lengths, rewards = np.asarray(rollout.lengths), np.asarray(rollout.reward)
    before = np.where(done, lengths - 1, 0).sum(axis=(1, 2))
    np.testing.assert_array_equal(measured[:, 0], before)
    np.testing.assert_array_equal(metrics["before_sum"][:, 0], before)
    # An episode that was not truncated has its drawn length as its last reward.
    ended = np.asarray(rollout.terminated)
    truncated = np.asarray(measured)[:, 1] - np.where(ended, rewards, 0).sum(axis=(1, 2))
    np.testing.assert_array_equal(np.asarray(measured)[:, 2], done.sum(axis=(1, 2)))
    count = np.asarray(rollout.truncated).sum(axis=(1, 2))
    assert ((truncated >= 7 * count) & (truncated <= 8 * count)).all()


def test_a_record_has_means_and_null_without_episodes():
    config = Config("X", {}, 0, 2, {"rollout_steps": 4}, "ppo")
    line = ProgressLine(config, 8, 1, 0)
    metrics = {"episodes": np.array([[2], [0]]), "return_sum": np.array([[3.0], [0.0]])}
    metrics |= {"length_sum": np.array([[8.0], [0.0]]), "drawn/length_sum": np.array([[9.0], [0]])}
    (record,) = line.update(metrics)
    assert record["drawn/length"] == [4.5, None] and record["return"] == [1.5, None]
    assert not any(name.endswith("_sum") for name in record)


def test_wrappers_forward_measures():
    env = PreviousStep(env=Measured())
    reset = env.reset(jax.random.key(0))
    step = env.step(jax.random.key(1), reset.state, jnp.int32(0))
    assert env.measures == Measured.measures
    np.testing.assert_array_equal(env.measure(reset.state, step)[0], 0)


def test_explained_variance_is_the_textbook_formula():
    agent = learner(Countdown(), "ppo")
    value, target = (jax.random.normal(jax.random.key(i), (16, 8)) for i in (0, 1))
    target = value + 0.3 * target
    explain = jax.jit(functools.partial(ppo.explained_variance, agent))
    expected = 1 - np.var(np.asarray(target - value)) / np.var(np.asarray(target))
    np.testing.assert_allclose(explain(value, target), expected, rtol=1e-5)
    np.testing.assert_allclose(explain(value, value), 1.0)
    np.testing.assert_allclose(explain(value, jnp.ones((16, 8))), 0.0)


def test_the_line_about_deaths_counts_episodes_of_the_last_tenth():
    early = {
        "episodes": [9, 9],
        "died": [1.0, 1.0],
        "died/drink": [1.0, 1.0],
        "died/by/troll": [0, 0],
    }
    late = {"episodes": [3, 1], "died": [1.0, 0.0], "died/drink": [2 / 3, 0.0]}
    late |= {"died/by/troll": [1 / 3, 0.0]}
    records = [early] * 9 + [late]
    assert episode_measures.deaths(records) == (
        "Deaths in 75% of the latest training episodes: drink at 0 67%, by troll 33%"
    )
    assert episode_measures.deaths([{**late, "died": [0.0, 0.0]}]) == ""
    assert episode_measures.deaths([{"episodes": [1], "return": [0.0]}]) == ""


@pytest.mark.full
def test_a_run_of_craft_logs_and_draws_its_achievements(tmp_path, capsys):
    out = tmp_path / "run"
    given = ["Craft-Classic-Ids-v0", *FLAGS, "--total-steps", "4096", "--log", "csv,tensorboard"]
    assert train.main([*given, "--param", "max_steps_in_episode=60", "--out", str(out)]) == 0
    records = Run.open(out).records()
    ended = [record for record in records if record["episodes"][0]]
    assert ended and set(records[0]) == set(records[-1])
    rates = [record["achieved/collect_wood"][0] for record in ended]
    assert all(0.0 <= rate <= 1.0 for rate in rates) and max(rates) > 0
    assert "explained_variance" in records[0]
    assert "achieved/collect_wood" in (out / "log.csv").read_text().splitlines()[0]
    assert (out / "achievements.png").stat().st_size > 10_000
