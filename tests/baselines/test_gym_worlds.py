"""Tests of Gymnasium environments in Ray actors: spaces, ends of episodes, evaluation."""

import functools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_gym  # registers the environments used below

from jaxenvs import spaces
from jaxenvs.baselines import registry
from jaxenvs.baselines.networks import policies
from jaxenvs.baselines.ray import actors as ray_actors
from jaxenvs.baselines.ray import gym_envs
from jaxenvs.baselines.registry import ALGORITHMS
from jaxenvs.core import distributions

SIGNAL = "gym:tiny_gym:Signal-v0"


def test_spaces_are_those_of_gymnasium_in_32_bits():
    assert gym_envs.look(SIGNAL, {}).observation_space == spaces.Box(0, 9, (2,), np.float32)
    assert gym_envs.look(SIGNAL, {}).action_space == spaces.Discrete(2)
    parts = gym_envs.look("gym:tiny_gym:Parts-v0", {}).observation_space
    assert parts == spaces.Dict(
        {
            "discrete": spaces.Discrete(2),
            "long": spaces.Box(-3, 3, (1,), np.int32),
            "picture": spaces.Box(0, 255, (2, 2, 3), np.uint8),
            "several": spaces.MultiDiscrete([2, 3]),
            "switches": spaces.Box(0, 1, (3,), np.int8),
        }
    )
    box = gymnasium.spaces.Box(-(2**40), 2**40, (1,), np.int64)
    assert gym_envs.convert(box, "it").dtype == np.float32
    assert gym_envs.convert(gymnasium.spaces.Box(0, 1, (2,), bool), "it").dtype == np.int8


def test_observations_lie_in_the_space_and_start_at_0():
    world = gym_envs.look("gym:tiny_gym:Parts-v0", {})
    envs = gym_envs.GymEnvs(world.name, {}, 3)
    obs = envs.reset(0)
    for _ in range(10):
        for i in range(3):
            one = jax.tree.map(lambda leaf, i=i: leaf[i], obs)
            assert bool(world.observation_space.contains(one))
        types = jax.tree.map(lambda leaf: leaf.dtype, obs)
        assert types == {k: v.dtype for k, v in world.observation_space.spaces.items()}
        signal = obs["discrete"]
        step = envs.step(signal)
        np.testing.assert_array_equal(step.reward, 1.0)
        obs = step.obs
    envs.close()


@pytest.mark.parametrize("cut", [False, True])
def test_ends_and_the_true_successor(cut):
    envs = gym_envs.GymEnvs(SIGNAL, {"length": 3, "cut": cut}, 2)
    envs.reset(0)
    for t in range(1, 7):
        step = envs.step(np.zeros(2, np.int64))
        ended = t % 3 == 0
        assert (step.terminated == (ended and not cut)).all()
        assert (step.truncated == (ended and cut)).all()
        # The observation comes from the reset: in the final observation, all elements would be 9.
        assert (step.obs.max(axis=1) == 1).all()
        if ended and cut:
            np.testing.assert_array_equal(step.final_obs, 9.0)
        elif not ended:
            np.testing.assert_array_equal(step.final_obs, step.obs)


@pytest.fixture(scope="module")
def policy():
    """Return a network for the environment Signal, and its weights (first axis: one seed)."""
    world = gym_envs.look(SIGNAL, {})
    network = policies.ActorCritic(world.observation_space, 2, (8,), 0)
    weights = jax.jit(network.init)(jax.random.key(0), jnp.zeros(2))
    return network, jax.tree.map(lambda leaf: np.asarray(leaf)[None], weights)


def sampler(policy, fields: dict, num_envs=3, steps=7, seed=5) -> ray_actors.GymSampler:
    sampling = ray_actors.Sampling(policy[0], num_envs, steps, None)
    return ray_actors.GymSampler(SIGNAL, fields, sampling, seed)


