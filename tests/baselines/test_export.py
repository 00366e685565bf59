"""Tests of `jaxenvs export`: an exported policy gives the same outputs without jaxenvs."""

import functools
import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import FLAGS

import jaxenvs
from jaxenvs import cli
from jaxenvs.baselines.core.policy import Policy
from jaxenvs.baselines.evaluation import export
from jaxenvs.baselines.run.train import main
from jaxenvs.baselines.storage.runs import load_policy

GROUP = "tiny_runs"  # tests of this group share a worker, which compiles the run's program once
pytest.importorskip("flatbuffers")
safetensors = pytest.importorskip("safetensors.numpy")

READER = """
import json, pathlib, sys
sys.modules.update(dict.fromkeys(("jaxenvs", "flax", "safetensors")))  # not to be imported
import jax, jax.numpy as jnp, numpy as np
from jax import export
folder = pathlib.Path(sys.argv[1])
policy = export.deserialize(bytearray((folder / "policy.jax").read_bytes()))
obs = jnp.asarray(np.load(folder / "obs.npy"))
memory = jnp.zeros((len(obs), 4)) if len(sys.argv) > 2 else ()
memory, logits, value = policy.call(memory, obs)
print(json.dumps([np.asarray(logits).tolist(), np.asarray(value).tolist()]))
"""


def trained(tmp_path, *more) -> str:
    """Train and export a tiny run; return the path of the run's folder."""
    out = str(tmp_path / "run")
    steps = ["--total-steps", "256", "--out", out]
    assert main(["Grid-Empty-Random-5x5-v0", *FLAGS, *steps, *more]) == 0
    assert cli.main(["export", out, "--seed", "1"]) == 0
    return out


@pytest.mark.full
def test_another_process_reads_the_policy_without_this_package(tmp_path, capsys):
    run = trained(tmp_path)
    folder = tmp_path / "run" / "export"
    assert sorted(path.name for path in folder.iterdir()) == sorted(export.FILES)
    assert "wrote" in capsys.readouterr().out
    policy = load_policy(run, 1)
    space = policy.env.observation_space
    obs = jax.vmap(space.sample)(jax.random.split(jax.random.key(0), 5))
    np.save(folder / "obs.npy", obs)
    done = subprocess.run(
        [sys.executable, "-c", READER, str(folder)], capture_output=True, text=True, check=True
    )
    logits, value = map(np.array, json.loads(done.stdout.splitlines()[-1]))
    expected = jax.jit(jax.vmap(policy.apply))(obs)
    np.testing.assert_allclose(logits, expected[0], atol=1e-5)
    np.testing.assert_allclose(value, expected[1], atol=1e-5)

    known = json.loads((folder / "policy.json").read_text())
    assert known["id"] == "Grid-Empty-Random-5x5-v0" and known["mask"] is False
    assert known["obs"] == {"shape": list(obs.shape[1:]), "dtype": str(obs.dtype)}
    stored = safetensors.load_file(folder / "weights.safetensors")
    leaves = jax.tree.leaves(policy.weights)
    assert len(stored) == len(leaves) and all("." in name for name in stored)
    assert sum(a.size for a in stored.values()) == sum(leaf.size for leaf in leaves)
    first = next(iter(export.named(policy.weights).items()))
    np.testing.assert_array_equal(stored[first[0]], first[1])


@pytest.mark.full
@pytest.mark.parametrize(
    "algorithm",
    [
        "ppo-rnn",
        "ppo-rnn --cell mingru",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("ppo-trxl", "pqn-rnn")),
    ],
)
def test_a_recurrent_policy_takes_and_returns_its_memory(tmp_path, algorithm):
    run = trained(tmp_path, "--algo", *algorithm.split(), "--memory", "4", "--minibatches", "2")
    program = jax.export.deserialize(
        bytearray((tmp_path / "run" / "export" / "policy.jax").read_bytes())
    )
    policy = load_policy(run, 1)
    keys = jax.random.split(jax.random.key(0), 3)
    obs = jax.vmap(policy.env.observation_space.sample)(keys)
    memory = jax.tree.map(lambda leaf: jnp.stack(3 * [leaf]), policy.begin())
    close = functools.partial(np.testing.assert_allclose, atol=1e-5)
    given = export.plain(memory)
    for _ in range(2):
        memory, *expected = jax.jit(jax.vmap(policy.think))(memory, obs)
        given, *found = program.call(given, obs)
        jax.tree.map(close, (given, *found), (export.plain(memory), *expected))
    about = json.loads((tmp_path / "run" / "export" / "policy.json").read_text())
    first = jax.tree.map(np.asarray, about["first_memory"], is_leaf=lambda x: isinstance(x, list))
    jax.tree.map(close, first, jax.device_get(export.plain(policy.begin())))
    if "mingru" in algorithm:
        assert {*about["memory"]} == {"state", "output"}


def test_scalars_of_the_weights_keep_their_shape():
    found = export.named({"seen": {"number": jnp.float32(3.0), "mean": jnp.ones((2, 3)).T}})
    assert {name: leaf.shape for name, leaf in found.items()} == {
        "seen.number": (),
        "seen.mean": (3, 2),
    }
    assert all(leaf.flags.c_contiguous for leaf in found.values())


def test_a_network_without_a_value_has_no_description_of_one():
    env = jaxenvs.make("Classic-CartPole-v0")
    outputs = jnp.zeros(2)
    policies = [
        Policy(env, tuple, lambda memory, obs, mask, value=value: (memory, outputs, value))
        for value in (jnp.float32(0.5), jnp.float32(jnp.nan))
    ]
    assert export.value(policies[1]) is None
    assert "unit" in (export.value(policies[0]) or {})


def test_runs_that_cannot_be_exported_get_an_error(tmp_path, capsys):
    assert cli.main(["export", str(tmp_path / "none")]) == 2
    assert "is not a run" in capsys.readouterr().err
