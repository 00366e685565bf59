"""Tests of `to_gymnax`: interfaces with six and five values per step, and gymnax's wrappers.

The wrappers come from gymnax 1.0.1.
"""

import copy

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnax.environments import environment, spaces
from gymnax.wrappers import (
    FlattenObservationWrapper,
    GymnaxToGymWrapper,
    GymnaxToVectorGymWrapper,
    LegacyStepAPIWrapper,
    LogWrapper,
)
from worlds import DOORS, Doors

import jaxenvs
from jaxenvs import wrappers
from jaxenvs.adapters import to_gymnax
from jaxenvs.adapters.gymnax import gymnax_space
from jaxenvs.core.spaces import Box
from jaxenvs.core.starts import LEVEL, RESET, STEP

KEY = jax.random.key(3)
ROWS, STEPS = 3, 24
FLAT = wrappers.Flatten(env=DOORS)
ACTIONS = jnp.asarray(np.random.default_rng(0).integers(0, 3, (ROWS, STEPS)), jnp.int32)


@pytest.fixture(autouse=True)
def as_gymnax_users_have_it():
    """Use standard dtype promotion, because gymnax mixes dtypes."""
    with jax.numpy_dtype_promotion("standard"):
        yield


def rollout(env, params=None):
    """Return a function from (key, actions) to the first observation and all steps' results."""

    def run(key, actions):
        obs, state = env.reset(key, params)

        def one(state, key_and_action):
            seen, state, *rest = env.step(key_and_action[0], state, key_and_action[1], params)
            return state, (seen, *rest)

        keys = jax.random.split(key, len(actions))
        return obs, jax.lax.scan(one, state, (keys, actions))[1]

    return run


def same(a, b):
    chex.assert_trees_all_equal(a, b)


def by_hand(env, key, actions):
    """Return the expected rollout of one environment, computed by a loop over its steps."""
    step, fold = jax.jit(env.step), jax.random.fold_in

    @jax.jit
    def begin(key):
        return env.reset_to(fold(key, RESET), env.sample_level(fold(key, LEVEL)))

    obs, state = begin(key)
    found = [obs]
    for key_step, action in zip(jax.random.split(key, len(actions)), actions, strict=True):
        stepped = step(fold(key_step, STEP), state, action)
        obs, state = begin(key_step) if stepped.done else stepped[:2]
        ends = (stepped.terminated, stepped.truncated)
        found.append((obs, stepped.reward, *ends, stepped.obs))
    return found


@pytest.fixture(scope="module")
def batch():
    """Return one key per environment, and the adapter's rollouts under `vmap` with these keys."""
    keys = jax.random.split(KEY, ROWS)
    with jax.numpy_dtype_promotion("standard"):
        return keys, jax.jit(jax.vmap(rollout(to_gymnax(FLAT))))(keys, ACTIONS)


def test_six_values_of_every_step(batch):
    keys, (first, (obs, reward, terminated, truncated, info)) = batch
    wanted = by_hand(FLAT, keys[1], ACTIONS[1])
    same(first[1], wanted[0])
    for t, moment in enumerate(wanted[1:]):
        seen = (obs, reward, terminated, truncated, info["final_observation"])
        same(jax.tree.map(lambda leaf, t=t: leaf[1, t], seen), moment)
    assert terminated.any() and truncated.any() and not (terminated & truncated).any()
    same((info["terminated"], info["truncated"]), (terminated, truncated))
    same(info["discount"], 1.0 - terminated)
    assert (info["nested"]["both"][..., 1] == reward).all()


@pytest.mark.full
def test_levels_are_the_same_alone_and_in_any_batch(batch):
    """A single environment and a batch generate the same levels, although the code differs.

    A single environment generates a level in a `cond`, a batch generates levels in `make_vec`.
    """
    keys, wanted = batch
    run = rollout(to_gymnax(FLAT))
    same(jax.jit(run)(keys[1], ACTIONS[1]), jax.tree.map(lambda leaf: leaf[1], wanted))
    nested = jax.jit(jax.vmap(jax.vmap(run)))(keys[None], ACTIONS[None])
    same(jax.tree.map(lambda leaf: leaf[0], nested), wanted)
    raw = jax.random.key_data(keys)  # uint32 keys, as `jax.random.PRNGKey` makes them
    same(jax.jit(jax.vmap(run))(raw, ACTIONS), wanted)


@pytest.mark.full
def test_five_values_for_older_agents(batch):
    keys, (first, (obs, reward, terminated, truncated, info)) = batch
    legacy = to_gymnax(FLAT, legacy=True)
    found = jax.jit(jax.vmap(rollout(legacy)))(keys, ACTIONS)
    numbers = ("discount", "invalid_action", "terminated", "truncated")
    info = {name: info[name] for name in numbers}
    done = terminated | truncated
    same(found, (first, (obs, reward, done, info)))

    # PureJaxQL averages the infos of its test episodes in this way.
    @jax.jit
    def averaged(infos):
        return jax.tree.map(
            lambda x: jnp.nanmean(jnp.where(infos["returned_episode"], x, jnp.nan)), infos
        )

    means = averaged({**found[1][3], "returned_episode": done})
    assert means["truncated"] == truncated.sum() / done.sum()
    obs, state = legacy.reset(KEY)
    limited = legacy.default_params.replace(max_steps_in_episode=2)
    _, state, _, done, info = legacy.step(KEY, state, 1, limited)
    assert not done
    _, state, _, done, info = legacy.step(KEY, state, 1, limited)
    assert done and state.time == 0  # the environment has restarted
    assert info["truncated"] != info["terminated"]
    assert set(legacy.step_env(KEY, state, 1)[4]) == set(numbers)
    converted = LegacyStepAPIWrapper(to_gymnax(FLAT))
    assert len(converted.step(KEY, converted.reset(KEY)[1], 1)) == 5