def test_a_fragment_holds_the_steps(policy):
    network, weights = policy
    actor = sampler(policy, {"length": 3, "cut": True})
    first, _ = actor.collect(weights)
    second, last_obs = actor.collect(weights)
    whole = jax.tree.map(lambda a, b: np.concatenate([a, b]), first, second)
    assert whole.pop("mask") is None  # no mask, because all actions of Signal are legal
    assert {name: leaf.shape for name, leaf in whole.items() if name != "obs"} == {
        name: (14, 3) for name in whole if name != "obs"
    }
    cut = np.arange(1, 15) % 3 == 0
    np.testing.assert_array_equal(whole["truncated"], np.tile(cut[:, None], 3))
    np.testing.assert_array_equal(whole["lengths"][:, 0], (np.arange(14) % 3) + 1)
    signal = whole["obs"].argmax(axis=-1)
    np.testing.assert_array_equal(whole["reward"], signal == whole["action"])
    np.testing.assert_allclose(whole["returns"][2], whole["reward"][:3].sum(axis=0))
    one = jax.tree.map(lambda leaf: leaf[0], weights)
    logits, value = jax.vmap(jax.vmap(lambda obs: network.apply(one, obs)))(
        jnp.asarray(whole["obs"])
    )
    np.testing.assert_allclose(whole["value"], value, rtol=1e-5)
    chosen = np.take_along_axis(jax.nn.log_softmax(logits), whole["action"][..., None], -1)[..., 0]
    np.testing.assert_allclose(whole["log_prob"], chosen, rtol=1e-4)
    nines = float(jax.jit(network.apply)(one, jnp.full(2, 9.0))[1])
    np.testing.assert_allclose(
        whole["truncation_value"], np.where(whole["truncated"], nines, 0), 1e-4
    )
    assert abs(nines) > 1e-3 and last_obs.shape == (3, 2)


def test_actions_differ_by_environment_step_and_actor(policy):
    actions = [sampler(policy, {}, 64, 2).collect(policy[1])[0]["action"] for _ in range(2)]
    np.testing.assert_array_equal(*actions)  # the two samplers have the same seed
    assert (actions[0][0] != actions[0][1]).any() and 0 < actions[0].mean() < 1
    other = sampler(policy, {}, 64, 2, seed=6)
    assert (other.collect(policy[1])[0]["action"] != actions[0]).any()


@pytest.mark.parametrize(("id", "draws"), [("Steered", (1,)), ("Chosen", (2,))])
def test_vector_actions_are_drawn_by_the_policy(id, draws):
    """An actor's rollout stores the policy's raw samples; environment actions are made of them."""
    world = gym_envs.look(f"gym:tiny_gym:{id}-v0", {})
    network = registry.network(ALGORITHMS["ppo-ray"], world, {"hidden": (8,), "embed": 0})
    weights = jax.jit(network.init)(jax.random.key(0), jnp.zeros(2))
    sampling = ray_actors.Sampling(network, 3, 20, None)
    actor = ray_actors.GymSampler(world.name, {}, sampling, 0)
    made, _ = actor.collect(jax.tree.map(lambda leaf: np.asarray(leaf)[None], weights))
    assert made["action"].shape == (20, 3, *draws)
    policy = distributions.of(world.action_space)

    @jax.jit
    def log_prob(obs, action):
        outputs, _ = jax.vmap(jax.vmap(functools.partial(network.apply, weights)))(obs)
        return policy.log_prob(outputs, action)

    wanted = log_prob(made["obs"], made["action"])
    np.testing.assert_allclose(made["log_prob"], wanted, rtol=1e-4, atol=1e-5)
    right = made["obs"].argmax(axis=-1) == (made["action"][..., 0] > 0)
    np.testing.assert_array_equal(made["reward"], right)
    with pytest.raises(ValueError, match=r"apex needs a Discrete one: give --algo ppo-ray$"):
        registry.network(ALGORITHMS["apex"], world, {"hidden": (8,), "embed": 0, "dueling": True})


def test_evaluation_plays_equally_many_episodes_per_environment(policy):
    actor = sampler(policy, {"length": 4}, num_envs=2)
    actor.collect(policy[1])  # leaves an unfinished episode, which must not count in the evaluation
    returns, lengths, terminated = actor.play(policy[1], episodes=3, seed=1)
    assert returns.shape == (6,) and (lengths == 4).all() and (terminated == 1).all()
    assert (returns <= 4).all() and returns.sum() > 0


@pytest.mark.parametrize(
    ("id", "words"),
    [
        ("gym:CartPol-v1", "CartPol-v1: Gymnasium cannot make it .*CartPole.*give gym:ID"),
        ("gym:no_such_module:Thing-v0", "No module named 'no_such_module'"),
        ("gym:tiny_gym:Bits-v0", "action space MultiBinary.*; learners on Ray take a Discrete"),
        ("gym:tiny_gym:Spoken-v0", "observations are Text.*wrap the environment"),
    ],
)
def test_unsupported_spaces_are_refused(id, words):
    with pytest.raises(ValueError, match=words):
        gym_envs.look(id, {})


def test_fields_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="unexpected keyword argument 'colour'"):
        gym_envs.look(SIGNAL, {"colour": 3})
    assert tiny_gym.Signal().action_space.start == 1
