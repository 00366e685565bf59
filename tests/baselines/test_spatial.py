"""Tests of networks with a convolution over the cells of a map: against NumPy, and errors."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import FLAGS, learner

import jaxenvs
from jaxenvs.baselines import registry
from jaxenvs.baselines.networks import spatial
from jaxenvs.baselines.on_policy import ppo_rnn, ppo_trxl, pqn_rnn
from jaxenvs.baselines.on_policy.rl2 import Settings as RL2Settings
from jaxenvs.baselines.ray import ppo as ray_ppo
from jaxenvs.baselines.registry import ALGORITHMS
from jaxenvs.baselines.run import train
from jaxenvs.baselines.storage.runs import load_policy
from jaxenvs.core.wrappers import StickyAction

pytestmark = pytest.mark.full

KEY, STEPS = jax.random.key(0), 5
CRAFT = jaxenvs.make("Craft-Classic-Ids-v0")
NETWORK = spatial.Spatial.of(CRAFT, (8, 8), 3, memory=4, neighbours=2, activation="relu")


@functools.cache
def acted():
    """Act on random block ids for a few steps; return weights, observations and outputs.

    The outputs are the recurrent states, the logits and the values.
    """

    @jax.jit
    def run(key):
        obs = jax.random.randint(key, (STEPS, 145), 0, 5).astype(jnp.uint8)
        weights = NETWORK.init(key, obs[0])
        noise = jax.random.normal(key, (2, *jax.tree.leaves(weights)[0].shape))
        weights = jax.tree.map(lambda leaf: leaf + 0.1 * noise.mean(), weights)

        def step(memory, obs):
            memory, *answer = NETWORK.think(weights, memory, obs, None)
            return memory, (memory, *answer)

        return weights, obs, jax.lax.scan(step, NETWORK.begin(), obs)[1]

    return jax.device_get(run(KEY))


def normal(x, layer):
    centred = x - x.mean()
    return (
        centred / np.sqrt(np.square(x).mean() - x.mean() ** 2 + 1e-6) * layer["scale"]
        + layer["bias"]
    )


def dense(x, layer):
    return x @ layer["kernel"] + layer.get("bias", 0.0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def relu(x):
    return np.maximum(x, 0.0)


def test_it_is_the_same_in_plain_numpy():
    weights, obs, (memories, logits, values) = acted()
    layers, memory = weights["params"], np.zeros(4)
    for step in range(STEPS):
        symbols = np.asarray(CRAFT.expand(jnp.asarray(obs[step])))
        cells, body = symbols[:1323].reshape(7, 9, 21), symbols[1339:]
        row, column = {1: (3, 3), 2: (3, 5), 3: (2, 4), 4: (4, 4)}.get(obs[step][142], (3, 4))
        one_hots = np.eye(10)[obs[step][126:142]].reshape(-1)
        vectors = cells @ layers["cells"]["kernel"]
        found = [
            relu(dense(vectors[i : i + 3, j : j + 3].reshape(-1), layers["around"]))
            for i in range(5)
            for j in range(7)
        ]
        x = np.concatenate([cells[row, column], body, one_hots, *found])
        x = relu(normal(dense(x, layers["layers_0"]), layers["norms_0"]))
        x = x + relu(dense(normal(x, layers["norms_1"]), layers["layers_1"]))
        use, keep, new = np.split(dense(x, layers["inputs"]), 3)
        reset, hold, past = np.split(dense(memory, layers["carry"]), 3)
        keep = sigmoid(keep + hold)
        memory = keep * memory + (1 - keep) * np.tanh(new + sigmoid(use + reset) * past)
        known = np.concatenate([x, normal(memory, layers["recalled"])])
        policy, value = (
            relu(normal(dense(known, layers[f"branches_{i}"]), layers[f"branch_norms_{i}"]))
            for i in range(2)
        )
        np.testing.assert_allclose(memories[step], memory, atol=1e-5)
        np.testing.assert_allclose(logits[step], dense(policy, layers["policy"]), atol=1e-5)
        np.testing.assert_allclose(values[step], dense(value, layers["critic"])[0], atol=1e-4)


def test_training_reproduces_the_outputs_of_acting_and_resets_at_ends():
    weights, obs, (_, logits, values) = acted()
    unroll = jax.jit(NETWORK.unroll)
    done = np.zeros(STEPS, bool)
    learned = unroll(weights, NETWORK.begin(), obs, done)
    np.testing.assert_allclose(learned[0], logits, atol=1e-5)
    np.testing.assert_allclose(learned[1], values, atol=1e-5)
    done[2] = True
    again = unroll(weights, NETWORK.begin(), obs[[0, 1, 2, 0, 1]], done)
    np.testing.assert_allclose(again[1][3:], values[:2], atol=1e-5)


def test_values_of_actions_are_read_as_a_policy_is():
    """With the weights of a policy, a value network returns the policy's logits as its values."""
    given = {"hidden": (8, 8), "embed": 3, "memory": 4, "neighbours": 2}
    network = registry.network(ALGORITHMS["pqn-rnn"], CRAFT, given)
    weights, obs, (_, logits, _) = acted()
    names = {"branches_0": "branch", "branch_norms_0": "branch_norm", "policy": "actions"}
    others = ("branches_1", "branch_norms_1", "critic")
    kept = {names.get(k, k): v for k, v in weights["params"].items() if k not in others}

    @jax.jit
    def run(weights, obs):
        assert jax.tree.map(jnp.shape, network.init(KEY, obs[0])) == jax.tree.map(
            jnp.shape, weights
        )
        act = functools.partial(network.values, weights)
        learned = network.unroll(weights, network.begin(), obs, jnp.arange(STEPS) < 0)
        return jax.lax.scan(act, network.begin(), obs)[1], learned[0]

    for values in run({"params": kept}, obs):
        np.testing.assert_allclose(values, logits, atol=1e-5)


