"""Tests that every registered environment keeps the contract of `jaxenvs/testing/contract.py`.

They need only pytest, jaxenvs, `conftest.py`, `defaults.py` and `subjects.py`, so they also run
against an installed wheel.
"""

import hashlib
import json
import os
import subprocess
import sys

import defaults
import jax
import numpy as np
import pytest
from defaults import FAMILIES, IDS

import jaxenvs
from jaxenvs import testing
from jaxenvs.core.env import Env

# Groups of ids for the test with 64-bit types enabled: two ids by default, one id of each family
# with `full`, and all ids with `slow`, in eight groups that run in parallel.
X64 = [
    pytest.param(defaults.X64, id="two"),
    pytest.param([*FAMILIES.values()], id="families", marks=[pytest.mark.family, pytest.mark.full]),
    *(pytest.param(IDS[part::8], id=f"part{part}", marks=pytest.mark.slow) for part in range(8)),
]
BY_DEFAULT = {"value": (IDS, ()), "x64": (defaults.COSTLY_FULL, ())}
BY_DEFAULT |= dict.fromkeys(("eager", "level", "rows"), (defaults.COSTLY, defaults.COSTLY_FULL))


def promises():
    """Yield a test case for each check of the contract on each id."""
    for name in testing.CHECKS:
        default, full = BY_DEFAULT.get(name, (defaults.CONTRACT, defaults.CONTRACT_FULL))
        for id, case in zip(IDS, defaults.params(default, full), strict=True):
            family = [pytest.mark.family] if id in FAMILIES.values() else []
            yield pytest.param(id, name, marks=[*case.marks, *family])


@pytest.mark.parametrize(("id", "promise"), list(promises()))
def test_it_keeps_its_promise(id, promise, compiled):
    testing.CHECKS[promise](compiled(id))


def test_every_class_says_how_its_task_ends():
    silent = {kind.__name__ for kind in jaxenvs.registry.classes() if kind.ending is Env.ending}
    assert not silent, "write `ending`: a level close to the end and the actions that lead there"


@pytest.mark.parametrize("id", IDS)
def test_aliases_mean_the_same(id):
    for alias in jaxenvs.spec(id).aliases:
        assert jaxenvs.spec(alias) is jaxenvs.spec(id)
        assert jaxenvs.make(alias) == jaxenvs.make(id)


def digest(subject):
    """Return a hash of all values of a rollout with random actions, bit by bit."""
    leaves = jax.tree_util.tree_leaves_with_path(subject.episode)
    text = "".join(f"{jax.tree_util.keystr(p)}{x.dtype}{x.shape}" for p, x in leaves)
    data = b"".join(np.asarray(x).tobytes() for _, x in leaves)
    return hashlib.sha256(text.encode() + data).hexdigest()


@pytest.mark.full
@pytest.mark.parametrize("ids", X64)
def test_results_are_the_same_with_x64_on(ids):
    """A process with JAX's 64-bit types enabled gives the same results as a process without them.

    The types must be enabled before anything is traced, so two processes are needed. Both run
    without the tests' XLA flags: these disable passes of XLA, and then the last bit of a MiniGrid
    reward would differ.
    """
    assert _digests(ids, x64=True) == _digests(ids, x64=False)


def _digests(ids, x64):
    script = (
        f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
        f"import jax, json; jax.config.update('jax_enable_x64', {x64})\n"
        "import conftest, subjects\n"  # conftest.py turns the shape checks on
        "from test_contract import digest\n"
        f"print(json.dumps({{id: digest(subjects.build(id)) for id in {[*ids]}}}))"
    )
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
