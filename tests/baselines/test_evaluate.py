"""Evaluation: exactly N finished episodes, the first of each environment."""

import jax
import jax.numpy as jnp
import numpy as np
from tiny import Countdown

from jaxenvs import make_vec
from jaxenvs.baselines import evaluate


def test_exactly_the_first_episode_of_each_environment():
    count, key = 2000, jax.random.key(0)
    env = Countdown()
    act = lambda key, obs, state: jnp.zeros(count, jnp.int32)  # noqa: E731
    play = jax.jit(evaluate.first_episodes, static_argnums=(0, 1, 3))
    episodes = play(env, act, key, count)

    # What is played follows from the lengths that were drawn: 7 and 8 are cut at 6, unrewarded.
    drawn = make_vec(env, count, autoreset="none").reset(jax.random.split(key)[0]).state.env.length
    drawn = np.asarray(drawn)
    np.testing.assert_array_equal(episodes.lengths, np.minimum(drawn, 6))
    np.testing.assert_array_equal(episodes.returns, np.where(drawn <= 6, drawn, 0))
    np.testing.assert_array_equal(episodes.terminated, drawn <= 6)

    # Counting whatever ends first would favour short episodes: 1 step is as frequent as 6.
    shares = np.bincount(np.asarray(episodes.lengths), minlength=7)[1:] / count
    np.testing.assert_allclose(shares, [1 / 8] * 5 + [3 / 8], atol=0.03)


def test_summary_has_means_of_all_and_of_each_seed():
    episodes = evaluate.Episodes(
        returns=jnp.array([[0.0, 1.0], [0.5, 0.5]]),
        lengths=jnp.array([[4, 2], [3, 3]], jnp.int32),
        terminated=jnp.array([[False, True], [True, True]]),
    )
    got = evaluate.summary(jax.device_get(episodes), first_seed=7)
    assert got == {
        "episodes": 2,
        "mean_return": 0.5,
        "success_rate": 0.75,
        "mean_length": 3.0,
        "terminated_rate": 0.75,
        "per_seed": [
            {"seed": 7, "mean_return": 0.5, "success_rate": 0.5, "mean_length": 3.0}
            | {"terminated_rate": 0.5},
            {"seed": 8, "mean_return": 0.5, "success_rate": 1.0, "mean_length": 3.0}
            | {"terminated_rate": 1.0},
        ],
    }
