"""Tests that AlphaZero and DAgger count a decision and its forced steps as one.

The reference is `Napper`, see sleeping.py.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sleeping import KEY, alike, both
from tiny import learner
from tiny_sleep import LIMIT, SLEEP, ForcedSleeper, Napper, Sleeper, SleeperState

import jaxenvs
from jaxenvs.adapters.mctx import Node
from jaxenvs.baselines.core import minibatches
from jaxenvs.baselines.model_based import alphazero
from jaxenvs.baselines.offline import dagger
from jaxenvs.baselines.run import loop

TICKS = np.arange(12, dtype=np.int32)  # all ticks at which a player can be awake


def awake():
    """Return the states of a player that is awake, at every tick."""
    ticks = jnp.asarray(TICKS)
    return SleeperState(time=jnp.zeros_like(ticks), tick=ticks, asleep=jnp.zeros_like(ticks > 0))


def edge(agent, node):
    """Return the edges of a search in which all players sleep, and the nodes that they lead to."""
    weights = agent.network.init(KEY, jnp.zeros(2))
    action = jnp.full(len(TICKS), SLEEP, jnp.int32)
    return jax.jit(alphazero.expand(agent))(weights, KEY, action, node)


@pytest.mark.parametrize("env", [Sleeper(), pytest.param(ForcedSleeper(), marks=pytest.mark.full)])
def test_edges_of_the_search_equal_those_of_one_step_sleeps(env):
    """The edges of a sleep have together the reward and the discount of one step."""
    asked = {} if isinstance(env, ForcedSleeper) else {"skip_forced": True}
    agent = learner(env, "alphazero", clairvoyant=True, **asked)
    node = Node(awake(), jnp.zeros(len(TICKS), jnp.bool_))
    total, discount, running = np.zeros(len(TICKS)), np.ones(len(TICKS)), np.ones(len(TICKS), bool)
    sleeps = 0
    for _ in range(12):
        made, node = edge(agent, node)
        total += np.where(running, discount * made.reward, 0.0)
        discount = np.where(running, discount * made.discount, discount)
        # the search has no time limit, at which `Napper` ends a sleep
        running &= np.asarray(node.state.asleep & ~node.ended & (node.state.tick < 12))
        sleeps += running.sum()
    assert sleeps > 10
    plain = learner(Napper(), "alphazero", clairvoyant=True)
    expected, _ = edge(plain, Node(awake(), jnp.zeros(len(TICKS), jnp.bool_)))
    np.testing.assert_allclose(total, expected.reward, rtol=1e-5, atol=1e-6)
    inside = ~np.asarray(node.state.tick > 12)
    ends = np.asarray(expected.discount) == 0.0
    assert ends.any() and not ends.all()
    np.testing.assert_allclose(discount[inside], np.asarray(expected.discount)[inside], rtol=1e-6)


def test_an_edge_that_the_time_limit_cuts_is_discounted_although_the_player_sleeps():
    """The rollout's `Forced.following` leaves out such steps, too."""
    agent = learner(Sleeper(), "alphazero", clairvoyant=True, skip_forced=True)
    awake_at = {"time": jnp.zeros(2, jnp.int32), "asleep": jnp.zeros(2, jnp.bool_)}
    state = SleeperState(tick=jnp.int32([LIMIT - 1, LIMIT - 3]), **awake_at)
    weights = agent.network.init(KEY, jnp.zeros(2))
    action = jnp.full(2, SLEEP, jnp.int32)
    made, node = alphazero.expand(agent)(weights, KEY, action, Node(state, jnp.zeros(2, jnp.bool_)))
    assert node.state.asleep.all()
    np.testing.assert_allclose(made.discount, [agent.settings.gamma, 1.0])


def test_a_policy_that_skipped_forced_steps_searches_in_a_setup_without_masks():
    agent = learner(Sleeper(), "alphazero", clairvoyant=True, skip_forced=True)

    class Unmasked(Sleeper):
        uses_mask = False

    agent = dataclasses.replace(agent, env=jaxenvs.make_vec(Unmasked(), 1))
    made, _ = edge(agent, Node(awake(), jnp.zeros(len(TICKS), jnp.bool_)))
    assert set(np.unique(made.discount)) <= {np.float32(0.0), np.float32(agent.settings.gamma)}


def test_the_policy_of_alphazero_learns_nothing_from_forced_steps():
    """Only the value loss counts forced states; the other losses equal one-step sleeps."""
    skipping, after, rollout, plain, reference, expected = both()
    agent = learner(Sleeper(), "alphazero", clairvoyant=True, skip_forced=True)
    agent, plain = (
        dataclasses.replace(agent, network=one.network, env=one.env) for one in (skipping, plain)
    )

    def searched(rollout):
        """Return the rollout with arbitrary search policies, computed from its observations."""
        logits = jnp.sin(rollout.obs[..., :1] * 1.1 + rollout.obs[..., 1:] + jnp.arange(3.0))
        return rollout._replace(policy=jax.nn.softmax(logits))

    def losses(agent, rollout, target):
        step = functools.partial(minibatches.gradients, agent, alphazero.loss)
        return jax.jit(step)(after.weights, rollout, target)

    here = rollout.forced.here
    found = alphazero.rollouts.lambda_returns(agent, after, rollout)
    batch = minibatches.as_steps((searched(rollout), found))
    ours = losses(agent, *batch)[1]
    theirs = losses(plain, searched(reference), expected + reference.value)[1]
    for name in ("policy_loss", "entropy", "search_entropy"):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-4)
    everything = losses(agent, batch[0]._replace(forced=()), batch[1])[1]
    assert abs(everything["policy_loss"] - ours["policy_loss"]) > 1e-3
    alike(ours["value_loss"], everything["value_loss"])
    # The targets of forced states are not discounted until the player wakes.
    row, col = np.argwhere(np.asarray(here[1:] & here[:-1] & ~rollout.terminated[:-1]))[0]
    undiscounted = rollout.reward[row, col] + found[row + 1, col]
    np.testing.assert_allclose(found[row, col], undiscounted, rtol=1e-4)


def test_forced_states_have_no_label(monkeypatch):
    monkeypatch.setattr(
        dagger, "labels", lambda agent, state: jnp.full(agent.env.num_envs, 2, jnp.int32)
    )
    for skips in (True, False):
        agent = learner(Sleeper(), "dagger", skip_forced=skips)
        runners = loop.start(agent, KEY[None])
        for _ in range(2):
            runners, metrics = loop.run_chunk(agent, runners)
        known = np.asarray(runners.replay_buffer.label[0, :, :2]) != dagger.UNKNOWN
        asleep = np.asarray(runners.replay_buffer.obs[0, :, :2, ..., 1]) > 0
        assert asleep.any() and not asleep.all()
        np.testing.assert_array_equal(known, ~asleep if skips else np.ones_like(asleep))
        assert ("decisions" in metrics) == skips