def test_log_wrapper_counts_right(batch):
    keys, (_, (_, reward, terminated, truncated, _)) = batch
    run = rollout(LogWrapper(FlattenObservationWrapper(to_gymnax(FLAT))))
    _, (_, _, _, _, info) = jax.jit(jax.vmap(run))(keys, ACTIONS)
    returned = 0
    for row in range(ROWS):
        total = length = 0
        for t in range(STEPS):
            total, length = total + float(reward[row, t]), length + 1
            assert info["returned_episode"][row, t] == (terminated | truncated)[row, t]
            if info["returned_episode"][row, t]:
                assert float(info["returned_episode_returns"][row, t]) == total
                assert int(info["returned_episode_lengths"][row, t]) == length
                total = length = 0
                returned += 1
    assert returned > ROWS


def test_flatten_wrapper_flattens_pictures():
    env = FlattenObservationWrapper(to_gymnax("Grid-Empty-5x5-v0"))
    obs, state = env.reset(KEY)
    seen, *_, info = env.step(KEY, state, 0, env.default_params)
    assert obs.shape == seen.shape == info["final_observation"].shape == (147,)
    assert env.observation_space(env.default_params).shape == (147,)


def test_gymnaxs_own_adapters_take_it():
    """Both of gymnax's adapters to Gymnasium accept the environment.

    Both adapters convert the spaces to Gymnasium's, and one sets attributes of a copy of the
    environment.
    """
    rows = GymnaxToVectorGymWrapper(to_gymnax(FLAT), 2)
    obs, _ = rows.reset()
    assert obs.shape == rows.observation_space.shape == (2, 8)
    rows.step(jnp.zeros(2, jnp.int32))
    single = GymnaxToGymWrapper(to_gymnax("Grid-Empty-5x5-v0", obs="dict"))
    assert single.observation_space["image"].shape == (7, 7, 3)


def test_spaces_draw_all_their_values():
    for space in (Doors(vector=True).action_space, Box(False, True, (3,), np.bool_)):
        drawn = jax.jit(jax.vmap(gymnax_space(space).sample))(jax.random.split(KEY, 64))
        assert drawn.dtype == space.dtype
        np.testing.assert_array_equal((drawn.min(0), drawn.max(0)), (space.low, space.high))
    low = gymnax_space(Box(0, [1, 2], (2,), np.int32)).low
    # gymnax can only translate a space whose `low` has the shape of `high`
    assert low.shape == (2,)


def test_params_differ_in_a_batch():
    env = to_gymnax(FLAT, legacy=True)
    limits = env.default_params.replace(max_steps_in_episode=jnp.array([1, 3, 50]))

    def done(key, limit):
        return rollout(env, limit)(key, ACTIONS[0, :3])[1][2]

    ends = jax.jit(jax.vmap(done, in_axes=(None, 0)))(KEY, limits)
    assert ends[0].all() and not ends[1:, 0].any()
    assert ends[1].any()  # the time limit ends this episode, unless it has ended before


def test_it_is_an_environment_of_gymnax():
    env = to_gymnax("Grid-Empty-5x5-v0", obs="dict")
    assert isinstance(env, environment.Environment)
    assert env == to_gymnax("Grid-Empty-5x5-v0", obs="dict") == copy.deepcopy(env)
    assert hash(env) == hash(copy.deepcopy(env))
    assert env != to_gymnax("Grid-Empty-5x5-v0", obs="dict", legacy=True)
    params = env.default_params
    assert params.max_steps_in_episode == 100 and env.num_actions == 7
    action = env.action_space(params)
    assert isinstance(action, spaces.Discrete) and action.n == 7
    seen = env.observation_space(params)
    assert isinstance(seen, spaces.Dict) and isinstance(seen.spaces["direction"], spaces.Discrete)
    assert seen.spaces["image"].shape == (7, 7, 3)
    obs, state = jax.jit(env.reset)(KEY, params)
    same(env.get_obs(state), obs)
    same(env.observe(KEY, state, 0, params), obs)
    assert not env.is_truncated(state, params)
    assert "Empty" in env.name
    assert to_gymnax(Doors(vector=True)).num_actions == 2
    assert to_gymnax(Doors(vector=True)).action_space().shape == (2,)
    many = to_gymnax(Doors(vector=True)).observation_space()
    assert (many.spaces["number"].low, many.spaces["number"].high) == (0, 1000)


@pytest.mark.usefixtures("as_a_user")
def test_mistakes_are_named():
    env = to_gymnax(FLAT)
    with pytest.raises(TypeError, match=r"make one with jax.random.key\(0\)"):
        env.reset(0)
    _, state = env.reset(KEY)
    with pytest.raises(TypeError, match="one key is needed"):
        env.step(jax.random.split(KEY, 2), state, 0)
    with pytest.raises(TypeError, match="step: params must be like Params"):
        env.step(KEY, state, 0, 3)
    with pytest.raises(TypeError, match="to_gymnax: needs an id"):
        to_gymnax(env)
    with pytest.raises(jaxenvs.UnknownIdError, match="did you mean"):
        to_gymnax("Grid-Emty-5x5-v0")
