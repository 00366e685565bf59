"""Tests of the XLA flags for GPUs: when they are set, and that the installed XLA accepts them."""

import os
import subprocess
import sys

import pytest

from jaxenvs.core import gpu_flags

ALL = " ".join(map(str, gpu_flags.FLAGS))
NO_GRAPHS = "--xla_gpu_enable_command_buffer="


@pytest.fixture
def cuda(monkeypatch, tmp_path):
    """Put a fake CUDA plugin of JAX on the path; return a function that removes or renames it."""
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr(gpu_flags, "version", lambda _: "0.10.2")

    def there(name):
        folder = tmp_path / str(name) / "jax_plugins"
        if name:
            (folder / name).mkdir(parents=True)
            (folder / name / "__init__.py").touch()
        found = type("Spec", (), {"submodule_search_locations": [str(folder)]})
        monkeypatch.setattr(
            gpu_flags.importlib.util, "find_spec", lambda _: found if name else None
        )

    there("xla_cuda0")
    return there


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, ALL),
        ("--xla_gpu_autotune_level=0", f"--xla_gpu_autotune_level=0 {ALL}"),
        (NO_GRAPHS, " ".join([NO_GRAPHS, *map(str, gpu_flags.FLAGS[1:])])),
        (ALL, ALL),
    ],
)
def test_flags_join_those_that_are_set(cuda, monkeypatch, before, after):
    if before is not None:
        monkeypatch.setenv("XLA_FLAGS", before)
    assert gpu_flags.enable() == (before != after)
    assert os.environ["XLA_FLAGS"] == after
    assert not gpu_flags.enable() and os.environ["XLA_FLAGS"] == after


@pytest.mark.parametrize(
    ("version", "plugin", "count"),
    [
        ("0.10.0", "xla_cuda13", 2),
        ("0.11.2.dev20261101", "xla_cuda12", 3),
        ("1.0", "xla_cuda14", 3),
        ("0.9.2", "xla_cuda13", 0),
        ("", "xla_cuda13", 0),
        ("0.10.2", None, 0),
        ("0.10.2", "xla_rocm7", 0),
    ],
)
def test_only_where_a_gpu_may_be_and_xla_knows_it(cuda, monkeypatch, version, plugin, count):
    cuda(plugin)
    monkeypatch.setattr(gpu_flags, "version", lambda _: version)
    assert gpu_flags.enable() == (count > 0)
    assert len(os.environ.get("XLA_FLAGS", "").split()) == count


PROGRAM = """
import os, sys
from jaxenvs import cli
from jaxenvs.core import gpu_flags
gpu_flags.has_cuda = lambda: True
sys.argv = ["jaxenvs", *sys.argv[1:]]
cli.program()
import jax
assert jax.jit(lambda x: x + 1)(1) == 2  # XLA has read the flags
print(os.environ.get("XLA_FLAGS", ""))
"""


@pytest.mark.parametrize(
    ("words", "computes"),
    [
        ("eval nowhere", True),
        ("train --help", False),
        pytest.param("list Grid", False, marks=pytest.mark.full),
    ],
)
def test_commands_that_compute_set_them_before_jax_starts(words, computes):
    variables = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words.split()],
        env=variables | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected = " ".join(map(str, gpu_flags.known())) if computes else ""
    assert done.stdout.splitlines()[-1] == expected
