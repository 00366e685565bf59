"""Tests of regret: the optimal returns of the evaluated levels minus the policy's returns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs import levels, wrappers
from jaxenvs.baselines.core.playing import Episodes, first_episodes, random_episodes
from jaxenvs.baselines.evaluation import regret

COUNT = 6


@pytest.fixture(scope="module")
def env():
    return jaxenvs.make("Grid-Empty-Random-5x5-v0", max_steps_in_episode=np.int32(40))


@pytest.mark.full
def test_shortest_plans_have_no_regret_and_random_play_has_some(env):
    key = jax.random.key(3)
    best = regret.optimum(env, key, COUNT)
    states = regret._first(env, key, COUNT)
    plans = [found.plan for found in levels.solve(env, states)]
    table = jnp.asarray([[*plan, *[6] * (40 - len(plan))] for plan in plans])

    def act(key, obs, state):
        return table[jnp.arange(COUNT), state.time]

    played = first_episodes(env, act, key, COUNT)
    found = regret.figures(best, played)
    assert found["regret"] == 0.0 == found["regret_error"] and found["unproven"] == 0
    assert found["optimal_return"] == pytest.approx(float(played.returns.mean()), abs=1e-5)
    found = regret.figures(best, random_episodes(env, key, COUNT))
    assert found["regret"] > 0.1 and len(set(map(len, plans))) > 1


def test_levels_without_a_proof_give_a_bound():
    returns = jnp.asarray([0.5, 0.25])
    played = Episodes(returns, jnp.asarray([3, 3]), jnp.asarray([True, True]))
    best = regret.Optimum(np.array([0.75, 0.5]), np.array([True, False]))
    found = regret.figures(best, played)
    assert found["regret"] == 0.25 and found["unproven"] == 1
    assert regret.words(found) == (
        "optimum at most 0.625, regret against full information at most 0.250 +- 0.000 "
        "(1 episode unproven)"
    )
    with pytest.raises(ValueError, match="a wrapper changes the rewards"):
        regret.figures(best._replace(returns=np.array([0.4, 0.5])), played)


@pytest.mark.parametrize(
    "wrap", [wrappers.NormalizeReward, lambda env: wrappers.ClipReward(env, 0)]
)
def test_wrappers_that_change_rewards_are_refused(env, wrap):
    with pytest.raises(ValueError, match=r"Reward changes the rewards.*without this wrapper"):
        regret.optimum(wrappers.LogWrapper(wrap(env)), jax.random.key(0), 2)


def test_equal_levels_are_solved_once():
    state = {"grid": np.array([[1], [2], [1], [3]]), "agent": np.array([0, 0, 0, 0])}
    places, each = regret._different(state)
    assert places.tolist() == [0, 1, 3] and each.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize(
    ("id", "words"),
    [
        ("Classic-CartPole-v0", "has no exact solver"),
        ("XLand-R1-9x9-v0", "XLand has plans only from the start of a level"),
        ("Grid-Playground-v0", "solve: Grid-Playground-v0 has no mission"),
    ],
)
def test_an_environment_without_an_optimum_is_explained(id, words):
    with pytest.raises(ValueError, match=words):
        regret.optimum(jaxenvs.make(id), jax.random.key(0), 2)
