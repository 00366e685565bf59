"""Tests of bad arguments: a call raises while tracing, and its message gives the fix.

An action out of range does not raise: it is clipped and reported in `info`.
"""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs import spaces
from jaxenvs.core import checks
from jaxenvs.xland.trials import Trials

pytestmark = pytest.mark.usefixtures("as_a_user")
KEY = jax.random.key(0)
KEYS = jax.random.split(KEY, 4)
DOOR_KEY = "Grid-DoorKey-5x5-v0"


@pytest.fixture(scope="module")
def env():
    return jaxenvs.make(DOOR_KEY)


@pytest.fixture(scope="module")
def state(env):
    return jax.jit(env.reset)(KEY).state


def refused(call, *args, **kwargs):
    """Make a call that must raise `TypeError`; return the message, which must be short."""
    with pytest.raises(TypeError) as raised:
        call(*args, **kwargs)
    text = str(raised.value)
    assert "\n" not in text and len(text) < 400, "one sentence"
    return text


@pytest.mark.parametrize("key", [0, None, "key", np.int32(3), jnp.zeros(2, jnp.int32), 1.5])
def test_a_wrong_key_says_how_to_make_one(env, state, key):
    for call in (env.reset, env.sample_level, lambda key: env.step(key, state, 0)):
        assert "jax.random.key(0)" in refused(call, key)
    assert "reset" in refused(env.reset, key)


@pytest.mark.parametrize("keys", [KEYS, jax.random.key_data(KEYS), KEYS.reshape(2, 2)])
def test_a_batch_of_keys_to_one_environment_points_to_make_vec(env, state, keys):
    for call in (env.reset, env.sample_level, lambda keys: env.step(keys, state, 0)):
        text = refused(call, keys)
        assert "make_vec" in text and "jax.vmap" in text
    assert "make_vec" in refused(jax.jit(env.reset), KEYS)


def test_raw_keys_of_old_code_work(env):
    old, new = env.reset(jax.random.PRNGKey(0)), env.reset(KEY)
    np.testing.assert_array_equal(old.obs, new.obs)


@pytest.mark.parametrize("action", [jnp.zeros(4, jnp.int32), np.zeros((1,), np.int32), [0, 1]])
def test_an_action_of_a_wrong_shape_says_what_fits(env, state, action):
    text = refused(env.step, KEY, state, action)
    assert "Discrete(7)" in text and ("make_vec" in text or "action_space.sample" in text)


@pytest.mark.parametrize("action", [1.0, jnp.float32(1), np.float64(2), True, jnp.array(True)])
def test_an_action_that_is_no_integer_is_refused(env, state, action):
    text = refused(env.step, KEY, state, action)
    assert "integer" in text and "Discrete(7)" in text


@pytest.mark.parametrize("action", ["left", None, {}, object()])
def test_an_action_that_is_no_array_is_refused(env, state, action):
    assert "Discrete(7)" in refused(env.step, KEY, state, action)


PARTS = [
    (3, r"a dict with the names \['force', 'way'\], got int 3"),
    ({"way": 1}, r"a dict with the names \['force', 'way'\], got dict"),
    ({"way": 1, "force": [0.0, 0.0], "more": 1}, "a dict with the names"),
    ({"way": 1, "force": 0.5}, r"\['force'\] must have shape \(2,\)"),
    ({"way": [1, 1], "force": [0.0, 0.0]}, r"\['way'\] must have shape \(\)"),
    ({"way": 1.5, "force": [0.0, 0.0]}, r"\['way'\] must be an integer of Discrete\(2\)"),
    ({"way": 1, "force": "strong"}, r"\['force'\] must be an element of Box"),
]


@pytest.mark.parametrize(("action", "words"), PARTS)
def test_a_wrong_part_of_an_action_is_named(action, words):
    parts = {"way": spaces.Discrete(2), "force": spaces.Box(-1, 1, (2,), np.float32)}
    text = refused(checks.action_in, spaces.Dict(parts), action, "step")
    assert re.search(f"step: the action.*{words}", text)


