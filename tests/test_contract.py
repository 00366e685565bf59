"""What every registered environment promises, whatever it is about.

Needs only pytest, `conftest.py`, `endings.py` and jaxenvs: it runs against an installed wheel as
well.
"""

import dataclasses
import hashlib
import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from endings import ENDINGS

import jaxenvs

IDS = jaxenvs.registry.list()
ROWS, STEPS = 4, 256  # the length of the golden traces: one compilation serves both
FIRST = sorted({jaxenvs.spec(id).env_class: id for id in reversed(IDS)}.values())
FAMILIES = {jaxenvs.spec(id).family: id for id in reversed(IDS)}
X64_IDS = sorted({*FIRST[:: max(1, len(FIRST) // 3)], *FAMILIES.values()})

every_id = pytest.mark.parametrize("id", IDS)


def by_default(ids, of):
    """Parameters of which `ids` run by default, and the others among the long proofs."""
    return [id if id in ids else pytest.param(id, marks=pytest.mark.slow) for id in of]


# What must be compiled runs by default on one id of each module, whose classes share their step;
# the golden traces are rollouts of every class.
MODULES = {jaxenvs.spec(id).env_class.__module__: id for id in FIRST}
compiled_id = pytest.mark.parametrize("id", by_default(MODULES.values(), IDS))
# What is slow and does not depend on the size runs on each class, by default on some modules.
every_class = pytest.mark.parametrize("id", by_default(list(MODULES.values())[2::5], FIRST))


def same(a, b):
    """Assert that two pytrees are equal in structure, dtypes and every bit."""
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for (path, x), y in zip(
        jax.tree_util.tree_leaves_with_path(a), jax.tree.leaves(b), strict=True
    ):
        where = jax.tree_util.keystr(path)
        assert x.dtype == y.dtype, where
        np.testing.assert_array_equal(x, y, err_msg=where)


def at(tree, *index):
    """Row or moment of a pytree."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def stack(trees):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def types(tree):
    """Structure with shape, dtype and weakness of every leaf: what decides about recompiling."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, [(x.shape, x.dtype, x.weak_type) for x in leaves]


def plan(env, seed=0):
    """Key of the world, keys and random actions of an episode."""
    key_world, key_steps, key_actions = jax.random.split(jax.random.key(seed), 3)
    actions = jax.vmap(env.action_space.sample)(jax.random.split(key_actions, STEPS))
    return key_world, jax.random.split(key_steps, STEPS), actions


@compiled_id
def test_shapes_and_types_never_change(id):
    env = jaxenvs.make(id)
    key, action = jax.random.key(0), env.action_space.sample(jax.random.key(1))
    obs, state = jax.eval_shape(env.reset, key)
    step = jax.eval_shape(env.step, key, state, action)
    again = jax.eval_shape(env.step, key, step.state, action)
    assert types(step.state) == types(again.state) == types(state)
    assert types(step.obs) == types(again.obs) == types(obs)
    for leaf in jax.tree.leaves(step):
        assert not leaf.weak_type
        assert leaf.dtype not in (np.float64, np.int64)
    assert (step.reward.shape, step.reward.dtype) == ((), np.float32)
    assert (step.terminated.shape, step.terminated.dtype) == ((), np.bool_)
    assert (step.truncated.shape, step.truncated.dtype) == ((), np.bool_)
    assert step.info["invalid_action"].dtype == np.bool_


@compiled_id
def test_state_holds_plain_arrays_and_no_key(id):
    """Raw key words are uint32; with one in its hands a planner could foresee chance."""
    env = jaxenvs.make(id)
    leaves = jax.tree.leaves(env.state_shape)
    assert not any(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves)
    if any(leaf.dtype == np.uint32 for leaf in leaves):
        level = jax.jit(env.sample_level)(jax.random.key(0))
        begin = jax.jit(env.reset_to)
        a, b = (jax.tree.leaves(begin(jax.random.key(i), level).state) for i in (1, 2))
        for x, y in zip(a, b, strict=True):
            assert x.dtype != np.uint32 or (x == y).all(), "these words come from the key"


@compiled_id
def test_observations_and_rewards_lie_where_they_should(id, compiled):
    env = compiled(id).env
    key, keys, actions = plan(env)
    first, steps = compiled(id).rollout(key, keys, actions, env.default_params)
    assert env.observation_space.contains(first.obs)
    obs = jax.device_get(steps.obs)
    for i in range(0, STEPS, 8):
        assert env.observation_space.contains(at(obs, i))
    assert all(env.action_space.contains(action) for action in np.asarray(actions))
    assert not steps.info["invalid_action"].any()
    low, high = env.reward_range
    assert np.isfinite(steps.reward).all()
    assert ((steps.reward >= low) & (steps.reward <= high)).all()
    drawn = env.observation_space.sample(key)
    assert jax.tree.structure(drawn) == jax.tree.structure(first.obs)
    for wanted, given in zip(jax.tree.leaves(drawn), jax.tree.leaves(first.obs), strict=True):
        assert (wanted.shape, wanted.dtype) == (given.shape, given.dtype)


@compiled_id
def test_jit_vmap_and_scan_agree(id, compiled):
    """Scan over steps, one jitted call a step, a row of a batch: the same bits."""
    fast = compiled(id)
    params = fast.env.default_params
    key, keys, actions = plan(fast.env)
    first, scanned = fast.rollout(key, keys, actions, params)
    same(fast.rollout(key, keys, actions, params), (first, scanned))  # and the same key again
    same(fast.reset(key, params), first)
    state = first.state
    for i in range(4):
        step = fast.step(keys[i], state, actions[i], params)
        same(step, at(scanned, i))
        state = step.state
    # Rows are moments of the episode, in reverse order: each must be as if it were alone.
    rows = range(ROWS - 1, -1, -1)
    before = stack([at(scanned.state, i) for i in rows])
    next_keys, next_actions = (
        stack([keys[i + 1] for i in rows]),
        stack([actions[i + 1] for i in rows]),
    )
    batch = fast.batch_step(next_keys, before, next_actions, stack([params] * ROWS))
    for row, i in enumerate(rows):
        same(at(batch, row), at(scanned, i + 1))


@every_class
def test_without_jit_everything_is_the_same(id, compiled):
    fast = compiled(id)
    env, params = fast.env, fast.env.default_params
    key, keys, actions = plan(env)
    same(env.reset(key), fast.reset(key, params))
    state = fast.reset(key, params).state
    same(env.step(keys[0], state, actions[0]), fast.step(keys[0], state, actions[0], params))


@every_class
def test_reset_is_a_level_and_a_start_in_it(id, compiled):
    env = compiled(id).env
    key_level, key_state = jax.random.split(jax.random.key(3))
    level = jax.jit(env.sample_level)(key_level)
    same(
        jax.jit(env.reset_to)(key_state, level),
        compiled(id).reset(jax.random.key(3), env.default_params),
    )


@compiled_id
def test_each_function_compiles_once(id, compiled):
    fast = compiled(id)
    params = fast.env.default_params
    key, keys, actions = plan(fast.env)
    state = fast.reset(key, params).state
    state = fast.step(keys[0], state, actions[0], params).state
    resets, steps = fast.reset._cache_size(), fast.step._cache_size()
    for i in range(1, 4):
        state = fast.step(keys[i], state, actions[i], params).state
        fast.reset(keys[i], params)
    assert (fast.reset._cache_size(), fast.step._cache_size()) == (resets, steps)


@compiled_id
def test_the_time_limit_truncates_and_may_differ_in_a_batch(id, compiled):
    """Row i has a limit of i + 1 steps; the task's own end has precedence over the limit."""
    fast = compiled(id)
    env = fast.env
    given = jnp.arange(1, ROWS + 1, dtype=jnp.int32)
    params = stack([env.default_params] * ROWS).replace(max_steps_in_episode=given)
    keys = jax.random.split(jax.random.key(5), ROWS)
    state = stack([fast.reset(key, env.default_params).state for key in keys])
    limits = np.asarray(jax.vmap(env.time_limit)(state, params))
    assert (limits <= given).all(), "an episode's own limit is a share of what is given"
    for time in range(1, ROWS + 1):
        actions = jax.vmap(env.action_space.sample)(keys)
        step = fast.batch_step(keys, state, actions, params)
        np.testing.assert_array_equal(step.state.time, jnp.full(ROWS, time))
        np.testing.assert_array_equal(step.truncated, (limits <= time) & ~step.terminated)
        assert step.truncated.any()
        np.testing.assert_array_equal(step.done, step.truncated | step.terminated)
        np.testing.assert_array_equal(step.discount, 1 - np.float32(step.terminated))
        state = step.state


@compiled_id
def test_the_task_ends(id, compiled):
    fast = compiled(id)
    family = jaxenvs.spec(id).family
    assert family in ENDINGS, f"say in ENDINGS how an episode of {family} ends"
    level = jax.jit(fast.env.sample_level)(jax.random.key(0))
    level, actions = ENDINGS[family](fast.env, level)
    if actions is None:
        return
    reset_to = jax.jit(fast.env.reset_to)
    for limit in (fast.env.default_params.max_steps_in_episode, len(actions)):
        params = fast.env.default_params.replace(max_steps_in_episode=np.int32(limit))
        key = jax.random.key(1)
        state = reset_to(key, level, params).state
        for i, action in enumerate(actions):
            step = fast.step(key, state, jnp.asarray(action, jnp.int32), params)
            assert step.terminated == (i == len(actions) - 1)
            state = step.state
        assert step.terminated and not step.truncated, "at the limit the task's own end counts"
        assert step.done and step.discount == 0


@every_class
def test_row_i_of_a_batch_does_not_depend_on_the_number_of_rows(id):
    """Through resets as well: the limit of two steps ends every episode in between."""
    small, large = (play_batch(id, rows) for rows in (2, 3))
    same(small, jax.tree.map(lambda leaf: leaf[:, :2], large))


def play_batch(id, rows):
    venv = jaxenvs.make_vec(id, rows)
    params = venv.default_params.replace(max_steps_in_episode=np.int32(2))
    actions = jax.vmap(venv.env.action_space.sample)(jax.random.split(jax.random.key(7), rows))

    @jax.jit
    def play(key):
        def one(state, key):
            step = venv.step(key, state, actions, params)
            return step.state, (step.obs, step.reward, step.terminated, step.truncated)

        state = venv.reset(key, params).state
        return jax.lax.scan(one, state, jax.random.split(key, 5))[1]

    return play(jax.random.key(8))


@every_id
def test_the_environment_is_a_frozen_value(id):
    env = jaxenvs.make(id)
    assert env == jaxenvs.make(id) and hash(env) == hash(jaxenvs.make(id))
    with pytest.raises(dataclasses.FrozenInstanceError):
        env.anything = None
    for path, leaf in jax.tree_util.tree_leaves_with_path(env.default_params):
        lattice = "fractal_noise_angles" in jax.tree_util.keystr(path)  # Craft's terrain
        assert lattice or np.ndim(leaf) == 0, "params are numbers"


@every_id
def test_aliases_mean_the_same(id):
    for alias in jaxenvs.spec(id).aliases:
        assert jaxenvs.spec(alias) is jaxenvs.spec(id)
        assert jaxenvs.make(alias) == jaxenvs.make(id)


@compiled_id
def test_masks_and_pictures_fit(id, compiled):
    env = compiled(id).env
    state = compiled(id).reset(jax.random.key(0), env.default_params).state
    if isinstance(env.action_space, jaxenvs.spaces.Discrete):
        mask = env.action_mask(state)
        assert (mask.shape, mask.dtype) == ((env.action_space.n,), np.bool_)
        assert mask.any()
    tiles, atlas = env.tiles(state), env.atlas(8)
    assert atlas.shape[1:] == (8, 8, 3) and atlas.dtype == np.uint8
    assert tiles.ndim == 2 and (tiles >= 0).all() and (tiles < len(atlas)).all()


def digest(id, fast):
    """Hash of a random rollout, bit by bit."""
    key, keys, actions = plan(fast.env)
    trace = fast.rollout(key, keys, actions, fast.env.default_params)
    leaves = jax.tree_util.tree_leaves_with_path(trace)
    text = "".join(f"{jax.tree_util.keystr(p)}{x.dtype}{x.shape}" for p, x in leaves)
    data = b"".join(np.asarray(x).tobytes() for _, x in leaves)
    return hashlib.sha256(text.encode() + data).hexdigest()


def test_results_are_the_same_with_x64_on(compiled):
    """In a process of its own: the switch must come before anything is traced."""
    script = (
        f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
        "import jax, json; jax.config.update('jax_enable_x64', True)\n"
        "import conftest\n"
        "from test_contract import X64_IDS, digest\n"
        "print(json.dumps({id: digest(id, conftest.build(id)) for id in X64_IDS}))"
    )
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {id: digest(id, compiled(id)) for id in X64_IDS}
