"""Tests of user-defined networks and environments on the command line, and of convolutions."""

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from tiny import Clock, Countdown, learner

import jaxenvs
from jaxenvs import registry
from jaxenvs.baselines.core.rollouts import Rollout
from jaxenvs.baselines.networks import encoders, policies
from jaxenvs.baselines.on_policy import ppo_rnn
from jaxenvs.baselines.run import loop, train
from jaxenvs.baselines.storage import runs
from jaxenvs.core.spaces import Box

pytestmark = pytest.mark.full

DOCS = Path(__file__).parents[2] / "docs" / "own"
EMPTY = "Grid-Empty-Random-5x5-v0"


def test_the_network_of_the_documentation_learns_and_is_loaded(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    flags = [*tiny.FLAGS, "--total-steps", "256", "--network", "nets:Residual", "--separate"]
    out = tmp_path / "run"
    assert train.main([EMPTY, *flags, "--out", str(out)]) == 0
    policy = runs.load_policy(out)
    assert "LayerNorm_1" in policy.weights["params"]["critic"]
    obs = jnp.zeros(policy.env.observation_space.shape, jnp.uint8)
    logits, value = jax.jit(policy.apply)(obs)
    assert (logits.shape, value.shape) == ((policy.env.action_space.n,), ())


def test_a_recurrent_network_trains_on_sequences():
    """The network's value counts an episode's steps; `unroll` must reset it at episode ends."""
    agent = learner(Clock(), "ppo-rnn", network="tiny_nets:Counting", rollout_steps=12)
    runners = loop.start(agent, jax.random.key(0)[None])
    after, metrics = loop.run_chunk(agent, jax.tree.map(jnp.copy, runners))
    assert np.isfinite(metrics["policy_loss"]).all()
    # Episodes have 5 steps, and 12 steps were taken.
    np.testing.assert_array_equal(after.memory["steps"][0], np.full(8, 12 % 5))
    done = np.zeros((2, 12), bool)
    done[:, [4, 9]] = True
    memory = jax.tree.map(lambda leaf: jnp.zeros((2, 1, *leaf.shape)), agent.network.begin())
    rollout = Rollout(
        obs=jnp.ones((2, 12, 1)),
        memory=memory,
        terminated=jnp.asarray(done),
        truncated=~done & done,
    )
    weights = jax.tree.map(lambda leaf: leaf[0], runners.weights)
    _, value = jax.jit(ppo_rnn.unroll, static_argnums=0)(agent, weights, rollout)
    np.testing.assert_array_equal(value, np.tile(np.arange(12) % 5 + 1.0, (2, 1)))


def test_the_generic_unroll_equals_the_faster_one():
    """`Recurrent.unroll` is faster than `Network.unroll`; both must return the same results."""
    network = policies.Recurrent.of(Clock(), (8,), 2, memory=4)
    key = jax.random.key(0)
    obs, done = jax.random.normal(key, (7, 1)), jnp.arange(7) % 3 == 2
    weights = jax.jit(network.init)(key, obs[0])
    given = (weights, jnp.ones(4), obs, done)
    fast = jax.jit(network.unroll)(*given)
    slow = jax.jit(lambda *given: policies.Network.unroll(network, *given))(*given)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), fast, slow)


@pytest.mark.parametrize("algorithm", ["ppo", pytest.param("ppo-rnn", marks=pytest.mark.full)])
def test_actor_and_critic_share_nothing(algorithm):
    """With `separate`, one network returns the logits and a second one the values."""
    agent = learner(Countdown(), algorithm, separate=True)
    obs, key = jnp.ones((3, 1)), jax.random.key(0)
    weights = jax.jit(agent.network.init)(key, obs[0])
    done, first = jnp.zeros(3, bool), agent.network.begin()

    @jax.jit
    def said(weights):
        if algorithm == "ppo":
            return jax.vmap(agent.network.apply, (None, 0))(weights, obs)
        return agent.network.unroll(weights, first, obs, done)

    def changed(part):
        both = {**weights["params"], part: jax.tree.map(jnp.zeros_like, weights["params"][part])}
        return said({"params": both})

    (logits, value), (_, same_value), (same_logits, _) = map(
        jax.device_get, (said(weights), changed("actor"), changed("critic"))
    )
    np.testing.assert_array_equal(value, same_value)
    np.testing.assert_array_equal(logits, same_logits)
    assert (np.abs(value) > 1e-3).all() and (changed("critic")[1] == 0).all()
    if algorithm == "ppo":  # the actor alone equals a network that is not separate
        actor, plain = weights["params"]["actor"], agent.network.network
        np.testing.assert_allclose(logits[0], plain.apply({"params": actor}, obs[0])[0], rtol=1e-5)


@pytest.mark.parametrize(
    ("activation", "function"),
    [("relu", lambda x: np.maximum(x, 0)), ("silu", lambda x: x / (1 + np.exp(-x)))],
)
def test_the_activation_is_between_layers(activation, function):
    """The logits of a network with one hidden layer must equal logits computed by NumPy."""
    network = learner(Countdown(), activation=activation).network
    obs = jnp.full(1, 3.0)
    weights = jax.jit(network.init)(jax.random.key(0), obs)
    logits, _ = jax.jit(network.apply)(weights, obs)
    first, policy = (jax.device_get(weights["params"][name]) for name in ("Dense_0", "Dense_1"))
    expected = function(obs @ first["kernel"] + first["bias"]) @ policy["kernel"]
    np.testing.assert_allclose(logits, expected, rtol=1e-4)


