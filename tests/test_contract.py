"""What every registered environment promises, whatever it is about.

Needs only pytest, `conftest.py` and jaxenvs: it runs against an installed wheel as well. The
promises themselves are in `jaxenvs/testing/contract.py`.
"""

import hashlib
import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import jaxenvs
from jaxenvs import testing
from jaxenvs.core.env import Env

IDS = jaxenvs.registry.list()
FIRST = sorted({jaxenvs.spec(id).env_class: id for id in reversed(IDS)}.values())
FAMILIES = {jaxenvs.spec(id).family: id for id in reversed(IDS)}
# An id of each family, and all of them in parts that workers can share.
X64_IDS = list(FAMILIES.values())
X64_SOON = pytest.param(X64_IDS, id="families", marks=pytest.mark.family)
X64_LATE = [
    pytest.param(IDS[part::8], id=f"part{part}", marks=pytest.mark.slow) for part in range(8)
]
# What must be compiled runs by default on one id of each module, whose classes share their step,
# and on every fifth of those that share it with other modules. The golden traces are rollouts of
# every class.
MODULES = {jaxenvs.spec(id).env_class.__module__: id for id in FIRST}
ENGINES = ("jaxenvs.grid.", "jaxenvs.babyai.")
SHARED = [id for module, id in MODULES.items() if module.startswith(ENGINES)]
SOME = [id for id in MODULES.values() if id not in SHARED] + SHARED[::5]
FEW = SOME[2::4]
# Checks that compile extra programs run on two of these, and with `make test-all` on all.
FEWEST = ("Puzzle-SlidingTile-3x3-v0", "Grid-GoToObject-6x6-N2-v0")
BY_DEFAULT = {"value": IDS, "x64": FEW, "eager": FEW, "level": FEW, "rows": FEW}
COSTLY = ("eager", "level", "rows")


def by_default(ids, of, full=()):
    """Parameters: `ids` run by default, `full` with `make test-all`, the others are long proofs."""

    def marks(id):
        return [] if id in ids else [pytest.mark.full if id in full else pytest.mark.slow]

    return [pytest.param(id, marks=marks(id)) for id in of]


def promises():
    """Each check of the contract on each id."""
    for name in testing.CHECKS:
        of = BY_DEFAULT.get(name, SOME)
        ids = FEWEST if name in COSTLY else of
        for id, case in zip(IDS, by_default(ids, IDS, full=of), strict=True):
            family = [pytest.mark.family] if id in X64_IDS else []
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
    """Hash of a random rollout, bit by bit."""
    leaves = jax.tree_util.tree_leaves_with_path(subject.episode)
    text = "".join(f"{jax.tree_util.keystr(p)}{x.dtype}{x.shape}" for p, x in leaves)
    data = b"".join(np.asarray(x).tobytes() for _, x in leaves)
    return hashlib.sha256(text.encode() + data).hexdigest()


@pytest.mark.parametrize("ids", [X64_SOON, *X64_LATE])
def test_results_are_the_same_with_x64_on(ids, compiled):
    """In a separate process: x64 must be switched on before anything is traced."""
    script = (
        f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
        "import jax, json; jax.config.update('jax_enable_x64', True)\n"
        "import conftest\n"
        "from test_contract import digest\n"
        f"print(json.dumps({{id: digest(conftest.build(id)) for id in {ids}}}))"
    )
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {id: digest(compiled(id)) for id in ids}
