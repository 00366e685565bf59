"""Tests of MinGRU networks: against NumPy, windows against single steps, and whole runs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import FLAGS, Countdown, learner
from tiny import collected as collect

import jaxenvs
from jaxenvs.baselines.core import minibatches
from jaxenvs.baselines.networks import mingru
from jaxenvs.baselines.on_policy import ppo_rnn, pqn, pqn_rnn
from jaxenvs.baselines.run import loop, train
from jaxenvs.baselines.storage.runs import load_policy
from jaxenvs.core.spaces import Box

STEPS, DEPTH, SIZE = 9, 3, 4
CLASSIC = "Craft-Classic-Ids-v0"
PATTERNS = {
    "no end": [],
    "first step": [0],
    "last step": [STEPS - 1],
    "inside": [2, 3, 6],
    "all": list(range(STEPS)),
}


class Bar(Countdown):
    """Environment `Countdown` whose observation is a map that shows the time."""

    @property
    def observation_space(self) -> Box:
        """Return a space of maps of 3 x 3 flags."""
        return Box(0, 1, (3, 3, 1), np.uint8)

    def observe(self, state, params=None):
        """Observe the time as the number of flags that are 1."""
        return (jnp.arange(9, dtype=jnp.int32) < state.time).astype(jnp.uint8).reshape(3, 3, 1)


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def stack(dtype=jnp.float32):
    """Return a stack, its weights, a recurrent state, and the stack's inputs for a window."""
    layers = mingru.Stack(DEPTH, SIZE, dtype)
    keys = jax.random.split(jax.random.key(0), 4)
    features = jax.random.normal(keys[0], (STEPS, 5))
    start = mingru.Recalled(jax.random.normal(keys[1], (DEPTH, SIZE)), jnp.zeros(SIZE))

    def both(module, features, start):
        return module(start, module.enter(features))

    weights = nn_init(layers, both, keys[2], features[0], start)
    entered = layers.apply(weights, features, method="enter")
    return layers, weights, start, entered


def nn_init(module, method, key, *inputs):
    return jax.jit(lambda key: module.init(key, *inputs, method=method))(key)


def step_by_step(layers, weights, start, entered, done):
    """Return the recurrent states after each step of a window, one step at a time."""
    memory, zero, states, outputs = start, jnp.zeros((DEPTH, SIZE)), [], []
    for x, ends in zip(entered, done, strict=True):
        memory = layers.apply(weights, memory, x)
        states.append(memory.state)
        outputs.append(memory.output)
        memory = mingru.Recalled(jnp.where(ends, zero, memory.state), memory.output)
    return mingru.Recalled(jnp.stack(states), jnp.stack(outputs))


def ends(pattern):
    return jnp.zeros(STEPS, jnp.bool_).at[jnp.array(PATTERNS[pattern], jnp.int32)].set(True)


def test_a_step_is_the_same_in_plain_numpy():
    layers, weights, start, entered = stack()
    got = layers.apply(weights, start, entered[0])
    x = np.asarray(entered[0], np.float64)
    for i in range(DEPTH):
        product = x @ np.asarray(weights["params"][f"gates_{i}"]["kernel"], np.float64)
        c, z, p = product[:SIZE], sigmoid(product[SIZE : 2 * SIZE]), sigmoid(product[2 * SIZE :])
        c = np.where(c >= 0, c + 0.5, sigmoid(c))
        h = (1 - z) * np.asarray(start.state[i], np.float64) + z * c
        np.testing.assert_allclose(got.state[i], h, rtol=1e-5)
        x = p * h + (1 - p) * x
    np.testing.assert_allclose(got.output, x, rtol=1e-5)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_window_equals_its_steps(pattern):
    layers, weights, start, entered = stack()
    done = ends(pattern)
    expected = step_by_step(layers, weights, start, entered, done)
    got = layers.apply(weights, start, entered, done, method="window")
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), got, expected)


@pytest.mark.parametrize("pattern", ["no end", "inside"])
def test_gradients_of_a_window_equal_those_of_its_steps(pattern):
    layers, weights, start, entered = stack()
    done = ends(pattern)

    def total(method):
        def loss(weights, start):
            memories = method(weights, start)
            return (memories.output**2).sum() + (memories.state[-1] ** 3).sum()

        return jax.jit(jax.grad(loss, argnums=(0, 1)))(weights, start)

    got = total(lambda w, s: layers.apply(w, s, entered, done, method="window"))
    expected = total(lambda w, s: step_by_step(layers, w, s, entered, done))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), got, expected)
    assert jnp.abs(got[1].state).max() > 0  # the state before the window matters


def test_the_state_is_float32_with_bfloat16_activations():
    layers, weights, start, entered = stack(jnp.bfloat16)
    done = ends("inside")
    got = layers.apply(weights, start, entered, done, method="window")
    assert entered.dtype == jnp.bfloat16
    assert got.state.dtype == got.output.dtype == jnp.float32
    expected = step_by_step(layers, weights, start, entered, done)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=0.05, atol=0.05), got, expected)


