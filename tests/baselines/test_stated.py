"""Tests of how evaluations describe a policy: its epsilon, its search and its observation."""

import functools

import jax
import jax.numpy as jnp
import pytest
import tiny
from tiny import Clock, Push

import jaxenvs
from jaxenvs.baselines.core.planning import HIDDEN, search_of
from jaxenvs.baselines.core.policy import Policy
from jaxenvs.baselines.core.policy_statement import as_phrase, describe
from jaxenvs.baselines.evaluation import upstream
from jaxenvs.baselines.model_based import muzero
from jaxenvs.core.wrappers import PreviousStep

KEY, CARTPOLE = jax.random.key(0), "Classic-CartPole-v0"


def test_sampled_search_with_chance_has_no_exploration_noise(monkeypatch):
    import mctx

    agent, given = tiny.learner(Clock(), "muzero", codes=3), []

    def search(**asked):
        given.append((asked["dirichlet_fraction"], asked["temperature"]))
        raise StopIteration

    monkeypatch.setattr(mctx, "stochastic_muzero_policy", search)
    weights, obs = jax.eval_shape(agent.network.init, KEY, jnp.ones(1)), jnp.ones((2, 1))
    calls = [
        functools.partial(muzero.decide, mask=None, state=None, params=None, greedy=False),
        functools.partial(muzero.decide, mask=None, state=None, params=None, greedy=True),
        functools.partial(muzero.plan, mask=None),  # the search with which training acts
    ]
    for call in calls:
        with pytest.raises(StopIteration):
            jax.eval_shape(functools.partial(call, agent, key=KEY, obs=obs), weights)
    assert given == [(0.0, 1.0), (0.0, 0.0), (0.25, 1.0)]


VALUES = ("pqn", "pqn-rnn", "dqn", "c51", "qr-dqn", "iqn", "rainbow", "r2d2")


@pytest.mark.parametrize("algorithm", [name for name in tiny.TINY if name != "rl2"])
def test_each_learner_states_its_epsilon_and_its_search(algorithm):
    env = Push() if algorithm in ("sac", "td3", "tqc", "crossq") else Clock()
    env = jaxenvs.make("Grid-Empty-5x5-v0") if algorithm == "dyna" else env
    agent = tiny.learner(env, algorithm)
    policy = Policy.of(env, agent.network, None, search=search_of(agent))
    sampled, greedy = describe(policy, greedy=False), describe(policy, greedy=True)
    assert (sampled["actions"], greedy["actions"]) == ("sampled", "greedy")
    assert sampled.get("epsilon") == (0.02 if algorithm in VALUES else None)
    assert "epsilon" not in greedy
    assert sampled["search"] == (algorithm in ("muzero", "alphazero"))
    named = "image" if algorithm == "dyna" else "Box(0.0, 9.0, (1,), float32)"
    assert sampled["observation"] == named
    assert ("2% random" in as_phrase(sampled)) == (algorithm in VALUES)


def test_normalised_observations_keep_the_epsilon():
    agent = tiny.learner(Clock(), "pqn", normalize_obs=True)
    assert Policy.of(Clock(), agent.network, None).epsilon == 0.02


def test_observations_have_the_name_that_chose_them():
    env = jaxenvs.make("Grid-Empty-5x5-v0", obs="full")
    agent = tiny.learner(env)
    for world, name in ((env, "full"), (PreviousStep(env=env), "full, previous action and reward")):
        assert describe(Policy.of(world, agent.network, None), True)["observation"] == name


def test_a_search_that_sees_hidden_state_says_so():
    env = jaxenvs.make("Grid-Empty-5x5-v0")
    search = search_of(tiny.learner(env, "alphazero", clairvoyant=True))
    assert (search.model, search.needs_state) == (HIDDEN, True)
    said = as_phrase(describe(Policy.of(env, search.learner.network, None, search=search), False))
    assert "search with 8 simulations in the true environment with its hidden state" in said


def test_a_search_in_the_true_environment_is_not_played_where_the_state_is_unknown():
    env = jaxenvs.make(CARTPOLE)
    agent = tiny.learner(env, "alphazero")
    policy = Policy.of(env, agent.network, None, CARTPOLE, search_of(agent))
    with pytest.raises(upstream.NotThereError, match="give --simulations 0 to play without"):
        upstream.play(policy, "gymnasium", KEY, 2)


@pytest.mark.parametrize("algorithm", ["alphazero", "muzero"])
def test_a_policy_with_a_search_acts_in_a_state_and_in_a_batch(algorithm):
    env, agent = Clock(), tiny.learner(Clock(), algorithm)

    def actions(key):
        weights = agent.network.init(key, jnp.ones(1))
        policy, state = Policy.of(env, agent.network, weights, "", search_of(agent)), env.reset(key)
        batch = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (3, *leaf.shape)), state)
        alone = policy.act(key, (), state.state, env.default_params)[1]
        return alone, policy.decide_batch(key, (), *batch)[1]

    one, many = jax.eval_shape(actions, KEY)
    assert (one.shape, many.shape, one.dtype, many.dtype) == ((), (3,), jnp.int32, jnp.int32)


def test_a_search_needs_at_least_one_simulation():
    agent = tiny.learner(Clock(), "muzero")
    assert search_of(agent, 0) is None
    with pytest.raises(ValueError, match="simulations=-1 must be at least"):
        search_of(agent, -1)
