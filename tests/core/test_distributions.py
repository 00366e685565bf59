"""Tests of the action distributions against plain NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs.core import distributions
from jaxenvs.core.spaces import Box, Dict, Discrete, MultiDiscrete

LOW, HIGH = np.array([-2.0, 0.0]), np.array([2.0, 5.0])
GAUSSIAN = distributions.of(Box(LOW, HIGH, (2,), np.float32))
# Network outputs: two means, then two raw standard deviations, before softplus.
OUTPUTS = np.array([[0.3, -1.0, 0.5, -2.0], [2.0, 0.0, -1.0, 1.5]], np.float32)


def std_of(raw):
    """Return the standard deviations for raw network outputs: softplus plus a lower bound."""
    return np.log1p(np.exp(raw)) + 1e-3


def density(action, mean, std, low, high):
    """Return the density of a tanh-Gaussian, rescaled to [low, high], at `action`, in float64.

    The action is a function of a normal variable. So the result is the density of the normal
    variable, divided by the derivative of this function.
    """
    share = 2 * (action - low) / (high - low) - 1
    before = np.arctanh(share)
    normal = np.exp(-0.5 * ((before - mean) / std) ** 2) / (std * np.sqrt(2 * np.pi))
    return normal / ((1 - share**2) * (high - low) / 2)


def test_the_old_name_of_the_reparametrised_sample_works_and_warns():
    noise, outputs = jnp.array([[1.0, -0.5], [0.0, 2.0]]), jnp.array(OUTPUTS)
    with pytest.warns(DeprecationWarning, match="reparametrise"):
        found = GAUSSIAN.spread_out(noise, outputs)
    np.testing.assert_array_equal(found, GAUSSIAN.reparametrise(noise, outputs))


def test_the_density_of_an_action_is_that_of_the_change_of_variables():
    drawn = np.array([[0.7, -1.2], [1.5, 0.4]], np.float32)
    actions, found = jax.jit(
        lambda outputs, drawn: (GAUSSIAN.action(drawn), GAUSSIAN.log_prob(outputs, drawn))
    )(OUTPUTS, drawn)
    mean, std = OUTPUTS[:, :2].astype(float), std_of(OUTPUTS[:, 2:].astype(float))
    exact = LOW + (HIGH - LOW) * (np.tanh(drawn.astype(float)) + 1) / 2
    np.testing.assert_allclose(actions, exact, rtol=1e-6)
    wanted = np.log(density(exact, mean, std, LOW, HIGH)).sum(axis=1)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_densities_integrate_to_one_and_give_the_entropy():
    """Each density integrates to 1, and the entropy equals the integral of -p log p."""
    mean, std = OUTPUTS[:, :2].astype(float), std_of(OUTPUTS[:, 2:].astype(float))
    edges = np.linspace(0, 1, 400_001)
    middle = (edges[1:] + edges[:-1]) / 2
    wanted = np.zeros(2)
    for i, (low, high) in enumerate(zip(LOW, HIGH, strict=True)):
        at, width = low + (high - low) * middle, (high - low) / len(middle)
        for row in range(2):
            each = density(at, mean[row, i], std[row, i], low, high)
            assert each.sum() * width == pytest.approx(1, abs=1e-4)
            wanted[row] -= (each * np.log(each + 1e-300)).sum() * width
    np.testing.assert_allclose(jax.jit(GAUSSIAN.entropy)(OUTPUTS), wanted, atol=2e-3)


def test_an_action_at_its_bound_has_a_finite_density_and_gradient():
    drawn = jnp.full((2, 2), 40.0)

    def total(outputs):
        return GAUSSIAN.log_prob(outputs, drawn).sum() + GAUSSIAN.entropy(outputs).sum()

    value, gradient = jax.jit(jax.value_and_grad(total))(OUTPUTS)
    assert np.isfinite(value) and np.isfinite(gradient).all()
    np.testing.assert_array_equal(jax.jit(GAUSSIAN.action)(drawn), np.float32([HIGH, HIGH]))


def test_draws_have_the_moments_of_the_gaussian_and_lie_in_the_space():
    outputs = jnp.broadcast_to(OUTPUTS[0], (20_000, 4))
    drawn = jax.jit(GAUSSIAN.draw)(jax.random.key(0), outputs)
    mean, std = GAUSSIAN.moments(jnp.asarray(OUTPUTS[0]))
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.03)
    np.testing.assert_allclose(drawn.std(axis=0), std, rtol=0.03)
    actions = np.asarray(jax.jit(GAUSSIAN.action)(drawn))
    assert (actions >= LOW).all() and (actions <= HIGH).all()
    np.testing.assert_array_equal(GAUSSIAN.best(jnp.asarray(OUTPUTS[0])), OUTPUTS[0, :2])


def test_choices_are_independent_categoricals():
    space = MultiDiscrete([[2, 3], [4, 2]])
    policy = distributions.of(space)
    assert policy.outputs == 11
    outputs = np.random.default_rng(0).normal(size=(5, 11)).astype(np.float32)
    drawn = np.asarray(jax.jit(policy.draw)(jax.random.key(1), outputs))
    assert jax.vmap(space.contains)(jax.jit(policy.action)(drawn)).all()
    best = jax.jit(policy.best)(outputs)
    log_prob, entropy = np.zeros(5), np.zeros(5)
    for i, part in enumerate(np.split(outputs.astype(float), [2, 5, 9], axis=1)):
        share = np.exp(part) / np.exp(part).sum(axis=1, keepdims=True)
        log_prob += np.log(share[np.arange(5), drawn[:, i]])
        entropy -= (share * np.log(share)).sum(axis=1)
        np.testing.assert_array_equal(best[:, i], part.argmax(axis=1))
    np.testing.assert_allclose(jax.jit(policy.log_prob)(outputs, drawn), log_prob, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(policy.entropy)(outputs), entropy, rtol=1e-5)


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (Box(-np.inf, 1.0, (2,), np.float32), "tanh needs finite bounds"),
        (Box(1.0, 1.0, (1,), np.float32), "equal bounds leaves no choice"),
        (Box(0, 5, (1,), np.int32), "use a Discrete, a MultiDiscrete or a Box of float"),
        (Dict({"a": Discrete(2)}), "use a Discrete, a MultiDiscrete or a Box of float"),
    ],
)
def test_unsupported_action_spaces_raise(space, words):
    with pytest.raises(ValueError, match=words):
        distributions.of(space)
