"""Tests of the measures of episodes in a run's log, and of explained variance."""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import (
    FLAGS,
    Countdown,
    Endless,
    Timed,
    TimedCountdown,
    TimedPush,
    collected,
    learner,
)

import jaxenvs
from jaxenvs.baselines.core import rollouts
from jaxenvs.baselines.evaluation import episode_measures
from jaxenvs.baselines.networks import policies
from jaxenvs.baselines.on_policy import ppo
from jaxenvs.baselines.registry import ALGORITHMS
from jaxenvs.baselines.run import loop, train
from jaxenvs.baselines.run.progress import ProgressLine
from jaxenvs.baselines.storage.runs import Config, Run
from jaxenvs.core.spaces import Discrete
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


# Learners that learn from demonstrations or solve puzzles, without steps of environments.
STEPLESS = ("bc", "iql", "davi", "last-move", "world")
# Learners that cannot learn in these environments. They use `rollouts.collect`, or run on Ray.
OTHERS = ("dyna", "rl2", "alphazero", "dagger", "ppo-ray", "apex")


def of_time(algorithm: str):
    """Return a small learner in an environment that measures the time of its last step."""
    env = TimedCountdown() if Discrete in ALGORITHMS[algorithm].actions else TimedPush()
    return learner(env, algorithm, chunk=2)


@pytest.mark.full
@pytest.mark.parametrize("algorithm", [n for n in ALGORITHMS if n not in (*STEPLESS, *OTHERS)])
def test_every_learner_that_steps_environments_sums_their_measures(algorithm):
    """Trace an update, but compile nothing."""
    agent = of_time(algorithm)
    runners = jax.eval_shape(lambda keys: loop.start(agent, keys), jax.random.key(0)[None])
    _, metrics = jax.eval_shape(lambda runners: loop.run_chunk(agent, runners), runners)
    assert {"before_sum", "after_sum"} <= set(metrics)


@pytest.mark.parametrize(
    "algorithm",
    ["dqn", "sac", *(pytest.param(name, marks=pytest.mark.full) for name in ("muzero", "r2d2"))],
)
def test_learners_with_a_replay_buffer_measure_states_before_the_reset(algorithm):
    """After the last step, the time is the episode's length; after the reset it would be 0."""
    agent = of_time(algorithm)
    runners = loop.start(agent, jax.random.key(0)[None])
    metrics = jax.device_get(loop.run_chunk(agent, runners)[1])
    assert metrics["episodes"].sum() > 4
    np.testing.assert_array_equal(metrics["after_sum"], metrics["length_sum"])
    np.testing.assert_array_equal(
        metrics["before_sum"], metrics["length_sum"] - metrics["episodes"]
    )


@pytest.mark.full
def test_actors_on_ray_send_sums_of_measures(monkeypatch):
    """The sums of all actors are added; the description of a fragment contains them."""
    training = pytest.importorskip("jaxenvs.baselines.ray.training")
    from jaxenvs.baselines.ray import actors, cluster

    monkeypatch.setattr(actors, "use_one_thread", lambda: None)
    monkeypatch.setattr(jaxenvs, "make", lambda id, **fields: TimedCountdown())
    network = policies.ActorCritic.of(TimedCountdown(), (8,), 0)
    weights = jax.device_get(jax.jit(network.init)(jax.random.key(0), jnp.ones(1)))
    weights = jax.tree.map(lambda leaf: leaf[None], weights)
    actor = actors.Actor("Timed-v0", {}, actors.Sampling(network, 4, 20, None), seed=0)
    about, (rollout, _) = actor.sample(weights, (1, 0))
    done = rollout["terminated"] | rollout["truncated"]
    lengths = rollout["lengths"][done].sum()
    np.testing.assert_array_equal(about["measured"]["after_sum"], [lengths])
    whole = training.Training(training.Parts(actors.Actor, lambda *_: None, lambda *_: None))
    whole._pool = types.SimpleNamespace(lost=0)
    metrics = whole._exchanged([cluster.Made(slot, about, None) for slot in range(2)], 1)
    np.testing.assert_array_equal(metrics["before_sum"], [2 * (lengths - done.sum())])


class TimedEndless(Timed, Endless):
    """Environment `Endless`, whose episodes all end at time 5, that measures its episodes."""