def test_a_convolution_is_a_sum_over_squares():
    """Compare convolutions, whose stride is the side of the kernel, with loops over cells.

    The convolutions pad the picture with zeros, which the loops leave out.
    """
    space = Box(0, 255, (5, 7, 3), np.uint8)
    encoder = encoders.Encoder(space, 8, conv=(3, 4, 2, 6))
    obs = np.random.default_rng(0).integers(0, 256, space.shape, np.uint8)
    weights = jax.jit(encoder.init)(jax.random.key(0), obs)
    layers = jax.device_get(weights["params"])
    assert layers["Dense_0"]["kernel"].shape == (27, 4) and layers["Dense_1"]["kernel"].shape == (
        16,
        6,
    )
    cells = obs / 255.0
    for name, side, width in (("Dense_0", 3, 4), ("Dense_1", 2, 6)):
        kernel = layers[name]["kernel"].reshape(side, side, -1, width)
        rows, columns = (-(-size // side) for size in cells.shape[:2])
        new = np.zeros((rows, columns, width)) + layers[name]["bias"]
        for (y, x), value in np.ndenumerate(np.zeros(cells.shape[:2])):
            new[y // side, x // side] += cells[y, x] @ kernel[y % side, x % side] + value
        cells = np.maximum(new, 0)
    features = jax.jit(encoder.apply)(weights, obs)
    assert features.shape == (6 * 1 * 2,)
    np.testing.assert_allclose(features, cells.reshape(-1), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("as_a_user")  # disable jaxtyping's checks, which would raise first
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"network": "no_such_module:Net"}, "No module named 'no_such_module'"),
        ({"network": "tiny_nets:Missing"}, "has no attribute 'Missing'"),
        ({"network": "tiny_nets"}, "give module:name of a class"),
        ({"network": "tiny_nets:NUMBER"}, "is 3; give a subclass of"),
        ({"network": "tiny_nets:Wide"}, r"logits must be float32\[2\], not float32\[3\]"),
        ({"network": "tiny_nets:Listed"}, r"value must be float32\[\], not float32\[1\]"),
        ({"network": "tiny_nets:Counting"}, "is recurrent: give --algo ppo-rnn"),
        ({"conv": (3,)}, "must be pairs of at least 1"),
        ({"conv": (0, 4)}, "must be pairs of at least 1"),
        ({"conv": (3, 4)}, "observes no map or picture to convolve"),
    ],
)
def test_a_network_that_cannot_work_says_why(settings, words):
    with pytest.raises(ValueError, match=words):
        learner(Countdown(), **settings)


def test_a_module_of_this_folder_has_environments(tmp_path):
    """Commands import an environment `module:Id` from the current folder.

    The environment is shown by `info` and used for training; the run can be loaded by `eval`.
    """
    text = (DOCS / "berries.py").read_text("utf-8")
    (tmp_path / "orchard.py").write_text(text, "utf-8")
    flags = ["--num-envs", "4", "--rollout-steps", "8", "--hidden", "4", "--total-steps", "32"]
    flags += ["--minibatches", "2", "--epochs", "1", "--eval-episodes", "2", "--out", "run"]
    said = []
    for arguments in (
        ["info", "orchard:Mine-Berries-5x5-v0"],
        ["train", "orchard:Mine-Berries-5x5-v0", *flags],
        ["eval", "run", "--episodes", "2"],
        ["info", "nowhere:Mine-Berries-5x5-v0"],
    ):
        # Remove the current folder from `sys.path`: the path of the installed command `jaxenvs`
        # does not contain it either.
        code = (
            "import sys; sys.path.remove(''); from jaxenvs.cli import program; sys.exit(program())"
        )
        said.append(
            subprocess.run(
                [sys.executable, "-c", code, *arguments],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
        )
    *fine, wrong = said
    assert all(each.returncode == 0 for each in fine), [each.stderr for each in fine]
    assert runs.Run.open(tmp_path / "run").config.id == "orchard:Mine-Berries-5x5-v0"
    assert wrong.returncode == 2
    assert "the module 'nowhere' cannot be imported (No module named 'nowhere')" in wrong.stderr


def test_ids_of_a_module(tmp_path, monkeypatch):
    """For an id `module:Id`, the module is imported first; ids registered before stay unchanged."""
    text = (DOCS / "berries.py").read_text("utf-8").replace("Mine-Berries", "Mine-Pears")
    (tmp_path / "pears.py").write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    # Register all families before the patch. Undoing the patch removes all ids that were registered
    # under it.
    registry.list()
    for table in ("_specs", "_aliases"):
        monkeypatch.setattr(registry, table, dict(getattr(registry, table)))
    assert jaxenvs.make("pears:Mine-Pears-5x5-v0").size == 5
    assert jaxenvs.spec(f"jaxenvs.grid:{EMPTY}") is jaxenvs.spec(EMPTY)
    for id in (":Grid-v0", "no_such_module:Grid-v0", ".relative:Grid-v0"):
        with pytest.raises(jaxenvs.UnknownIdError, match="cannot be imported"):
            jaxenvs.spec(id)
