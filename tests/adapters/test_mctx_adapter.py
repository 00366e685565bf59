"""Tests of `mctx_root_fn` and `mctx_recurrent_fn`, with which mctx searches in an environment.

The tests check episode ends, time limits, action masks, and that a search solves an easy puzzle.
"""

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest
from worlds import DOORS, Doors

from jaxenvs.adapters import mctx_recurrent_fn, mctx_root_fn
from jaxenvs.adapters.mctx import Node
from jaxenvs.core.masking import NEVER
from jaxenvs.puzzles import SlidingTile

KEY = jax.random.key(0)
ENV = SlidingTile(size=3, scramble=8)


def blind(weights, obs, state):
    """Return uniform logits, and the scalar `weights` as the value of every state."""
    rows = len(state.time)
    return jnp.zeros((rows, 4)), jnp.full(rows, jnp.float32(weights))


@pytest.fixture(scope="module")
def boards():
    """Return observations and states of four boards, two of them one step from the goal."""

    @jax.jit
    def make():
        near = [ENV.apply((), ENV.goal(()), jnp.int32(action)).board for action in (0, 3)]
        level = ENV.sample_level(KEY)
        levels = [level.replace(board=board) for board in near]
        levels += [ENV.sample_level(jax.random.key(seed)) for seed in (1, 2)]
        resets = [ENV.reset_to(KEY, level) for level in levels]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *resets)

    return make()


def test_a_plan_takes_the_goal_in_sight_and_nothing_illegal(boards):
    root = mctx_root_fn(ENV, blind)
    step = mctx_recurrent_fn(ENV, blind, discount=0.9)
    illegal = ~jax.jit(jax.vmap(ENV.action_mask))(boards.state)
    step_all = jax.jit(jax.vmap(ENV.step, in_axes=(None, 0, 0)))

    @jax.jit
    def plan(key):
        known = {"num_simulations": 32, "invalid_actions": illegal, "gumbel_scale": 0.0}
        with jax.numpy_dtype_promotion("standard"):
            return mctx.gumbel_muzero_policy(0.0, key, root(0.0, *boards), step, **known)

    for seed in range(3):
        found = plan(jax.random.key(seed))
        assert not illegal[jnp.arange(4), found.action].any()
        solved = step_all(KEY, boards.state, found.action)
        assert solved.terminated[:2].all()


def test_a_root_has_no_prior_for_what_is_illegal(boards):
    found = jax.jit(mctx_root_fn(ENV, blind))(0.5, *boards)
    mask = jax.jit(jax.vmap(ENV.action_mask))(boards.state)
    np.testing.assert_array_equal(found.prior_logits == NEVER, ~mask)
    np.testing.assert_array_equal(found.value, 0.5)
    assert not found.embedding.ended.any()


def test_nothing_happens_after_the_end_and_the_limit_is_none():
    """After a terminal step, reward and value are 0, and the state no longer changes.

    The time limit of 2 steps has no effect in the search.
    """
    limit = DOORS.default_params.replace(max_steps_in_episode=2)
    _, state = jax.jit(jax.vmap(DOORS.reset))(jax.random.split(KEY, 8))
    step = jax.jit(
        mctx_recurrent_fn(
            DOORS,
            lambda weights, obs, state: (jnp.zeros((8, 3)), obs["number"].astype(jnp.float32)),
            params=limit,
            discount=0.5,
        )
    )
    node = Node(state, jnp.zeros(8, jnp.bool_))
    seen = []
    for number in range(4):
        before = node
        found, node = step(None, jax.random.key(number), jnp.ones(8, jnp.int32), before)
        over = np.asarray(before.ended)
        np.testing.assert_array_equal(node.ended, over | (state.length <= number + 1))
        np.testing.assert_array_equal(found.discount, np.where(node.ended, 0.0, 0.5))
        np.testing.assert_array_equal(found.reward[over], 0.0)
        np.testing.assert_array_equal(found.value == 0.0, node.ended)
        np.testing.assert_array_equal(node.state.time == before.state.time, over)
        seen.append(over.any())
    assert (
        seen[-1] and not seen[0] and not node.ended.all()
    )  # the search ignores the time limit of 2 steps


def test_the_search_draws_its_own_random_outcomes():
    """The key of a search determines random outcomes: two keys give two outcomes of an action."""
    _, state = jax.jit(jax.vmap(DOORS.reset))(jax.random.split(KEY, 64))
    step = mctx_recurrent_fn(DOORS, lambda *_: (jnp.zeros((64, 3)), jnp.zeros(64)))
    step = jax.jit(step)
    node = Node(state, jnp.zeros(64, jnp.bool_))
    both = [step(None, jax.random.key(k), jnp.zeros(64, jnp.int32), node)[1] for k in (1, 2)]
    assert (both[0].state.number != both[1].state.number).any()


@pytest.mark.usefixtures("as_a_user")
def test_mistakes_are_named():
    with pytest.raises(TypeError, match="mctx_recurrent_fn: needs an id or an environment"):
        mctx_recurrent_fn(Doors, blind)
    with pytest.raises(TypeError, match="mctx_root_fn: needs an id"):
        mctx_root_fn(3, blind)
    with pytest.raises(ValueError, match="skip_forced: CartPole has no masks of legal actions"):
        mctx_recurrent_fn("Classic-CartPole-v0", blind, skip_forced=True)