def test_learning_unrolls_what_acting_computed():
    """The window begins and ends within episodes, and episodes end inside it."""
    agent = learner(Countdown(), "ppo-rnn", rollout_steps=7, cell="mingru", layers=2)
    assert isinstance(agent.network, mingru.MinGRU) and agent.network.depth == 2
    keys = jax.random.split(jax.random.key(0), 3)
    before, _ = collect(agent, loop.start(agent, keys[:1]), keys[1:2])
    after, rollout = collect(agent, before, keys[2:])
    assert (jnp.abs(before.memory.state) > 0).any() and np.asarray(rollout.terminated).any()
    weights, one = jax.tree.map(lambda leaf: leaf[0], (before.weights, rollout))
    one = one._replace(memory=jax.tree.map(lambda leaf: leaf, before.memory))
    unroll = jax.jit(ppo_rnn.unroll, static_argnums=0)
    logits, value = unroll(agent, weights, minibatches.as_sequences(one))
    log_prob = agent.policy.log_prob(logits, one.action.T)
    np.testing.assert_allclose(log_prob, one.log_prob.T, rtol=0, atol=1e-6)
    np.testing.assert_allclose(value, one.value.T, rtol=0, atol=1e-6)
    done = np.asarray(rollout.terminated | rollout.truncated)[0, -1]
    assert ((np.abs(after.memory.state[0]).max(axis=(1, 2)) == 0) == done).all()


@pytest.mark.parametrize("neighbours", [0, 2])
def test_recurrent_pqn_learns_the_values_with_which_it_acted(neighbours):
    """The window begins and ends within episodes, and episodes end inside it."""
    sizes = {"hidden": (8, 8), "rollout_steps": 7, "cell": "mingru", "layers": 2}
    agent = learner(Bar(), "pqn-rnn", neighbours=neighbours, **sizes)
    kind = mingru.SpatialMinGRUQ if neighbours else mingru.MinGRUQ
    assert isinstance(agent.network, kind) and agent.network.depth == 2
    keys = jax.random.split(jax.random.key(0), 3)
    choose = functools.partial(pqn.choose, epsilon=jnp.float32(0.5))
    before, _ = collect(agent, loop.start(agent, keys[:1]), keys[1:2], choose)
    after, rollout = collect(agent, before, keys[2:], choose)
    done = np.asarray(rollout.terminated | rollout.truncated)[0]
    assert done[:-1].any() and not done[-1].all()
    assert (jnp.abs(before.memory.state) > 0).any()
    weights, one = jax.tree.map(lambda leaf: leaf[0], (before.weights, rollout))
    one = one._replace(memory=before.memory)
    values = jax.jit(pqn_rnn.unroll, static_argnums=0)(
        agent, weights, minibatches.as_sequences(one)
    )
    assert values.shape == (agent.env.num_envs, 7, agent.env.env.action_space.n)
    np.testing.assert_allclose(values.max(axis=-1), one.value.T, rtol=1e-5, atol=1e-6)
    assert ((np.abs(after.memory.state[0]).max(axis=(1, 2)) == 0) == done[-1]).all()


def test_the_spatial_network_unrolls_what_it_computed_step_by_step():
    env = jaxenvs.make(CLASSIC)
    given = {"memory": 4, "neighbours": 2, "activation": "relu"}
    network = mingru.SpatialMinGRU.of(env, (8, 8), 3, depth=2, **given)
    obs = jax.random.randint(jax.random.key(0), (5, 145), 0, 5).astype(jnp.uint8)
    done = jnp.array([False, True, False, False, False])

    @jax.jit
    def run(key):
        weights = network.init(key, obs[0])
        unrolled = network.unroll(weights, network.begin(), obs, done)
        return weights, unrolled, network.remembered(weights, network.begin(), obs, done)[0]

    weights, (logits, values), last = run(jax.random.key(1))
    think, memory = jax.jit(network.think), network.begin()
    for i in range(5):
        memory, answer, value = think(weights, memory, obs[i], None)
        np.testing.assert_allclose(logits[i], answer, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(values[i], value, rtol=1e-4, atol=1e-5)
        memory = network.begin() if done[i] else memory
    np.testing.assert_allclose(last.state, memory.state, rtol=1e-5)


@pytest.mark.full
def test_a_run_resumes_bit_for_bit_and_its_policy_loads(tmp_path):
    given = ["Grid-Empty-5x5-v0", "--algo", "ppo-rnn", "--cell", "mingru", "--layers", "2", *FLAGS]
    given += ["--memory", "8", "--no-anneal"]
    out, whole = tmp_path / "out", tmp_path / "whole"
    assert train.main([*given, "--total-steps", "1024", "--out", str(out)]) == 0
    assert train.main(["--resume", str(out), "--total-steps", "2048"]) == 0
    assert train.main([*given, "--total-steps", "2048", "--out", str(whole)]) == 0
    one, other = load_policy(out), load_policy(whole)
    same = jax.tree.map(np.array_equal, one.weights, other.weights)
    assert all(jax.tree.leaves(same)) and one.begin().state.shape == (2, 8)


@pytest.mark.parametrize(
    "given, message",
    [
        (["--cell", "lstm"], "lstm"),
        (["--layers", "2"], "layers=2 with cell=gru: only mingru can be stacked; give --cell"),
        (["--algo", "pqn-rnn", "--layers", "2"], "layers=2 with cell=gru: only mingru can be"),
        (["--cell", "mingru", "--network", "a:B"], "cell=mingru does not apply to your own"),
        (["--algo", "plr", "--cell", "mingru", "--memory", "0"], "cell=mingru needs a recurrent"),
    ],
)
def test_what_cannot_work_says_why(given, message, tmp_path, capsys):
    algorithm = [] if "--algo" in given else ["--algo", "ppo-rnn"]
    asked = ["Grid-Empty-5x5-v0", *algorithm, *given, "--out", str(tmp_path / "run")]
    assert train.main(asked) == 2
    assert message in " ".join(capsys.readouterr().err.split())