@pytest.mark.parametrize(("action", "clipped"), [(99, 6), (7, 6), (-1, 0), (-(2**31), 0)])
def test_an_action_out_of_range_is_clipped_and_reported(env, state, action, clipped):
    step = jax.jit(env.step)
    wrong, right = (step(KEY, state, jnp.int32(a)) for a in (action, clipped))
    assert wrong.info["invalid_action"] and not right.info["invalid_action"]
    for a, b in zip(jax.tree.leaves(wrong[:5]), jax.tree.leaves(right[:5]), strict=True):
        np.testing.assert_array_equal(a, b)
    assert env.step(KEY, state, action).info["invalid_action"]


def test_an_action_too_large_for_its_dtype_is_out_of_range_too(env, state):
    assert env.step(KEY, state, jnp.uint8(255)).info["invalid_action"]
    assert not env.step(KEY, state, jnp.uint8(6)).info["invalid_action"]
    assert env.step(KEY, state, jnp.uint32(2**32 - 1)).info["invalid_action"]


@pytest.mark.parametrize("action", [np.int64(2**32 + 2), np.uint64(2**40), np.array(2 - 2**32)])
def test_a_64_bit_integer_is_not_wrapped_to_a_legal_action(env, state, action):
    assert "must be an element of Discrete(7)" in refused(env.step, KEY, state, action)
    batch = jaxenvs.make_vec(env, 2)
    states = batch.reset(KEY).state
    with pytest.raises(TypeError, match=r"must have integers of u?int32"):
        batch.step(KEY, states, np.stack([action, action]))
    with pytest.raises(TypeError, match=r"must have integers of u?int32"):
        batch.step(KEY, states, [action, action])
    assert not env.step(KEY, state, np.int64(2)).info["invalid_action"]
    assert env.step(KEY, state, np.int64(-1)).info["invalid_action"]


@pytest.mark.parametrize("action", [1, -2, 7, True])
def test_an_integer_for_a_continuous_action_is_the_same_number(action):
    """An integer within the bounds of a float `Box` is legal; its bounds are not rounded."""
    pendulum = jaxenvs.make("Classic-Pendulum-v0")
    state = pendulum.reset(KEY).state
    whole, real = (pendulum.step(KEY, state, jnp.array([a])) for a in (action, float(action)))
    assert whole.reward == real.reward
    assert whole.info["invalid_action"] == real.info["invalid_action"] == (action == 7)
    for low, high in ((-0.5, 0.5), (-np.inf, np.inf)):
        space = spaces.Box(low, high, (1,), np.float32)
        clipped, is_invalid = checks.action_in(space, np.array([action]), "step")
        assert clipped.dtype == jnp.float32 and clipped[0] == np.clip(float(action), low, high)
        assert is_invalid == (low == -0.5)


def test_a_batch_accepts_integers_for_continuous_actions():
    batch = jaxenvs.make_vec("Classic-Pendulum-v0", 2)
    states = batch.reset(KEY).state
    found = [batch.step(KEY, states, a) for a in (np.array([[1], [2**40]]), [[1.0], [1e9]])]
    assert found[0].info["invalid_action"].tolist() == [False, True]
    np.testing.assert_array_equal(found[0].reward, found[1].reward)


@pytest.mark.parametrize("action", [2**31, 2**32, -(2**40), np.int64(2**62), np.uint64(2**64 - 1)])
def test_a_huge_integer_is_clipped_like_the_float(action):
    """JAX would wrap it to 32 bits, to the wrong end of the bounds or to a legal action."""
    space = spaces.Box(-1.0, 0.5, (), np.float32)
    clipped, is_invalid = checks.action_in(space, action, "step")
    assert clipped == (0.5 if action > 0 else -1.0) and is_invalid


@pytest.mark.parametrize("action", [1j, np.complex64(0.1), [1], [0.1], {"k": 1}, None, "1"])
def test_a_continuous_action_is_a_real_number(action):
    refused(checks.action_in, spaces.Box(-1.0, 1.0, (), np.float32), action, "step")


