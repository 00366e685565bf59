"""Tests of Muon against optax and NumPy, and of the shapes of schedules."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tiny import Clock, learner

from jaxenvs.baselines.core import minibatches, schedules
from jaxenvs.baselines.off_policy import crossq
from jaxenvs.baselines.on_policy import ppo

COEFFICIENTS = 3.4445, -4.7750, 2.0315  # of Newton-Schulz, from Jordan (2024)
RATE, BETA = 0.02, 0.9
MUON = {"optimiser": "muon", "learning_rate": RATE, "anneal": False, "max_grad_norm": 1e9}


def drawn(seed=0):
    """Return a small tree of weights: a wide and a tall matrix, and a vector."""
    draw = np.random.default_rng(seed)
    shapes = {"wide": (3, 7), "tall": (6, 4), "bias": (5,)}
    return {name: jnp.float32(draw.normal(size=shape)) for name, shape in shapes.items()}


def trained(chain, steps=4):
    """Return the weights after each of some optimiser steps with drawn gradients."""
    weights = drawn()
    state, seen = chain.init(weights), []
    step = jax.jit(lambda *given: minibatches.apply_gradient(chain, *given))
    for i in range(steps):
        weights, state = step(drawn(i + 1), state, weights)
        seen.append(jax.device_get(weights))
    return seen


def orthogonalised(matrix):
    """Return the result of five Newton-Schulz steps in NumPy, with the smaller side first."""
    a, b, c = COEFFICIENTS
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / (np.linalg.norm(x) + 1e-8)
    for _ in range(5):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


@pytest.mark.parametrize("momentum", [None, BETA])
def test_muon_is_that_of_optax(momentum):
    chain = minibatches.optimiser(ppo.Settings(**MUON, momentum=momentum))
    beta, adam = (0.95, 0.9) if momentum is None else (momentum, momentum)
    wanted = trained(optax.contrib.muon(RATE, beta=beta, adam_b1=adam))
    for got, expected in zip(trained(chain), wanted, strict=True):
        jax.tree.map(np.testing.assert_array_equal, got, expected)
    other = trained(optax.contrib.muon(RATE, beta=beta - 0.1, adam_b1=adam))[-1]
    assert all(np.abs(other[k] - wanted[-1][k]).max() > 1e-4 for k in ("wide", "tall"))


def test_muon_is_the_same_in_plain_numpy():
    """Nesterov momentum, five Newton-Schulz steps, and the factor sqrt(max(1, outputs / inputs))"""
    chain = minibatches.optimiser(ppo.Settings(**MUON, momentum=BETA))
    for name, factor in (("wide", np.sqrt(7 / 3)), ("tall", 1.0)):
        weight, average = np.asarray(drawn()[name], np.float64), 0.0
        for i, got in enumerate(trained(chain)):
            gradient = np.asarray(drawn(i + 1)[name], np.float64)
            average = BETA * average + (1 - BETA) * gradient
            ahead = BETA * average / (1 - BETA ** (i + 2))
            ahead = ahead + (1 - BETA) * gradient / (1 - BETA ** (i + 1))
            weight = weight - RATE * factor * orthogonalised(ahead)
            np.testing.assert_allclose(got[name], weight, rtol=0, atol=1e-5)
    sizes = np.linalg.svd(orthogonalised(ahead), compute_uv=False)
    assert (sizes > 0.6).all() and (sizes < 1.3).all()


def test_vectors_have_their_own_learning_rate():
    usual, tenth = (
        trained(minibatches.optimiser(ppo.Settings(**MUON, vector_rate=rate)), 1)[0]
        for rate in (1.0, 0.1)
    )
    before = drawn()
    np.testing.assert_array_equal(usual["wide"], tenth["wide"])
    moved = (tenth["bias"] - before["bias"]) / (usual["bias"] - before["bias"])
    np.testing.assert_allclose(moved, 0.1, rtol=1e-3)


@pytest.mark.usefixtures("as_a_user")
def test_settings_that_cannot_work_say_why():
    for given, words in (
        ({"vector_rate": 0.1}, r"vector_rate=0\.1: optimiser=adam has one learning rate; give opt"),
        ({"momentum": 1.0}, r"momentum=1\.0 must be below 1"),
        ({"schedule": "step"}, "schedule=step: choose one of linear, cosine"),
        ({"schedule": "cosine", "anneal": False}, "schedule=cosine: the learning rate does not fa"),
        ({"entropy_end": -1.0}, r"entropy_end=-1\.0 must be at least 0"),
    ):
        with pytest.raises(ValueError, match=words):
            ppo.Settings(**given).check()


def test_adam_has_the_given_momentum():
    for kind, given, beta in (
        (ppo.Settings, {}, 0.9),
        (ppo.Settings, {"momentum": 0.5}, 0.5),
        (crossq.Settings, {}, 0.5),
    ):
        chain = minibatches.optimiser(
            kind(learning_rate=RATE, anneal=False, max_grad_norm=1e9, **given)
        )
        wanted = trained(optax.adam(RATE, b1=beta, eps=1e-5))[-1]
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), trained(chain)[-1], wanted
        )


def rates(settings, updates):
    """Return the learning rate after each of these numbers of updates."""
    steps = np.asarray(updates, np.int32) * settings.gradient_steps
    return np.asarray(minibatches.learning_rate(settings)(steps))


def test_the_cosine_falls_from_the_rate_to_zero_also_after_a_resume():
    settings = ppo.Settings(
        total_steps=1000 * 64 * 128, learning_rate=2.0, schedule="cosine", minibatches=8
    )
    assert settings.updates == 1000
    got = rates(settings, [0, 250, 500, 750, 1000])
    wanted = 1.0 + np.cos(np.pi * np.arange(5) / 4)
    np.testing.assert_allclose(got, wanted, atol=1e-6)
    linear = dataclasses.replace(settings, schedule="linear")
    np.testing.assert_allclose(rates(linear, [0, 250, 1000]), [2.0, 1.5, 0.0], atol=1e-6)
    constant = dataclasses.replace(settings, anneal=False)
    np.testing.assert_array_equal(rates(constant, [0, 500, 1000]), [2.0, 2.0, 2.0])

    # Resumed after half of the run with three times the steps: progress goes on from 0.5.
    longer = dataclasses.replace(settings, total_steps=3 * settings.total_steps)
    longer = schedules.resumed(longer, settings, 500, restart=False)
    np.testing.assert_allclose(rates(longer, [250, 500]), wanted[1:3], atol=1e-6)
    later = 1.0 + np.cos(np.pi * np.array([0.75, 1.0]))
    np.testing.assert_allclose(rates(longer, [1750, 3000]), later, atol=1e-6)


def test_the_entropy_coefficient_moves_linearly_and_is_constant_by_default():
    agent = learner(Clock(), total_steps=10 * 8 * 16, entropy=0.02, entropy_end=0.004)
    state = minibatches.optimiser(agent.settings).init({"w": jnp.zeros(3)})

    def coefficient(agent, update):
        count = jnp.int32(update * agent.settings.gradient_steps)
        runner = ppo.rollouts.Runner((), minibatches.with_step_count(state, count))
        return ppo.annealed(agent, runner).settings.entropy

    assert agent.settings.updates == 10
    got = [coefficient(agent, update) for update in (0, 5, 10)]
    np.testing.assert_allclose(got, [0.02, 0.012, 0.004], rtol=1e-5)
    assert coefficient(learner(Clock(), entropy=0.02), 5) == 0.02


def losses(agent, entropy):
    """Return the loss of a minibatch with equal advantages 3, and its metrics."""
    agent = dataclasses.replace(agent, settings=dataclasses.replace(agent.settings, **entropy))
    count = 4
    rollout = ppo.Rollout(
        action=jnp.zeros(count, jnp.int32),
        log_prob=jnp.full(count, jnp.log(0.5)),
        value=jnp.zeros(count),
    )
    advantage, zeros = jnp.float32([3.0, 1.0, -1.0, 5.0]), jnp.zeros(count)
    (mean,), (std,) = ppo.normalisers(agent, (rollout, advantage), jnp.arange(count)[None])

    def unroll(learner, weights, rollout):
        return jnp.zeros((count, 2)), zeros

    return ppo.loss(agent, {}, rollout, advantage, zeros, mean, std, unroll)[1]


def test_advantages_are_standardised_only_if_set():
    agent = learner(Clock(), minibatches=1, num_envs=2, rollout_steps=2)
    assert losses(agent, {"standardise": False})["policy_loss"] == pytest.approx(-2.0)
    assert losses(agent, {"standardise": True})["policy_loss"] == pytest.approx(0.0, abs=1e-6)
