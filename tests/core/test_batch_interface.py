"""Tests of batches: their spaces, actions given as lists, and serialised states."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import serialization

import jaxenvs
from jaxenvs import spaces

KEY = jax.random.key(3)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "adapters.md"


def same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_batch_has_the_spaces_of_its_actions_and_observations():
    """`action_space` is for the whole batch, `single_action_space` for one environment."""
    for id in ("Grid-Empty-5x5-v0", "Classic-Pendulum-v0"):
        venv = jaxenvs.make_vec(id, 4)
        env, obs = venv.env, jax.eval_shape(venv.reset, KEY).obs
        assert (venv.single_action_space, venv.single_observation_space) == (
            env.action_space,
            env.observation_space,
        )
        assert venv.observation_space.shape == obs.shape and venv.action_space.shape[0] == 4
        rows = venv.action_space.sample(KEY)
        assert venv.action_space.contains(rows) and all(map(env.action_space.contains, rows))
    compass = spaces.Dict({"way": spaces.Discrete(3), "force": spaces.Box(0, 1, (2,), np.float32)})
    both = spaces.batched(spaces.Dict({"a": compass}), 5).spaces["a"].spaces
    assert repr(both["way"]) == "MultiDiscrete([3, 3, 3, 3, 3])" and both["force"].shape == (5, 2)
    assert spaces.batched(both["way"], 2).shape == (2, 5)


@pytest.mark.parametrize("actions", [[0, 1, 2, 3], (0, 1, 2, 3), np.arange(4)])
def test_actions_may_be_a_list(actions):
    venv = jaxenvs.make_vec("Grid-Empty-5x5-v0", 4)
    state = venv.reset(KEY).state
    same(venv.step(KEY, state, actions), venv.step(KEY, state, jnp.arange(4)))


@pytest.mark.parametrize(
    ("actions", "shape"), [([0, 1, 2], "(3,)"), ((0,) * 5, "(5,)"), (jnp.int32(1), "()")]
)
def test_actions_of_another_length_are_reported_by_their_shape(actions, shape, as_a_user):
    venv = jaxenvs.make_vec("Grid-Empty-5x5-v0", 4)
    with pytest.raises(
        TypeError, match=r"this batch has 4 environments.*got shape " + re.escape(shape)
    ):
        venv.step(KEY, venv.reset(KEY).state, actions)


def test_states_are_written_and_read_by_flax_as_their_leaves():
    """flax saves and loads the list of a state's leaves, as the documentation recommends.

    flax cannot serialise the state itself, because it does not know this library's structs.
    """
    assert "serialization.to_bytes(jax.tree.leaves(state))" in PAGE.read_text()
    venv = jaxenvs.make_vec("Grid-Empty-5x5-v0", 4, autoreset="next_step", reset_source="stock")
    state = venv.reset(KEY).state
    with pytest.raises(TypeError, match="VectorState"):
        serialization.to_bytes(state)
    written = serialization.to_bytes(jax.tree.leaves(state))
    leaves, structure = jax.tree.flatten(jax.eval_shape(venv.reset, KEY).state)
    read = jax.tree.unflatten(structure, serialization.from_bytes(leaves, written))
    assert read == state
    actions = jnp.zeros(4, jnp.int32)
    same(venv.step(KEY, read, actions), venv.step(KEY, state, actions))
