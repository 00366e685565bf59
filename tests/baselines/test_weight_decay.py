"""Tests of weight decay: with any optimiser, kernels of layers decay, and nothing else does."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from tiny import Clock, Push

import jaxenvs
from jaxenvs.baselines.core import minibatches
from jaxenvs.baselines.model_based import dyna_model
from jaxenvs.baselines.off_policy import actor_critic
from jaxenvs.baselines.run import loop

DECAY, RATE = 0.1, 0.5
DECAYING = {"weight_decay": DECAY, "learning_rate": RATE, "anneal": False}


def named(tree):
    """Return the leaves of a pytree by their paths, with dots between keys."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def after_no_gradient(chain, weights):
    """Return the weights by name, after one optimiser step with a gradient of 0."""
    nothing = jax.tree.map(jnp.zeros_like, weights)

    @jax.jit
    def step(weights, gradient):
        return minibatches.apply_gradient(chain, gradient, chain.init(weights), weights)[0]

    return named(jax.device_get(step(weights, nothing)))


def only_kernels_decay(chain, weights, decay):
    """Check that only kernels decay; return the last parts of the names of all other weights."""
    moved = after_no_gradient(chain, weights)
    kernels = {name for name in moved if name.split(".")[-1] == "kernel"}
    for name, leaf in moved.items():
        expected = 1.0 - decay if name in kernels else 1.0
        np.testing.assert_allclose(leaf, expected, rtol=1e-6, err_msg=name)
    return {name.split(".")[-1] for name in moved.keys() - kernels}


def runner_of(algorithm, **settings):
    """Return a learner, and a runner in which all arrays are ones."""
    envs = {"dyna": "Craft-Classic-Ids-v0", "ppo-rnn": "Grid-Empty-5x5-v0"}
    continuous = algorithm in ("sac", "td3", "tqc", "crossq")
    env = jaxenvs.make(envs[algorithm]) if algorithm in envs else Push() if continuous else Clock()
    agent = tiny.learner(env, algorithm, **DECAYING, **settings)
    keys = jax.random.split(jax.random.key(0), 1)
    shapes = jax.eval_shape(functools.partial(loop.start, agent), keys)
    return agent, jax.tree.map(lambda leaf: jnp.ones(leaf.shape[1:], leaf.dtype), shapes)


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
@pytest.mark.parametrize(
    ("algorithm", "others"),
    [
        ("dqn", {"bias", "scale"}),
        pytest.param("ppo-rnn", {"bias"}, marks=pytest.mark.full),
        pytest.param("ppo-trxl", {"bias", "scale"}, marks=pytest.mark.full),
        pytest.param("rainbow", {"kernel_noise", "bias_noise"}, marks=pytest.mark.full),
        pytest.param("r2d2", {"bias"}, marks=pytest.mark.full),
        pytest.param("iqn", {"bias"}, marks=pytest.mark.full),
        pytest.param("muzero", {"bias"}, marks=pytest.mark.full),
        pytest.param("dyna", {"bias"}, marks=pytest.mark.full),
    ],
)
def test_only_kernels_of_a_network_decay(algorithm, others, optimiser):
    """Biases, scales of norms and noise scales do not decay."""
    agent, runner = runner_of(algorithm, optimiser=optimiser)
    trained = minibatches.split_weights(runner.weights)[0]
    chain = minibatches.optimiser(agent.settings)
    assert others <= only_kernels_decay(chain, trained, RATE * DECAY)


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
@pytest.mark.parametrize(
    ("algorithm", "others"),
    [
        ("crossq", {"scale", "bias"}),
        pytest.param("sac", {"scale", "bias"}, marks=pytest.mark.full),
        pytest.param("tqc", {"bias"}, marks=pytest.mark.full),
    ],
)
def test_only_kernels_of_actors_and_critics_decay(algorithm, others, optimiser):
    """Scales of batch renormalisation and SAC's temperature, a single number, do not decay."""
    agent, runner = runner_of(algorithm, optimiser=optimiser, layer_norm=algorithm == "sac")
    seen = set[str]()
    for name in ("weights", "critic", "temperature"):
        part = getattr(runner, name)
        trained = minibatches.split_weights(part)[0] if isinstance(part, dict) else part
        seen |= only_kernels_decay(actor_critic.optimiser(agent, name), trained, RATE * DECAY)
    assert seen == {*others, ""}, "the temperature has no name"


@pytest.mark.full
def test_only_kernels_of_a_model_decay():
    agent, runner = runner_of("dyna", optimiser="adamw")
    settings = agent.settings
    chain = dyna_model.model_optimiser(settings)
    decay = settings.model_rate * settings.model_decay
    assert {"age", "place", "bias"} <= only_kernels_decay(chain, runner.model.weights, decay)


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
def test_a_temperature_at_its_target_stays(optimiser):
    """The SAC temperature, 0.05, does not change if its gradient is 0: it has no weight decay.

    A decay of 0.1 would pull the logarithm of the temperature towards 0. After 10,000 steps, the
    temperature would be 0.86.
    """
    agent = tiny.learner(Push(), "sac", optimiser=optimiser, **DECAYING | {"learning_rate": 3e-3})
    chain = actor_critic.optimiser(agent, "temperature")

    @jax.jit
    def many(logarithm):
        def step(carry, _):
            weight, state = carry
            return minibatches.apply_gradient(chain, jnp.float32(0.0), state, weight), None

        return jax.lax.scan(step, (logarithm, chain.init(logarithm)), length=10_000)[0][0]

    assert float(jnp.exp(many(jnp.log(0.05)))) == pytest.approx(0.05, rel=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("algorithm", ["ppo", "pqn"])
def test_accelerators_decay_the_same_weights(monkeypatch, algorithm):
    """On accelerators, the optimiser gets all weights as one vector, without their names.

    Nevertheless, the same weights must decay as on a CPU.
    """
    agent = tiny.learner(Clock(), algorithm, optimiser="adamw", **DECAYING)
    step = functools.partial(loop.run_chunk.__wrapped__, agent)
    start = loop.start(agent, jax.random.key(0)[None])
    usual = jax.jit(lambda runners: step(runners)[0].weights)(start)
    monkeypatch.setattr(minibatches, "by_platform", lambda *given, cpu, default: default(*given))
    other = jax.jit(lambda runners: step(runners)[0].weights)(start)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), usual, other)
