"""Tests that learners with a curriculum, and RL², count a decision and its forced steps as one.

The reference is `Napper`, see sleeping.py.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sleeping import ENVS, KEY, both, decided, played, references
from tiny import learner
from tiny_sleep import Sleeper, SleeperState

from jaxenvs.baselines.core import level_scores
from jaxenvs.baselines.core.forced import Forced
from jaxenvs.baselines.core.rollouts import Rollout
from jaxenvs.baselines.on_policy import plr, rl2
from jaxenvs.baselines.on_policy.task_memory import Belief
from jaxenvs.baselines.run import loop

ENDS = ("value", "terminated", "truncated", "returns", "lengths")


class Bedrooms(Sleeper):
    """Environment `Sleeper` with levels: the tick at which an episode begins."""

    def draw_level(self, key, params):
        """Draw the first tick."""
        return jax.random.randint(key, (), 0, 3, jnp.int32)

    def reset_state(self, key, level, params):
        """Return the initial state, awake, at the level's tick."""
        return SleeperState(time=jnp.int32(0), tick=level, asleep=jnp.bool_(False))

    def succeeded(self, step):
        """Return whether the player is awake after the last step."""
        return step.done & ~step.state.asleep


@pytest.mark.parametrize("kind", ["pvl", "l1", "maxmc"])
def test_scores_of_levels_equal_those_of_one_step_sleeps(kind):
    skipping, after, rollout, plain, *_ = both()
    _, advantage, _ = plr.ppo.targets(skipping, after, rollout)
    best = jnp.linspace(0.0, 3.0, ENVS)
    given = level_scores.episodes(rollout, jnp.zeros(ENVS, jnp.int32))
    found = level_scores.score(kind, rollout, advantage, given, best)
    _, reference = played(plain)
    names = ("value", "reward", "terminated", "truncated", "truncation_value")
    for env, count in enumerate(decided(rollout)):
        one = Rollout(**{name: getattr(reference, name)[:count, env, None] for name in ENDS})
        last = Rollout(**{name: getattr(reference, name)[:, env, None] for name in names})
        counts = np.array([count])
        of_env, its = references(plain, last, counts, names)
        assert len(of_env.value) == count
        given = level_scores.episodes(one, jnp.zeros(1, jnp.int32))
        expected = level_scores.score(kind, one, its[:, None], given, best[env, None])
        np.testing.assert_allclose(found[env], expected[0], rtol=2e-4, atol=1e-5)
    everything = rollout._replace(forced=())
    other = level_scores.score(kind, everything, advantage, given, best)
    assert np.abs(other - found).max() > 0.01


def test_an_episode_without_a_decision_does_not_count():
    here = jnp.bool_([[False], [True], [True]])
    ends = jnp.bool_([[True], [False], [True]])
    marks = Forced(here, here, here, here)
    made = Rollout(terminated=ends, truncated=jnp.zeros_like(ends), forced=marks)
    values = jnp.float32([[4.0], [7.0], [9.0]])
    np.testing.assert_allclose(level_scores.mean_over_episodes(made, values), [4.0])


def test_a_score_without_a_finished_episode_is_a_mean_over_decisions():
    here = jnp.bool_([[False, True], [True, True], [True, True]])
    going = jnp.zeros_like(here)
    marks = Forced(here, here, here, here)
    made = Rollout(terminated=going, truncated=going, forced=marks)
    values = jnp.arange(6, dtype=jnp.float32).reshape(3, 2) + 1.0
    np.testing.assert_allclose(level_scores.mean_over_episodes(made, values), [1.0, 0.0])


@pytest.mark.parametrize("memory", [0, pytest.param(8, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", ["plr", "sfl"])
def test_curricula_skip_forced_steps(name, memory):
    """The middle step of a rollout has a value loss in every state, other steps in decisions."""
    seen = []
    for skips in (True, False):
        agent = learner(Bedrooms(), name, memory=memory, skip_forced=skips)
        runners = loop.start(agent, KEY[None])
        for _ in range(2):
            runners, metrics = loop.run_chunk(agent, runners)
        assert ("decisions" in metrics) == skips
        seen.append(metrics.get("decisions"))
        for leaf in jax.tree.leaves(runners.weights):
            assert np.isfinite(leaf).all()
    assert 0.2 < seen[0] < 1.0


def test_the_middle_step_of_a_curriculum_has_a_value_loss():
    agent = learner(Bedrooms(), "plr", memory=0, skip_forced=True)
    middle = agent.settings.rollout_steps // 2
    runner = jax.tree.map(lambda leaf: leaf[0], loop.start(agent, KEY[None]))
    keys = jax.random.split(KEY, agent.env.num_envs)
    levels = jax.vmap(agent.env.env.env.draw_level, (0, None))(keys, None)

    def play(runner):
        return plr.curricula.play(agent, runner, KEY, levels)[1].rollout.forced

    forced = jax.jit(jax.vmap(play, axis_name="seeds"))(jax.tree.map(lambda x: x[None], runner))
    here, value = np.asarray(forced.here[0]), np.asarray(forced.value[0])
    assert here[middle].any()
    expected = ~here
    expected[middle] = True
    np.testing.assert_array_equal(value > 0, expected)


def test_predictions_of_the_task_learn_nothing_from_forced_steps():
    """Anything may be predicted at steps of weight 0, and the others count as without them."""
    weight = jnp.float32([[2.0, 0.0], [0.0, 2.0]])
    kinds = jax.random.normal(KEY, (2, 2, 5))
    cells = jax.random.normal(jax.random.fold_in(KEY, 1), (2, 2, 3, 7))
    hidden = jnp.int32(np.random.default_rng(0).integers(0, 5, (2, 2, 4)))
    counts = np.asarray(weight) > 0
    expected = rl2.task_loss(Belief(kinds[counts], cells[counts]), hidden[counts])
    found = rl2.task_loss(Belief(kinds, cells), hidden, weight)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert abs(rl2.task_loss(Belief(kinds, cells), hidden) - expected) > 1e-3