def test_measures_are_means_over_all_episodes_although_restarted_ones_are_not_counted():
    agent = learner(TimedEndless(), chunk=4, restart_share=0.5)
    runners = loop.start(agent, jax.random.key(0)[None])
    metrics = jax.device_get(loop.run_chunk(agent, runners)[1])
    assert (metrics["restarts"] > 0).any()
    np.testing.assert_allclose(metrics["after_sum"], 5 * metrics["episodes"], rtol=1e-5)


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_measures_do_not_change_the_training_result(algorithm):
    """Weights and environments are bit-identical to those of a run without measures."""
    found = []
    for env in (Countdown(), TimedCountdown()):
        agent = learner(env, algorithm, chunk=3)
        after, _ = loop.run_chunk(agent, loop.start(agent, jax.random.key(0)[None]))
        found.append(jax.device_get((after.weights, after.world, after.key)))
    jax.tree.map(np.testing.assert_array_equal, *found)


class Kinds(Countdown):
    """Environment `Countdown` with short and long levels; levels of 4 to 6 steps can be solved."""

    level_kinds = ("short", "long")

    def level_kind(self, state):
        """Return 1 for levels of more than 4 steps."""
        return (state.length > 4).astype(jnp.int32)


def test_success_is_counted_by_kind_of_level():
    """Compare with a loop over the transitions of the same rollout.

    A terminated episode of Countdown shows its length. Levels of 7 and 8 steps are truncated.
    """
    agent = learner(Kinds(), "ppo", rollout_steps=16, num_envs=8, chunk=1)
    runners = loop.start(agent, jax.random.split(jax.random.key(0), 2))
    after, rollout = collected(agent, runners, jax.random.split(jax.random.key(1), 2))
    rollout = jax.device_get(rollout)
    for seed in range(2):
        found = jax.device_get(agent.measured_sums(after.measured[seed]))
        done = (rollout.terminated | rollout.truncated)[seed]
        lengths = rollout.lengths[seed][done]
        terminated = rollout.terminated[seed][done]
        is_long = ~terminated | (lengths > 4)
        solved = terminated & (lengths > 3)
        assert found["episodes/short"] == (~is_long).sum() > 0
        assert found["episodes/long"] == is_long.sum() > 0
        assert found["success/short_sum"] == (solved & ~is_long).sum()
        assert found["success/long_sum"] == (solved & is_long).sum()


def test_success_by_kind_is_divided_by_the_episodes_of_the_kind():
    config = Config("X", {}, 0, 2, {"rollout_steps": 4}, "ppo")
    metrics = {name: np.array([[4], [9]]) for name in ("episodes", "return_sum", "length_sum")}
    metrics |= {"success/far_sum": np.array([[1.0], [0.0]]), "episodes/far": np.array([[2], [0]])}
    (record,) = ProgressLine(config, 8, 1, 0).update(metrics)
    assert record["success/far"] == [0.5, None] and record["episodes/far"] == [2, 0]
    metrics = {name.replace("far", "dim_sum"): sums for name, sums in metrics.items()}
    (summed,) = ProgressLine(config, 8, 1, 0).update(metrics)
    assert summed["success/dim_sum"] == [0.5, None] and summed["episodes/dim_sum"] == [2, 0]
    # Means over updates weight each by its episodes of the kind.
    other = {**record, "success/far": [0.0, 1.0], "episodes/far": [5, 1]}
    assert episode_measures.means([record, other], ["success/far"]) == {"success/far": 2 / 8}


def test_a_record_has_means_and_null_without_episodes():
    config = Config("X", {}, 0, 2, {"rollout_steps": 4}, "ppo")
    line = ProgressLine(config, 8, 1, 0)
    metrics = {"episodes": np.array([[2], [0]]), "return_sum": np.array([[3.0], [0.0]])}
    metrics |= {"length_sum": np.array([[8.0], [0.0]]), "drawn/length_sum": np.array([[9.0], [0]])}
    (record,) = line.update(metrics)
    assert record["drawn/length"] == [4.5, None] and record["return"] == [1.5, None]
    assert not any(name.endswith("_sum") for name in record)


def test_wrappers_forward_measures_and_kinds():
    env = PreviousStep(env=Kinds())
    state = env.reset_to(jax.random.key(0), jnp.int32(5)).state
    assert env.level_kinds == Kinds.level_kinds and int(env.level_kind(state)) == 1
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
