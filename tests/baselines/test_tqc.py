"""Tests of TQC: truncated targets and quantile loss against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from tiny import Push

from jaxenvs.baselines.off_policy import tqc
from jaxenvs.baselines.run import loop, train

pytestmark = pytest.mark.full


def every(goal):
    """Return a `tqc.Target` of the quantiles `goal`, all with weight 1."""
    return tqc.Target(jnp.asarray(goal), jnp.ones_like(goal))


def test_the_highest_quantiles_of_all_critics_together_are_dropped():
    said = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    found = jax.jit(tqc.truncate, static_argnums=1)(said, 2)
    for item in range(4):
        wanted = sorted(said[:, item].ravel().tolist())[: 3 * 3]
        kept = np.asarray(found.share[item]) > 0
        np.testing.assert_array_equal(np.sort(found.value[item][kept]), np.float32(wanted))
        np.testing.assert_allclose(found.share[item][kept], 5 / 3)


def test_ties_do_not_drop_more_quantiles():
    said = np.array([[[1.0, 1.0, 1.0]], [[1.0, 0.0, 2.0]]], np.float32)
    found = jax.jit(tqc.truncate, static_argnums=1)(said, 1)
    kept = np.sort(found.value[0][np.asarray(found.share[0]) > 0])
    np.testing.assert_array_equal(kept, [0.0, 1.0, 1.0, 1.0])


def test_dropped_quantiles_may_be_infinite():
    said = np.array([[[1.0, np.inf]], [[0.0, np.inf]]], np.float32)
    goal = jax.jit(tqc.truncate, static_argnums=1)(said, 1)
    found = jax.jit(tqc.quantile_errors)(jnp.zeros((1, 1)), goal)
    # mean of two losses: 0.25 for the target 1, 0 for the target 0
    assert found[0] == pytest.approx(0.125)


def test_the_loss_is_quantile_regression():
    """Compare the loss with a loop over pairs of predicted and target quantiles."""
    draw = np.random.default_rng(1)
    said, goal = (draw.normal(size=(2, n)).astype(np.float32) * 3 for n in (4, 6))
    found = jax.jit(tqc.quantile_errors)(jnp.asarray(said), every(goal))
    for item in range(2):
        total = 0.0
        for i in range(4):
            share = (i + 0.5) / 4
            for j in range(6):
                apart = float(goal[item, j]) - float(said[item, i])
                huber = 0.5 * apart**2 if abs(apart) <= 1 else abs(apart) - 0.5
                total += abs(share - (apart < 0)) * huber
        assert found[item] == pytest.approx(total / 24, rel=1e-5)


def test_the_gradient_is_0_at_the_median_of_targets():
    """Quantile regression of one quantile finds the median, not the mean."""
    goal = jnp.array([[-9.0, 0.0, 1.0, 1.5, 40.0]])

    def loss(said):
        return tqc.quantile_errors(said[None, None], every(goal))[0]

    slope = jax.jit(jax.vmap(jax.grad(loss)))(jnp.array([-0.9, 1.0, 3.0]))
    assert slope[0] < 0 < slope[2] and abs(slope[1]) < 0.11


def test_it_learns_from_its_replay_buffer():
    agent = tiny.learner(Push(), "tqc", dropped=1)
    runners = loop.start(agent, jax.random.key(0)[None])
    before = jax.tree.map(jnp.copy, runners)
    for _ in range(2):
        runners, metrics = loop.run_chunk(agent, runners)
    for name in ("weights", "critic", "target", "temperature"):
        same = jax.tree.map(np.array_equal, getattr(before, name), getattr(runners, name))
        assert not all(jax.tree.leaves(same)), name
    assert np.isfinite(metrics["critic_loss"]).all()
    tiny.warm_up_is_not_averaged(agent, ("actor_loss", "entropy"))


def test_no_quantile_left_is_refused(tmp_path, capsys):
    flags = ["Classic-Pendulum-v0", "--algo", "tqc", "--out", str(tmp_path / "run")]
    assert train.main([*flags, "--dropped", "25"]) == 2
    assert "dropped=25 of quantiles=25 leaves none" in capsys.readouterr().err
