"""Tests of continuous actions through every adapter."""

import jax
import numpy as np
import pytest

import jaxenvs
from jaxenvs import adapters

ID = "Classic-Pendulum-v0"


# Gymnasium warns that actions range from -2 to 2, as it does for its own Pendulum.
@pytest.mark.filterwarnings("ignore:.*symmetric and normalized space")
def test_gymnasium_takes_continuous_actions():
    gymnasium = pytest.importorskip("gymnasium")
    from gymnasium.utils.env_checker import check_env

    theirs = gymnasium.make("Pendulum-v1")
    env = adapters.to_gymnasium(ID)
    assert env.action_space == theirs.action_space
    assert env.observation_space == theirs.observation_space
    check_env(env, skip_render_check=True)
    env.reset(seed=0)
    assert env.step(np.array([1.5], np.float32))[4]["invalid_action"] is False
    env.step([1.5])  # a list instead of a float32 array
    for wrong in (np.array([2.5], np.float32), np.float32(1.0), [np.nan], ["1"]):
        with pytest.raises(gymnasium.error.InvalidAction, match=r"Box\(-2.0, 2.0, \(1,\)"):
            env.step(wrong)


def test_batches_of_gymnasium_take_continuous_actions():
    pytest.importorskip("gymnasium")
    envs = adapters.to_gymnasium_vec(ID, 3)
    assert envs.action_space.shape == (3, 1)
    envs.reset(seed=0)
    obs, reward, *_ = envs.step(envs.action_space.sample())
    assert obs.shape == (3, 3) and reward.shape == (3,)


def test_dm_env_takes_continuous_actions():
    pytest.importorskip("dm_env")
    env = adapters.to_dm_env(ID)
    spec = env.action_spec()
    assert (spec.shape, spec.minimum, spec.maximum) == ((1,), -2, 2)
    env.reset()
    assert env.step(spec.generate_value()).observation.shape == (3,)


def test_gymnax_takes_continuous_actions():
    pytest.importorskip("gymnax")
    env = adapters.to_gymnax(ID)
    assert env.num_actions == 1  # number of components of an action
    key = jax.random.key(0)
    _, state = env.reset(key)
    action = env.action_space().sample(key)
    obs, *_ = env.step(key, state, action)
    assert action.shape == (1,) and obs.shape == (3,)


def test_sb3_takes_continuous_actions():
    pytest.importorskip("stable_baselines3")
    envs = adapters.to_sb3_vec(ID, 2)
    envs.reset()
    obs, *_ = envs.step(np.zeros((2, 1), np.float32))
    assert envs.action_space.shape == (1,) and obs.shape == (2, 3)


def test_wrappers_take_continuous_actions_or_say_why_not():
    env = jaxenvs.make(ID)
    with pytest.raises(ValueError, match="PreviousStep: needs Discrete actions, got Box"):
        jaxenvs.wrappers.PreviousStep(env=env)
    sticky = jaxenvs.wrappers.StickyAction(env=env)
    params = sticky.default_params.replace(repeat_probability=np.float32(1.0))

    @jax.jit
    def play(key):
        state = sticky.reset(key, params).state
        first = sticky.step(key, state, np.array([1.0], np.float32), params)
        return first, sticky.step(key, first.state, np.array([-1.0], np.float32), params)

    first, second = play(jax.random.key(0))
    assert not first.info["repeated_action"] and second.info["repeated_action"]
    plain = env.step(jax.random.key(1), first.state.env, np.array([1.0], np.float32))
    np.testing.assert_allclose(second.obs, plain.obs, rtol=1e-6)
