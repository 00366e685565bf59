"""Tests of networks: one for every registered environment, and the encoding of observations."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs import spaces
from jaxenvs.baselines import registry
from jaxenvs.baselines.networks import encoders, layers, policies
from jaxenvs.baselines.registry import ALGORITHMS
from jaxenvs.core import distributions


@pytest.mark.parametrize("obs", ["image", "dict", "full", "onehot", "rgb"])
@pytest.mark.parametrize("embed", [0, 4])
def test_a_network_for_every_observation(obs, embed):
    env = jaxenvs.make("Grid-DoorKey-5x5-v0", obs=obs)
    network = policies.ActorCritic.of(env, (8,), embed)
    key = jax.random.key(0)

    def act(key):
        sample = env.observation_space.sample(key)
        return network.apply(network.init(key, sample), sample)

    logits, value = jax.eval_shape(act, key)
    assert (logits.shape, logits.dtype) == ((7,), jnp.float32)
    assert (value.shape, value.dtype) == ((), jnp.float32)


@functools.cache
def shapes(network, space):
    """Return the shapes of logits and value; cached, because many ids have the same network."""
    sample = jax.eval_shape(space.sample, jax.random.key(0))
    weights = jax.eval_shape(network.init, jax.random.key(0), sample)
    return jax.eval_shape(network.apply, weights, sample)


@pytest.mark.parametrize("id", jaxenvs.registry.list())
def test_a_network_for_every_id(id):
    env = jaxenvs.make(id)
    logits, value = shapes(policies.ActorCritic.of(env, (8,), 4), env.observation_space)
    numbers = distributions.of(env.action_space).outputs
    assert logits.shape == (numbers,) and value.shape == ()


def test_a_map_becomes_one_hots_of_its_channels_side_by_side():
    space = spaces.Box(0, [3, 1, 2], (1, 2, 3), np.uint8)
    obs = jnp.array([[[3, 0, 1], [0, 1, 2]]], jnp.uint8)
    expected = [[[0, 0, 0, 1, 1, 0, 0, 1, 0], [1, 0, 0, 0, 0, 1, 0, 0, 1]]]
    np.testing.assert_array_equal(encoders.expand(space, obs), expected)


def test_the_onehot_observation_and_the_image_give_the_same_features():
    image, onehot = (jaxenvs.make("Grid-DoorKey-8x8-v0", obs=obs) for obs in ("image", "onehot"))
    key = jax.random.key(3)
    a, b = (
        encoders.expand(env.observation_space, jax.jit(env.reset)(key).obs)
        for env in (image, onehot)
    )
    np.testing.assert_array_equal(a, b)


def test_categories_floats_and_pixels():
    number = encoders.expand(spaces.Discrete(4), jnp.int32(2))
    np.testing.assert_array_equal(number, [0, 0, 1, 0])
    signed = encoders.expand(spaces.Box(-1, 1, (2,), np.int8), jnp.array([-1, 1], jnp.int8))
    np.testing.assert_array_equal(signed, [[1, 0, 0], [0, 0, 1]])
    floats = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    np.testing.assert_array_equal(encoders.expand(floats, jnp.array([-3.0, 7.0])), [-3.0, 7.0])
    pixels = spaces.Box(0, 255, (1, 1, 3), np.uint8)
    scaled = encoders.expand(pixels, jnp.array([[[0, 51, 255]]], jnp.uint8))
    np.testing.assert_allclose(scaled, [[[0.0, 0.2, 1.0]]], rtol=1e-6)


@pytest.mark.full
def test_compact_and_symbolic_craft_are_the_same_to_a_network():
    compact, symbolic = (jaxenvs.make("Craft-Classic-Ids-v0", obs=o) for o in ("ids", "symbolic"))
    state = jax.jit(compact.reset)(jax.random.key(0)).state
    first, second = (policies.ActorCritic.of(env, (8,), 0) for env in (compact, symbolic))
    seen, symbols = (jax.jit(env.observe)(state) for env in (compact, symbolic))
    weights = jax.jit(second.init)(jax.random.key(1), symbols)
    a, b = (jax.jit(first.apply)(weights, seen), jax.jit(second.apply)(weights, symbols))
    # Not exact: the compact observation stores the level of daylight in eight bits.
    np.testing.assert_allclose(a[0], b[0], atol=2e-3)
    np.testing.assert_allclose(a[1], b[1], atol=1e-2)
    assert compact.observe(state).nbytes == 145


class Steering(jaxenvs.Env):
    @property
    def action_space(self):
        return spaces.Box(-1.0, np.inf, (1,), np.float32)


def test_actions_without_bounds_are_refused():
    with pytest.raises(ValueError, match=r"Steering\(\): policies do not support .* finite bounds"):
        policies.ActorCritic.of(Steering(), (8,), 4)


@pytest.mark.parametrize("algorithm", ["pqn", "dqn", "rl2", "alphazero"])
def test_learners_of_numbered_actions_name_those_of_real_ones(algorithm):
    row = ALGORITHMS[algorithm]
    settings = vars(row.load().Settings())
    with pytest.raises(ValueError, match=f"{algorithm} needs a Discrete one: give --algo ppo, "):
        registry.network(row, jaxenvs.make("Classic-Pendulum-v0"), settings)


def test_orthogonal_weights_and_a_policy_that_begins_nearly_uniform():
    env = jaxenvs.make("Grid-Empty-5x5-v0")
    network = policies.ActorCritic.of(env, (16,), 4)
    obs = jax.jit(env.reset)(jax.random.key(0)).obs
    weights = jax.jit(network.init)(jax.random.key(1), obs)["params"]
    hidden, policy, value = (weights[f"Dense_{i}"]["kernel"] for i in range(3))
    np.testing.assert_allclose(hidden.T @ hidden, 2.0 * np.eye(16), atol=1e-4)
    np.testing.assert_allclose(policy.T @ policy, 1e-4 * np.eye(7), atol=1e-6)
    np.testing.assert_allclose(value.T @ value, np.eye(1), atol=1e-5)


def test_the_order_of_words_counts_and_absent_words_are_nothing():
    def sentence(*ids):
        return jax.jit(sentences.apply)(weights, jnp.array(ids, jnp.uint8))

    sentences = encoders.Sentence(words=9)
    weights = jax.jit(sentences.init)(jax.random.key(0), jnp.zeros(3, jnp.uint8))
    # A new layer has a bias of 0, so a sentence without words is encoded as 0.
    np.testing.assert_array_equal(sentence(0, 0, 0), np.zeros(encoders.SENTENCE))
    assert np.abs(sentence(4, 5, 0) - sentence(5, 4, 0)).max() > 0.01
    assert np.abs(sentence(4, 5, 0) - sentence(0, 4, 5)).max() > 0.01


def test_a_mission_changes_what_is_seen_in_every_cell_alike():
    space = jaxenvs.make("Grid-Fetch-5x5-N2-v0", obs="dict").observation_space
    obs = {
        "image": jnp.broadcast_to(jnp.array([6, 2, 0], jnp.uint8), (7, 7, 3)),
        "direction": jnp.int32(0),
        "mission": jnp.zeros(16, jnp.uint8).at[2].set(18),
    }
    encoder = encoders.Encoder(space, 5)
    apply = jax.jit(encoder.apply)
    weights = jax.jit(encoder.init)(jax.random.key(1), obs)
    assert weights["params"]["mission"]["Embed_0"]["embedding"].shape[1] == encoders.WORD

    def cells(word):
        features = apply(weights, obs | {"mission": obs["mission"].at[2].set(word)})
        assert features.shape == (4 + 49 * 5 + encoders.SENTENCE,)
        return features[4 : 4 + 49 * 5].reshape(49, 5)

    red, blue = cells(18), cells(19)
    np.testing.assert_array_equal(red, np.broadcast_to(red[0], (49, 5)))
    assert np.abs(red[0] - blue[0]).max() > 0.01


def test_rows_and_columns_of_a_board_are_read_by_the_same_weights():
    """Compare with NumPy: the features are one vector for each row, then one for each column.

    Transposing the board exchanges the vectors of rows and columns. Each cell of a binary board is
    one number of the input; each cell of any other board is a one-hot vector.
    """
    for space in (spaces.Box(0, 5, (3, 3), np.uint8), spaces.Box(0, 1, (4, 4), np.uint8)):
        encoder = encoders.Encoder(space, 0, lines=7)
        board = np.asarray(space.sample(jax.random.key(2)))
        weights = jax.jit(encoder.init)(jax.random.key(1), board)
        layer = weights["params"]["Dense_0"]
        codes = int(space.high.max()) + 1
        cells = np.eye(codes)[board] if codes > 2 else 1.0 * board[..., None]
        read = np.stack([line.ravel() for line in (*cells, *cells.swapaxes(0, 1))])
        by_hand = np.maximum(read @ np.asarray(layer["kernel"]) + np.asarray(layer["bias"]), 0.0)
        features, turned = (jax.jit(encoder.apply)(weights, x) for x in (board, board.T))
        np.testing.assert_allclose(features, by_hand.ravel(), atol=1e-5)
        np.testing.assert_array_equal(turned.reshape(2, -1), features.reshape(2, -1)[::-1])


@pytest.mark.parametrize("id", ["Grid-DoorKey-5x5-v0", "Puzzle-TSP-20-v0", "Classic-CartPole-v0"])
def test_lines_need_a_square_board(id):
    with pytest.raises(ValueError, match=r"lines=4: .* observes no square board of categories"):
        policies.ActorCritic.of(jaxenvs.make(id), (8,), 0, lines=4)


@pytest.mark.parametrize(
    "id", [pytest.param("Grid-DoorKey-5x5-v0", marks=pytest.mark.full), "BabyAI-GoToLocal-v0"]
)
def test_bfloat16_is_of_activations_alone(id):
    """With `bfloat16`, only activations inside the network are bfloat16.

    Weights and outputs stay float32, and outputs change by at most 0.02.
    """
    env = jaxenvs.make(id)
    obs = env.reset(jax.random.key(0)).obs
    exact, coarse = (policies.ActorCritic.of(env, (16, 16), 8, bfloat16=bf) for bf in (False, True))
    weights = jax.jit(exact.init)(jax.random.key(1), obs)
    assert {leaf.dtype for leaf in jax.tree.leaves(weights)} == {jnp.dtype("float32")}
    (logits, value), (near, close) = (jax.jit(net.apply)(weights, obs) for net in (exact, coarse))
    assert near.dtype == close.dtype == jnp.float32
    assert not np.array_equal(value, close)
    np.testing.assert_allclose((*logits, value), (*near, close), atol=0.02)


@pytest.mark.parametrize(
    "obs",
    [
        "image",
        pytest.param("onehot", marks=pytest.mark.full),
        pytest.param("rgb", marks=pytest.mark.full),
    ],
)
def test_accelerators_compute_the_same_function(monkeypatch, obs):
    """The network must have the same outputs and gradients in programs for accelerators and CPUs.

    The program for accelerators replaces the first two layers by one table lookup, and computes
    both heads with one matrix product.
    """
    env = jaxenvs.make("Grid-DoorKey-5x5-v0", obs=obs)
    obs = env.reset(jax.random.key(0)).obs
    network = policies.ActorCritic.of(env, (16,), 8)
    weights = jax.jit(network.init)(jax.random.key(1), obs)
    # Add 0.1 to all weights, so that biases are not 0 and have an effect.
    weights = jax.tree.map(lambda leaf: leaf + 0.1, weights)

    def answers():
        def total(weights):
            logits, value = network.apply(weights, obs)
            return logits.sum() + value, logits

        return jax.jit(jax.grad(total, has_aux=True))(weights)

    usual = answers()
    for module in (encoders, layers):
        monkeypatch.setattr(module, "by_platform", lambda *given, cpu, default: default(*given))
    other = answers()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5), usual, other)
