"""Tests of evaluation: exactly N finished episodes, the first one of each of N environments."""

import jax
import jax.numpy as jnp
import numpy as np
from tiny import Countdown, Endless

import jaxenvs
from jaxenvs import Step, make_vec
from jaxenvs.baselines.core import episodes as evaluation
from jaxenvs.baselines.core import playing
from jaxenvs.core.env import Transition
from jaxenvs.core.parts.learner import defines_success


def test_exactly_the_first_episode_of_each_environment():
    count, key = 2000, jax.random.key(0)
    env = Countdown()
    act = lambda key, obs, state: jnp.zeros(count, jnp.int32)  # noqa: E731
    play = jax.jit(playing.first_episodes, static_argnums=(0, 1, 3))
    episodes = play(env, act, key, count)

    # Countdown draws lengths from 1 to 8, and truncates an episode after 6 steps. So an episode of
    # length 7 or 8 ends after 6 steps without a reward.
    drawn = make_vec(env, count, autoreset="none").reset(jax.random.split(key)[0]).state.env.length
    drawn = np.asarray(drawn)
    np.testing.assert_array_equal(episodes.lengths, np.minimum(drawn, 6))
    np.testing.assert_array_equal(episodes.returns, np.where(drawn <= 6, drawn, 0))
    np.testing.assert_array_equal(episodes.terminated, drawn <= 6)
    np.testing.assert_array_equal(episodes.succeeded, (drawn > 3) & (drawn <= 6))

    # Lengths 1 to 5 are equally frequent. Lengths 6, 7 and 8 all give 6 steps, so 6 steps are three
    # times as frequent. An evaluation of the first `count` episodes to end would be biased to short
    # episodes.
    shares = np.bincount(np.asarray(episodes.lengths), minlength=7)[1:] / count
    np.testing.assert_allclose(shares, [1 / 8] * 5 + [3 / 8], atol=0.03)


def test_summary_has_means_of_all_and_of_each_seed():
    episodes = playing.Episodes(
        returns=jnp.array([[0.0, 1.0], [0.5, 0.5]]),
        lengths=jnp.array([[4, 2], [3, 3]], jnp.int32),
        terminated=jnp.array([[False, True], [True, True]]),
        succeeded=jnp.array([[False, True], [False, False]]),
    )
    got = evaluation.summary(jax.device_get(episodes), [{"seed": 7}, {"seed": 8}])
    assert got == {
        "episodes": 2,
        "mean_return": 0.5,
        "success_rate": 0.25,
        "mean_length": 3.0,
        "terminated_rate": 0.75,
        "interquartile_mean": 0.5,
        "interval": [0.5, 0.5],
        "per_seed": [
            {"seed": 7, "mean_return": 0.5, "success_rate": 0.5, "mean_length": 3.0}
            | {"terminated_rate": 0.5},
            {"seed": 8, "mean_return": 0.5, "success_rate": 0.0, "mean_length": 3.0}
            | {"terminated_rate": 1.0},
        ],
    }


def test_a_score_is_no_success(capsys):
    """Without a definition of success there is no success rate, even with positive returns."""
    returns = jnp.array([[5.6, 3.0]])
    played = playing.Episodes(returns, jnp.array([[9, 9]], jnp.int32), jnp.array([[True, True]]))
    result = evaluation.summary(jax.device_get(played), [{"seed": 0}])
    assert result["success_rate"] is None and result["per_seed"][0]["success_rate"] is None
    print(evaluation.as_text(result))
    assert capsys.readouterr().out == ("Evaluated over 2 episodes: return 4.300, length 9.0\n")
    assert not defines_success(Endless()) and defines_success(Countdown())


def succeeded(env, **fields):
    """Return the result of an environment's `succeeded` for a step.

    `fields` are fields of the step; all others are 0 or False.
    """
    nothing = {"reward": 0.0, "terminated": False, "truncated": False, "info": {}}
    step = Step(obs=(), state=(), **(nothing | fields))
    return env.succeeded(jax.tree.map(jnp.asarray, step))


