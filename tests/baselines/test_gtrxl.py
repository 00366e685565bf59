"""Tests of GTrXL, the gated transformer: its parts against NumPy, and how far it looks back."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import Endless, learner

from jaxenvs.baselines.networks import gtrxl
from jaxenvs.baselines.networks.gtrxl import GTrXL
from jaxenvs.baselines.on_policy import ppo_trxl
from jaxenvs.baselines.run import loop

pytestmark = pytest.mark.full

KEY = jax.random.key(0)
REACH, STEPS, WIDTH, HEADS = 4, 7, 8, 2
NETWORK = GTrXL.of(
    Endless(), (6,), 0, memory=REACH, width=WIDTH, num_heads=HEADS, depth=2, activation="relu"
)


def sigmoid(x):
    """Return the logistic function of x."""
    return 1.0 / (1.0 + np.exp(-x))


def drawn(seed: int, *shape: int) -> np.ndarray:
    """Return standard normal numbers, an array of shape `shape`."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_the_gate_equals_the_papers():
    gate, had, new = gtrxl.Gate(3, jnp.float32), drawn(0, 5, 3), drawn(1, 5, 3)
    weights = jax.jit(gate.init)(KEY, had, new)
    parts = jax.tree.map(np.asarray, weights["params"])
    of_new, of_had = parts["new"]["kernel"], parts["had"]["kernel"]
    (w_r, w_z, w_g), (u_r, u_z) = np.split(of_new, 3, axis=1), np.split(of_had, 2, axis=1)
    r = sigmoid(new @ w_r + had @ u_r)
    z = sigmoid(new @ w_z + had @ u_z - 2.0)
    h = np.tanh(new @ w_g + (r * had) @ parts["candidate"]["kernel"])
    got = jax.jit(gate.apply)(weights, had, new)
    np.testing.assert_allclose(got, (1 - z) * had + z * h, atol=1e-5)
    np.testing.assert_array_equal(parts["keep"], 2.0)


def test_the_relative_shift_aligns_distances():
    scores = drawn(0, STEPS, REACH + 1)
    got = np.asarray(jax.jit(gtrxl.shifted)(scores))
    assert got.shape == (STEPS, REACH + STEPS)
    for step in range(STEPS):
        for column in range(REACH + STEPS):
            # Number of steps from the attended step to the current one.
            distance = step + REACH - column
            if 0 <= distance <= REACH:
                assert got[step, column] == scores[step, REACH - distance]


def test_positions_are_sines_and_cosines_of_distances():
    made = gtrxl.positions(REACH, WIDTH)
    assert made.shape == (REACH + 1, WIDTH)
    for row, distance in enumerate(range(REACH, -1, -1)):
        angles = [distance / 10_000 ** (2 * i / WIDTH) for i in range(WIDTH // 2)]
        np.testing.assert_allclose(made[row], [*np.sin(angles), *np.cos(angles)], atol=1e-6)


def test_steps_attend_to_their_episode_within_memory():
    done = np.array([False, True, False, False, True, False, False])
    length = 2
    got = np.asarray(jax.jit(gtrxl.visible, static_argnums=2)(jnp.int32(length), done, REACH))
    for step in range(STEPS):
        for other in range(-REACH, STEPS):
            near = step - REACH <= other <= step
            ends = done[max(other, 0) : step].any()  # whether an episode ends between the two steps
            there = other >= -length
            assert got[step, other + REACH] == (near and there and not ends), (step, other)


def test_attention_equals_a_plain_loop():
    layer = gtrxl.Attention(WIDTH, HEADS, jnp.float32)
    known, seen = drawn(0, REACH + STEPS, WIDTH), np.zeros((STEPS, REACH + STEPS), bool)
    for step in range(STEPS):
        seen[step, step : step + REACH + 1] = True
    seen[:, 1] = seen[3:, 5] = False
    weights = jax.jit(layer.init)(KEY, known, seen)
    parts = dict(weights["params"])
    parts |= {name: jnp.asarray(drawn(i, HEADS, 4)) for i, name in enumerate(("what", "where"))}
    got = jax.jit(layer.apply)({"params": parts}, known, seen)
    parts = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), parts)
    query, key, value, place = (
        parts[name]["kernel"].reshape(WIDTH, HEADS, 4)
        for name in ("query", "key", "value", "place")
    )
    table, expected = gtrxl.positions(REACH, WIDTH)[::-1], np.zeros((STEPS, HEADS, 4))
    for step in range(STEPS):
        for head in range(HEADS):
            q, scores, values = known[REACH + step] @ query[:, head], [], []
            for column in np.flatnonzero(seen[step]):
                distance = REACH + step - column
                what = (q + parts["what"][head]) @ (known[column] @ key[:, head])
                where = (q + parts["where"][head]) @ (table[distance] @ place[:, head])
                # Divide by the square root of the head's width, 4.
                scores.append((what + where) / 2.0)
                values.append(known[column] @ value[:, head])
            shares = np.exp(scores) / np.exp(scores).sum()
            expected[step, head] = shares @ np.array(values)
    out = parts["out"]
    expected = expected.reshape(STEPS, WIDTH) @ out["kernel"] + out["bias"]
    np.testing.assert_allclose(got, expected, atol=1e-5)


@functools.cache
def network():
    """Return the compiled functions `think` (one step) and `unroll` (a sequence) of a network."""
    weights = jax.jit(NETWORK.init)(KEY, jnp.ones(1))
    # Initially, gates return nearly the residual stream. Larger weights give all layers an effect.
    weights = jax.tree.map(lambda leaf: leaf + 0.3 * jnp.sign(leaf), weights)
    think = jax.jit(lambda memory, obs: NETWORK.think(weights, memory, obs, None))
    unroll = jax.jit(lambda memory, obs, done: NETWORK.unroll(weights, memory, obs, done))
    return think, unroll


