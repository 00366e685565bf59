"""Tests of the benchmark of a batch's device memory, which the compiler reports."""

import json
import os

import pytest

from jaxenvs.benchmarks import gpu_work, memory
from jaxenvs.benchmarks.harness import contestants

LEVEL, CRAFT, FULL = "Grid-Empty-5x5-v0", "Craft-Classic-Ids-v0", "Craft-Ids-v0"
GIB = 1 << 30
needs_compiler = pytest.mark.skipif(
    not gpu_work.has_compiler(), reason='needs pip install "jax[cuda13]" (no GPU)'
)


def test_a_step_needs_the_state_and_temporaries():
    row = memory.measure(contestants.ours(LEVEL, 1000, "exact"), here=True)
    observation = 7 * 7 * 3 * 1000
    assert row["pool"] == 0
    assert row["state"] + observation <= row["step"] <= 20 * (row["state"] + observation)
    assert row["state"] <= row["reset"] <= max(row["step"], row["reset"])


def test_the_pool_counts():
    row, other = (
        memory.measure(contestants.ours(LEVEL, 64, "pool", pool_size=n), here=True)
        for n in (64, 50_064)
    )
    assert other["pool"] - row["pool"] == 50_000 * (25 + 3)
    assert other["step"] - row["step"] >= other["pool"] - row["pool"]


def test_the_command_writes_the_figures(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    out = tmp_path / "memory.json"
    options = ["--ids", LEVEL, "--batch", "64", "--here", "--json", str(out)]
    assert memory.main(options) == 0
    (row,) = json.loads(out.read_text())["rows"]
    assert (row["env_id"], row["num_envs"], row["obs"]) == (LEVEL, 64, "image")
    assert capsys.readouterr().out.splitlines()[1].split()[:3] == [LEVEL, "64", "auto"]


def test_an_unknown_id_is_rejected(capsys):
    assert memory.main(["--ids", "Grid-DorKey-8x8-v0", "--here"]) == 2
    assert "did you mean" in capsys.readouterr().err


@needs_compiler
@pytest.mark.parametrize("source", ["exact", "pool"])
def test_65536_worlds_of_craft_fit_a_gibibyte(monkeypatch, source):
    monkeypatch.setitem(os.environ, "JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
    row = memory.measure(contestants.ours(CRAFT, 65_536, source))
    assert max(row["step"], row["reset"]) <= GIB


@pytest.mark.slow
def test_65536_worlds_of_craft_fit_a_gibibyte_of_a_cpu():
    row = memory.measure(contestants.ours(CRAFT, 65_536, "exact"), here=True)
    assert max(row["step"], row["reset"]) <= GIB


@pytest.mark.slow
def test_16384_worlds_of_the_whole_game_fit_a_gigabyte_of_a_cpu():
    row = memory.measure(contestants.ours(FULL, 16_384, "exact"), "exact", "ids", here=True)
    assert max(row["step"], row["reset"]) <= 10**9
