"""Tests of level scores, which decide what levels PLR replays, against slow NumPy references."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs.baselines.core import level_scores
from jaxenvs.baselines.core.rollouts import Rollout

pytestmark = pytest.mark.full

STEPS, ENVS = 23, 6


def rollout(seed):
    """Return a random rollout and, for each environment, a list of its finished episodes' spans.

    A span is a pair (first step, last step + 1). All environments begin an episode at step 0. In
    the last environment no episode ends.
    """
    rng = np.random.default_rng(seed)
    done = rng.random((STEPS, ENVS)) < 0.2
    done[:, -1] = False
    reward = rng.random((STEPS, ENVS)).astype(np.float32)
    returns, lengths = np.zeros((STEPS, ENVS), np.float32), np.zeros((STEPS, ENVS), np.int32)
    spans = []
    for env in range(ENVS):
        begin, found = 0, []
        for step in range(STEPS):
            returns[step, env] = reward[begin : step + 1, env].sum()
            lengths[step, env] = step + 1 - begin
            if done[step, env]:
                found.append((begin, step + 1))
                begin = step + 1
        spans.append(found)
    value = rng.normal(size=(STEPS, ENVS)).astype(np.float32)
    parts = {"terminated": done, "truncated": np.zeros_like(done), "value": value}
    made = Rollout(reward=reward, returns=returns, lengths=lengths, **parts)
    return Rollout(
        *(leaf if isinstance(leaf, tuple) or leaf is None else jnp.asarray(leaf) for leaf in made)
    ), spans


def test_results_of_episodes():
    """Compare number, mean return, best return and success of finished episodes with a loop."""
    made, spans = rollout(0)
    wins = [min(1, len(found)) for found in spans]
    found = level_scores.episodes(made, jnp.array(wins, jnp.int32))
    reward = np.asarray(made.reward)
    for env, each in enumerate(spans):
        returns = [reward[a:b, env].sum() for a, b in each] or [reward[:, env].sum()]
        np.testing.assert_allclose(found.returned[env], np.mean(returns), rtol=1e-5)
        np.testing.assert_allclose(found.best[env], np.max(returns), rtol=1e-5)
        assert found.ended[env] == len(each)
        np.testing.assert_allclose(found.success[env], wins[env] / max(len(each), 1), rtol=1e-6)


@pytest.mark.parametrize("kind", ["pvl", "l1", "maxmc", "learnability", "regret"])
def test_scores_against_a_reference(kind):
    """Compare each score with loops over episodes and steps."""
    made, spans = rollout(1)
    rng = np.random.default_rng(2)
    advantage = rng.normal(size=(STEPS, ENVS)).astype(np.float32)
    best, optimum = rng.random(ENVS).astype(np.float32), rng.random(ENVS).astype(np.float32)
    wins = jnp.array([len(each) // 2 for each in spans], jnp.int32)
    episodes = level_scores.episodes(made, wins)
    given = (jnp.asarray(advantage), episodes, jnp.asarray(best), jnp.asarray(optimum))
    found = level_scores.score(kind, made, *given)
    value, reward = np.asarray(made.value), np.asarray(made.reward)
    for env, each in enumerate(spans):
        p = (len(each) // 2) / max(len(each), 1)
        over = each or [(0, STEPS)]
        steps = {
            "pvl": lambda env: np.maximum(advantage[:, env], 0),
            "l1": lambda env: np.abs(advantage[:, env]),
            "maxmc": lambda env: best[env] - value[:, env],
        }
        if kind in steps:
            wanted = np.mean([steps[kind](env)[a:b].mean() for a, b in over])
        elif kind == "learnability":
            wanted = p * (1 - p)
        else:
            wanted = optimum[env] - np.mean([reward[a:b, env].sum() for a, b in over])
        np.testing.assert_allclose(found[env], wanted, rtol=1e-4, atol=1e-6)