def stepped(memory, obs, done) -> tuple[np.ndarray, dict]:
    """Return logits and values, computed step by step, and the memory after the last step."""
    think, said = network()[0], []
    for seen, ends in zip(obs, done, strict=True):
        memory, logits, value = think(memory, jnp.asarray(seen))
        said.append([*np.asarray(logits), float(value)])
        memory = NETWORK.begin() if ends else memory
    return np.array(said), memory


def at_once(memory, obs, done) -> np.ndarray:
    """Return logits and values, computed for the whole sequence at once."""
    logits, values = network()[1](memory, jnp.asarray(obs), jnp.asarray(done))
    return np.column_stack([logits, values])


@pytest.mark.parametrize(
    "ends", [(0, 3, 4), *(pytest.param(ends, marks=pytest.mark.full) for ends in [(), (2,), (6,)])]
)
def test_a_sequence_at_once_equals_step_by_step(ends):
    before, none = drawn(0, 11, 1), np.zeros(11, bool)
    _, memory = stepped(NETWORK.begin(), before, none)
    assert memory["length"] == REACH
    obs, done = drawn(1, STEPS, 1), np.isin(np.arange(STEPS), ends)
    said, _ = stepped(memory, obs, done)
    np.testing.assert_allclose(at_once(memory, obs, done), said, atol=1e-5)
    assert np.abs(np.diff(said, axis=0)).max() > 1e-2
    # compare again with a memory of only two steps, as early in an episode
    _, memory = stepped(NETWORK.begin(), before[:2], none[:2])
    assert memory["length"] == 2
    np.testing.assert_allclose(at_once(memory, obs, done), stepped(memory, obs, done)[0], atol=1e-5)


def test_nothing_crosses_the_end_of_an_episode():
    _, memory = stepped(NETWORK.begin(), drawn(0, 11, 1), np.zeros(11, bool))
    obs, done = drawn(1, STEPS, 1), np.arange(STEPS) == 2
    other = obs.copy()
    other[:3] += 1.0
    a, b = (at_once(memory, seen, done) for seen in (obs, other))
    np.testing.assert_array_equal(a[3:], b[3:])
    assert (a[:3] != b[:3]).all()
    alone = at_once(NETWORK.begin(), obs, done)
    np.testing.assert_array_equal(a[3:], alone[3:])
    assert (a[:3] != alone[:3]).any(axis=1).all()
    after, memory = stepped(memory, obs, done)
    np.testing.assert_allclose(after[3:], stepped(NETWORK.begin(), obs[3:], done[3:])[0], atol=1e-6)


def test_memory_reaches_back_the_sum_of_the_layers():
    """Two layers that each attend to 4 earlier steps make an output depend on 8 earlier steps.

    The second layer attends to outputs of the first layer up to 4 steps ago, which depend on inputs
    up to 8 steps ago.
    """
    obs, none = drawn(0, 12, 1), np.zeros(12, bool)
    other = obs.copy()
    other[0] += 3.0
    a, b = (stepped(NETWORK.begin(), seen, none)[0] for seen in (obs, other))
    assert (np.abs(a - b).max(axis=1) > 0).tolist() == [True] * 9 + [False] * 3


def test_no_gradient_enters_the_memory():
    weights = jax.jit(NETWORK.init)(KEY, jnp.ones(1))
    memory = NETWORK.begin() | {"length": jnp.int32(REACH)}

    def total(inputs):
        given = memory | {"inputs": inputs}
        return NETWORK.unroll(weights, given, jnp.ones((3, 1)), jnp.zeros(3, jnp.bool_))[1].sum()

    inputs = jnp.asarray(drawn(0, 2, REACH, WIDTH))
    value, slope = jax.jit(jax.value_and_grad(total))(inputs)
    np.testing.assert_array_equal(slope, 0.0)
    assert value != jax.jit(total)(0 * inputs)


def test_weights_and_results_are_float32_where_activations_are_not():
    half = GTrXL.of(Endless(), (6,), 0, memory=REACH, width=8, num_heads=2, bfloat16=True)
    weights = jax.eval_shape(half.init, KEY, jnp.ones(1))
    memory, *said = jax.eval_shape(half.apply, weights, jnp.ones(1))
    kinds = {leaf.dtype.name for leaf in jax.tree.leaves((weights, memory["inputs"], said))}
    assert kinds == {"float32"}
    assert "bf16" in jax.jit(half.apply).lower(weights, jnp.ones(1)).as_text()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"width": 12}, "width=12 does not divide evenly among num_heads=4 .* a multiple of 8"),
        ({"depth": 0}, "depth=0 must be at least 1"),
        ({"memory": 0}, "memory=0 must be at least 1"),
        ({"network": "nets:Mine"}, "ppo-trxl has a fixed network"),
    ],
)
def test_settings_that_cannot_work_say_why(wrong, words):
    with pytest.raises(ValueError, match=words):
        ppo_trxl.Settings(**wrong).check()


def test_an_update_learns_and_keeps_its_types():
    agent = learner(Endless(), "ppo-trxl", bonus=0.5)
    runners = loop.start(agent, jax.random.split(KEY, 2))
    before = jax.device_get(runners.weights)
    after, metrics = loop.run_chunk(agent, runners)
    assert jax.tree.map(lambda leaf: leaf.aval, after) == jax.tree.map(
        lambda leaf: leaf.aval, loop.start(agent, jax.random.split(KEY, 2))
    )
    assert np.isfinite(metrics["value_loss"]).all()
    moved = jax.tree.map(lambda a, b: bool((a != b).any()), before, after.weights)
    assert all(jax.tree.leaves(moved["params"]["stack_1"]))