def test_each_row_of_a_batch_has_its_own_invalid_action(env):
    venv = jaxenvs.make_vec(env, 3)
    actions = jnp.array([0, 7, -1], jnp.int32)
    step = jax.jit(lambda key: venv.step(key, venv.reset(key).state, actions))(KEY)
    assert step.info["invalid_action"].tolist() == [False, True, True]


def test_a_state_of_a_batch_points_to_make_vec(env):
    states = jax.jit(jax.vmap(env.reset))(KEYS).state
    assert "make_vec" in refused(env.step, KEY, states, 0)


def test_a_state_of_make_vec_belongs_to_its_own_step(env):
    venv = jaxenvs.make_vec(env, 4)
    assert "make_vec" in refused(env.step, KEY, jax.jit(venv.reset)(KEY).state, 0)


def test_a_state_of_another_size_asks_about_the_settings(env):
    other = jaxenvs.make("Grid-DoorKey-8x8-v0").reset(KEY).state
    assert "other settings" in refused(env.step, KEY, other, 0)


@pytest.mark.parametrize("wrong", [None, 3, (), {}])
def test_the_error_for_a_wrong_state_names_reset_and_step(env, wrong):
    assert "env.reset" in refused(env.step, KEY, wrong, 0)


def test_the_observation_in_place_of_the_state(env):
    assert "env.reset" in refused(env.step, KEY, env.reset(KEY).obs, 0)


@pytest.mark.parametrize("wrong", [3, {"max_steps_in_episode": 3}, (1,)])
def test_wrong_params_point_to_default_params(env, state, wrong):
    for call in (env.reset, env.sample_level, lambda k, p: env.step(k, state, 0, p)):
        assert "env.default_params" in refused(call, KEY, wrong)


# The last two limits would become 0 if they were cast to 32 bits.
@pytest.mark.parametrize("limit", [1.5, "ten", True, np.float32(3), 2**40, np.int64(2**40)])
def test_a_param_of_a_wrong_kind_is_named(env, limit):
    text = refused(env.reset, KEY, env.default_params.replace(max_steps_in_episode=limit))
    assert "max_steps_in_episode" in text and "int32" in text


def test_a_batch_of_params_to_one_environment_points_to_make_vec(env):
    params = env.default_params.replace(max_steps_in_episode=jnp.arange(4))
    text = refused(env.reset, KEY, params)
    assert "max_steps_in_episode" in text and "make_vec" in text


# Ids of all families but PuzzleScript, among them one id of each class of puzzles.
LEVELS = (
    "BabyAI-OpenRedDoor-v0",
    "Classic-Acrobot-v0",
    "Classic-CartPole-v0",
    "Classic-MountainCar-v0",
    "Classic-MountainCarContinuous-v0",
    "Classic-Pendulum-v0",
    "Craft-Classic-Ids-v0",
    "Craft-Ids-v0",
    DOOR_KEY,
    *jaxenvs.registry.representatives("Puzzle"),
    "XLand-R1-9x9-v0",
)


@pytest.mark.parametrize("id", LEVELS)
def test_a_level_of_another_size_is_refused(id):
    """Each array of a level is rejected if its last axis has one element too many."""
    env = jaxenvs.make(id)
    leaves, structure = jax.tree.flatten(env.level_shape)
    assert leaves
    for i, leaf in enumerate(leaves):
        wide = (*leaf.shape[:-1], leaf.shape[-1] + 1) if leaf.shape else (1,)
        wrong = [*leaves[:i], jax.ShapeDtypeStruct(wide, leaf.dtype), *leaves[i + 1 :]]
        text = refused(jax.eval_shape, env.reset_to, KEY, jax.tree.unflatten(structure, wrong))
        assert f"has shape {wide}, expected {leaf.shape}; " in text
        assert ("another size" in text) == bool(leaf.shape), text


def test_a_level_of_a_larger_world_is_refused_before_it_makes_a_state(env):
    larger = jaxenvs.make("Grid-DoorKey-8x8-v0").sample_level(KEY)
    text = refused(env.reset_to, KEY, larger)
    assert "DoorKey.reset_to: level.grid has shape (8, 8), expected (5, 5); " in text
    levels = jax.vmap(env.sample_level)(KEYS)
    assert "make_vec" in refused(env.reset_to, KEY, levels)
    assert "env.sample_level" in refused(env.reset_to, KEY, None)