@pytest.mark.parametrize("algorithm", ["ppo-rnn", pytest.param("pqn-rnn", marks=pytest.mark.full)])
def test_results_are_not_rounded_to_bfloat16(algorithm):
    """Only the layers before the heads use bfloat16, so most outputs are not bfloat16 numbers."""
    given = {"hidden": (8,), "embed": 4, "memory": 4, "neighbours": 2, "bfloat16": True}
    network, obs = registry.network(ALGORITHMS[algorithm], CRAFT, given), jnp.asarray(acted()[1])

    @jax.jit
    def run(key):
        weights = network.init(key, obs[0])
        weights = jax.tree.map(lambda leaf: leaf + np.float32(0.123456), weights)
        return jax.vmap(lambda row: network.apply(weights, row)[1])(obs)

    said = np.asarray(run(KEY))
    rounded = said.astype(jnp.bfloat16).astype(np.float32)
    assert (said != rounded).mean() > 0.9


def test_training_of_the_transformer_reproduces_the_outputs_of_acting():
    """Training computes the same outputs as acting, although an episode ends within the sequence.

    The transformer must attend only to steps of the current episode.
    """
    given = {"memory": 3, "width": 8, "num_heads": 2, "depth": 1, "neighbours": 2, "embed": 4}
    given |= {"hidden": (8, 8), "activation": "relu"}
    network = registry.network(ALGORITHMS["ppo-trxl"], CRAFT, given)
    obs, done = jnp.asarray(acted()[1]), jnp.arange(STEPS) == 2

    @jax.jit
    def run(key):
        weights = network.init(key, obs[0])
        weights = jax.tree.map(lambda leaf: leaf + 0.1 * jnp.sign(leaf), weights)

        def step(memory, now):
            memory, *answer = network.think(weights, memory, now[0], None)
            fresh = network.begin()
            return jax.tree.map(lambda a, b: jnp.where(now[1], a, b), fresh, memory), answer

        seen = jax.vmap(lambda row: network.apply(weights, row, method="look"))(obs)
        kept = {name: weights["params"][name] for name in ("cells", "around")}
        kept |= {
            f"{part}_{i}": weights["params"][f"{part}_{i}"]
            for part in ("layers", "norms")
            for i in (0, 1)
        }
        like = NETWORK.clone(embed=4)
        same = jax.vmap(lambda row: like.apply({"params": kept}, row, method="look"))(obs)
        acted = jax.lax.scan(step, network.begin(), (obs, done))[1]
        return acted, network.unroll(weights, network.begin(), obs, done), seen, same

    said, learned, seen, same = run(KEY)
    for a, b in zip(said, learned, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    np.testing.assert_array_equal(seen, same)


@pytest.mark.parametrize(
    "id", ["Grid-DoorKey-5x5-v0", "BabyAI-GoToObjS4-v0", "Craft-Classic-Ids-v0"]
)
@pytest.mark.parametrize("bfloat16", [False, True])
def test_every_map_has_a_network_with_float32_weights_and_outputs(id, bfloat16):
    env = StickyAction(env=jaxenvs.make(id))
    given = {"hidden": (8,), "embed": 0, "memory": 4, "neighbours": 2, "bfloat16": bfloat16}
    for algorithm, more in (("ppo-rnn", ((),)), ("pqn-rnn", ())):
        network = registry.network(ALGORITHMS[algorithm], env, given)
        obs = jax.eval_shape(env.observation_space.sample, KEY)
        weights = jax.eval_shape(network.init, KEY, obs)
        memory, *answer = jax.eval_shape(network.apply, weights, obs)
        assert memory.shape == (4,)
        assert [leaf.shape for leaf in answer] == [(env.action_space.n,), *more]
        assert {leaf.dtype for leaf in jax.tree.leaves((weights, memory, answer))} == {
            jnp.dtype("float32")
        }


@pytest.mark.parametrize(
    ("id", "hidden", "message"),
    [
        (
            "Classic-CartPole-v0",
            (8,),
            "neighbours=2 needs a map of 3 x 3 cells",
        ),
        ("Craft-Classic-Symbolic-v0", (8,), "neighbours=2 needs a map"),
        ("Craft-Classic-Pixels-v0", (8,), "neighbours=2 needs a map"),
        ("Craft-Classic-Ids-v0", (8, 4), r"hidden=\(8, 4\): .* one width"),
        ("Craft-Classic-Ids-v0", (), r"hidden=\(\): .* at least once"),
    ],
)
def test_unsupported_observations_and_layers_raise(id, hidden, message):
    with pytest.raises(ValueError, match=message):
        spatial.Spatial.of(jaxenvs.make(id), hidden, 4, memory=4, neighbours=2)


def test_learners_that_cannot_take_a_setting_say_so():
    with pytest.raises(ValueError, match="rl2 has a fixed network"):
        RL2Settings(neighbours=2).check()
    with pytest.raises(ValueError, match=r"neighbours=2 and conv=\(2, 4\) both read a map"):
        ppo_rnn.Settings(neighbours=2, conv=(2, 4)).check()
    with pytest.raises(ValueError, match=r"neighbours=2 and conv=\(2, 4\) both read a map"):
        ppo_trxl.Settings(neighbours=2, conv=(2, 4)).check()
    with pytest.raises(ValueError, match=r"neighbours=2 and conv=\(2, 4\) both read a map"):
        pqn_rnn.Settings(neighbours=2, conv=(2, 4)).check()
    with pytest.raises(ValueError, match="give --neighbours 0 with --network nets:Mine"):
        ppo_rnn.Settings(neighbours=2, network="nets:Mine").check()
    with pytest.raises(ValueError, match=r"target_scaling=0\.1: actors do not know the scale"):
        ray_ppo.Settings(target_scaling=0.1).check()
    with pytest.raises(ValueError, match=r"target_scaling=2\.0 must be at most 1"):
        learner(jaxenvs.make("Grid-Empty-5x5-v0"), target_scaling=2.0)


@pytest.mark.parametrize(
    "flags",
    [
        "ppo-rnn --target-scaling 0.05",
        pytest.param("pqn-rnn --previous --bfloat16", marks=pytest.mark.full),
    ],
)
def test_a_run_of_two_seeds(tmp_path, capsys, flags):
    """A run of two seeds trains, is saved and can be loaded."""
    run = tmp_path / "run"
    flags = ["--algo", *flags.split(), "--neighbours", "2", "--memory", "4"]
    flags += ["--total-steps", "512", "--out", str(run), *FLAGS]
    assert train.main(["Grid-Empty-5x5-v0", *flags]) == 0
    assert "Evaluated over 16 episodes per seed" in capsys.readouterr().out
    policies = [load_policy(run, seed) for seed in range(2)]
    kernels = [policy.weights["params"]["around"]["kernel"] for policy in policies]
    assert kernels[0].shape == (9 * 2, 2) and (kernels[0] != kernels[1]).any()