def test_success_is_the_environments_to_define():
    make = jaxenvs.make
    pole = make("Classic-CartPole-v0")
    assert succeeded(pole, reward=1.0, truncated=True)
    assert not succeeded(pole, reward=1.0, terminated=True)
    room = make("Grid-Dynamic-Obstacles-5x5-v0")
    assert succeeded(room, reward=0.4, terminated=True)
    assert not succeeded(room, reward=-1.0, terminated=True)
    for id in ("Puzzle-TSP-10-v0", "Puzzle-Minesweeper-10x10-v0"):
        for solved in (True, False):
            assert succeeded(make(id), terminated=True, info={"solved": solved}) == solved
    assert succeeded(make("Craft-Classic-Ids-v0", task="collect_wood"), reward=1.0)
    for id in ("Craft-Classic-Ids-v0", "Puzzle-2048-v0", "Grid-Playground-v0"):
        assert succeeded(make(id), reward=1.0, terminated=True) is None


class Earner(Countdown):
    """Environment `Countdown` with achievements: reach step 2, reach step 4, reach the end."""

    achievements = ("two", "four", "end")

    def step_state(self, key, state, action, params):
        """Report each achievement only in the step in which it is unlocked."""
        state, reward, ends, _ = super().step_state(key, state, action, params)
        achieved = jnp.stack([state.time == 2, state.time == 4, ends])
        return Transition(state, reward, ends, {"achievements": achieved})


def test_achievements_are_counted_once_in_each_episode():
    count, key, env = 500, jax.random.key(0), Earner()
    act = lambda key, obs, state: jnp.zeros(count, jnp.int32)  # noqa: E731
    played = jax.jit(playing.first_episodes, static_argnums=(0, 1, 3))(env, act, key, count)
    lengths = np.asarray(played.lengths)
    expected = np.stack([lengths >= 2, lengths >= 4, np.asarray(played.returns) > 0], axis=1)
    np.testing.assert_array_equal(played.achieved, expected)
    rates = 100 * expected.mean(axis=0)
    found = evaluation.achievements(jax.device_get(played), env.achievements)
    np.testing.assert_allclose(found["score"], np.exp(np.log(1 + rates).mean()) - 1, rtol=1e-6)
    np.testing.assert_allclose([*found["achievements"].values()], rates / 100, atol=1e-6)


def test_the_score_is_a_mean_over_seeds(capsys):
    """The score of an evaluation is computed for each seed, and then averaged over the seeds.

    The first seed earns the first of two achievements in every episode. The second seed earns both
    achievements in half of its episodes.
    """
    achieved = np.array([[[1, 0], [1, 0]], [[1, 1], [0, 0]]], bool)
    nothing = np.zeros((2, 2), np.float32)
    played = playing.Episodes(nothing, nothing.astype(int), nothing > 0, achieved=achieved)
    result = evaluation.summary(played, [{"seed": 0}, {"seed": 1}], ("wood", "stone"))
    scores = [np.sqrt(101) - 1, 50.0]
    np.testing.assert_allclose(result["score"], np.mean(scores), rtol=1e-6)
    np.testing.assert_allclose([s["score"] for s in result["per_seed"]], scores, rtol=1e-6)
    assert result["achievements"] == {"wood": 0.75, "stone": 0.25}
    print(evaluation.as_text(result))
    assert "score 29.52 %" in capsys.readouterr().out
    assert evaluation.table(result["per_seed"]).splitlines() == [
        f"{'  75.0%  wood':<37}  25.0%  stone",
        "score 29.52 % (geometric mean, as in Crafter)",
    ]
    assert evaluation.score(np.zeros(22)) == 0 and abs(evaluation.score(np.ones(22)) - 100) < 1e-9