def test_a_level_of_trials_of_another_size_is_refused():
    trials = Trials(env=jaxenvs.make("XLand-R1-9x9-v0"), num_tasks=2)
    level = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), trials.level_shape)
    text = refused(trials.reset_to, KEY, level.replace(task=jnp.zeros(1, jnp.int32)))
    assert "Trials.reset_to: level.task has shape (1,), expected ()" in text


@pytest.mark.parametrize("limit", [5, np.int64(5), jnp.uint8(5)])
def test_numbers_of_any_integer_type_are_params(env, limit):
    params = env.default_params.replace(max_steps_in_episode=limit)
    step = env.step(KEY, env.reset(KEY, params).state, 6, params)
    assert not step.truncated


def test_default_params_may_be_python_numbers():
    # This test also fails if JAX warns about 64-bit types: in the tests, a warning is an error.
    params = jaxenvs.Params(max_steps_in_episode=30)
    assert checks.tree_like(params, params, "reset", "params").max_steps_in_episode.dtype == "int32"


def test_a_batch_refuses_arrays_of_another_size(env):
    venv = jaxenvs.make_vec(env, 4)
    state = jax.jit(venv.reset)(KEY).state
    wrong = jnp.zeros(3, jnp.int32)
    assert "4 environments" in refused(venv.step, KEY, state, wrong)
    assert "4 environments" in refused(venv.step, KEY, state, 0)
    assert "4 keys" in refused(venv.reset, jax.random.split(KEY, 3))
    params = env.default_params.replace(max_steps_in_episode=wrong)
    assert "this batch has 4" in refused(venv.reset, KEY, params)
    assert "reset" in refused(venv.step, KEY, state.env, jnp.zeros(4, jnp.int32))
    assert "jax.random.key(0)" in refused(venv.reset, 0)


VECTORS = [
    ({"num_envs": 0}, ValueError, "from 1 to"),
    ({"num_envs": 2.0}, TypeError, "int"),
    ({"num_envs": 2, "autoreset": "samestep"}, ValueError, "'same_step'"),
    ({"num_envs": 2, "reset_source": "pools"}, ValueError, "did you mean 'pool'"),
    ({"num_envs": 2, "pool_size": 0}, ValueError, "at least 1"),
    ({"num_envs": 2, "chunk": 0}, ValueError, "from 1 to"),
    ({"num_envs": 2, "sise": 5}, TypeError, "did you mean 'size'"),
]


@pytest.mark.parametrize(("fields", "error", "fix"), VECTORS)
def test_make_vec_rejects_unknown_arguments(fields, error, fix):
    with pytest.raises(error) as raised:
        jaxenvs.make_vec(DOOR_KEY, **fields)
    assert fix in str(raised.value)


def test_make_vec_takes_an_id_or_an_environment(env):
    assert jaxenvs.make_vec(env, 2) == jaxenvs.make_vec(DOOR_KEY, 2)
    assert "make()" in refused(jaxenvs.make_vec, env, 2, size=6)
    assert "make()" in refused(jaxenvs.make_vec, 7, 2)
    assert hash(jaxenvs.make_vec(env, 2)) == hash(jaxenvs.make_vec(env, 2))
    with pytest.raises(dataclasses.FrozenInstanceError):
        jaxenvs.make_vec(env, 2).num_envs = 3


def test_the_error_names_the_dtype_that_a_step_changed(env):
    class Careless(type(env)):
        """Faulty environment whose step changes the dtype of the grid."""

        def step_state(self, key, state, action, params):
            moved = super().step_state(key, state, action, params)
            return moved._replace(
                state=moved.state.replace(grid=moved.state.grid.astype(jnp.int32))
            )

    careless = Careless(size=5)
    text = refused(careless.step, KEY, careless.reset(KEY).state, 0)
    assert "Careless.step_state" in text and "grid" in text and "astype" in text
