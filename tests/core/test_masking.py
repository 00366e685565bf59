"""Tests of action masks.

They test which environments have masks, policies with a mask, and the mask of the state in which an
episode ended.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs.core.masking import NEVER, has_illegal, legal, legal_actions
from jaxenvs.core.wrappers import Flatten

KEY = jax.random.key(0)
MASKS = jnp.array([[True, False, True], [False, True, False], [False, False, False]])
LOGITS = jnp.array([[0.5, 9.0, -1.0], [3.0, -2.0, 0.0], [1.0, 2.0, 3.0]])


def test_illegal_actions_get_no_probability_and_are_never_the_best():
    masked = legal(LOGITS, MASKS)
    assert legal(LOGITS, None) is LOGITS
    np.testing.assert_array_equal(masked[:2] == NEVER, ~MASKS[:2])
    np.testing.assert_array_equal(masked[:2].argmax(axis=-1), [0, 1])
    np.testing.assert_array_equal(jax.nn.softmax(masked)[:2] == 0, ~MASKS[:2])
    # If no action is legal, the logits stay unchanged.
    np.testing.assert_array_equal(masked[2], LOGITS[2])
    assert masked.dtype == LOGITS.dtype


def test_the_entropy_of_a_masked_uniform_policy_is_the_logarithm_of_its_legal_actions():
    @jax.jit
    @jax.value_and_grad
    def entropy(logits):
        masked = legal(logits, MASKS)
        return -(jax.nn.softmax(masked) * jax.nn.log_softmax(masked)).sum(axis=-1).sum()

    found, gradient = entropy(jnp.zeros((3, 3)))
    np.testing.assert_allclose(found, np.log(2) + np.log(1) + np.log(3), rtol=1e-6)
    _, gradient = entropy(LOGITS)
    assert np.isfinite(gradient).all()
    np.testing.assert_array_equal(gradient[:2][~MASKS[:2]], 0.0)
    assert (gradient[0][MASKS[0]] != 0).all()


@pytest.mark.parametrize(
    ("id", "expected"),
    [
        ("Grid-Empty-5x5-v0", False),
        ("Classic-CartPole-v0", False),
        ("Puzzle-LightsOut-5x5-v0", False),  # its own `action_mask` always allows all actions
        ("Puzzle-SlidingTile-3x3-v0", True),
        ("Puzzle-TSP-20-v0", True),
    ],
)
def test_an_environment_has_illegal_actions_if_its_mask_depends_on_the_state(id, expected):
    env = jaxenvs.make(id)
    assert has_illegal(env) == expected
    assert has_illegal(Flatten(env=env)) == expected
    mask = jax.eval_shape(lambda state: legal_actions(env, state), env.state_shape)
    assert (mask is not None) == expected


class Constant(type(jaxenvs.make("Classic-CartPole-v0"))):
    """CartPole that forbids the action `never`; with `never` = 2 it allows both of its actions."""

    never: int = 0

    def action_mask(self, state, params=None):
        """Return a constant mask."""
        return jnp.arange(2) != self.never


class ByParams(type(jaxenvs.make("Classic-CartPole-v0"))):
    """CartPole whose mask depends on its params."""

    def action_mask(self, state, params=None):
        """Allow all actions or none, depending on the params."""
        limit = self.checked_params(params, "action_mask").max_steps_in_episode
        return jnp.full(2, limit > 3)


def test_constant_masks_and_those_of_params_are_seen_while_something_else_is_traced():
    def look(x):
        answers = has_illegal(Constant()), has_illegal(Constant(never=2)), has_illegal(ByParams())
        return jnp.array(answers)

    np.testing.assert_array_equal(jax.jit(look)(0.0), [True, False, True])


def test_a_batch_gives_the_mask_of_the_true_successor():
    """`final_mask` is the mask of the state in which the episode ended.

    In that state all cities are visited, so no action is legal. The first state of the next episode
    has legal actions.
    """
    venv = jaxenvs.make_vec("Puzzle-TSP-10-v0", 3, cities=3)
    step = jax.jit(venv.step)
    state = jax.jit(venv.reset)(KEY).state
    for city, done in ((1, False), (2, True)):
        stepped = step(KEY, state, jnp.full(3, city, jnp.int32))
        assert (stepped.terminated == done).all()
        final = stepped.info["final_mask"]
        np.testing.assert_array_equal(final, stepped.info["final_obs"][..., 2] == 0)
        np.testing.assert_array_equal(final.any(axis=1), not done)
        assert venv.action_mask(stepped.state).any()
        state = stepped.state
    free = jaxenvs.make_vec("Grid-Empty-5x5-v0", 3)
    shapes = jax.eval_shape(
        lambda key: free.step(key, free.reset(key).state, jnp.zeros(3, int)), KEY
    )
    assert "final_obs" in shapes.info and "final_mask" not in shapes.info
