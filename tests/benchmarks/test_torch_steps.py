"""Tests of the benchmark of `to_torch_vec`, which adapts a batch to PyTorch.

A small run must write its figures, and an error must name PyTorch if it is missing.
"""

import importlib.util
import json

import pytest

from jaxenvs.benchmarks import torch_steps
from jaxenvs.core.extras import MissingExtraError

HAS_TORCH = importlib.util.find_spec("torch") is not None


@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is an optional package (extra `torch`)")
def test_a_small_run_writes_its_figures(tmp_path, capsys):
    out = tmp_path / "torch.json"
    options = ["--ids", "Classic-CartPole-v0", "--batches", "4", "--seconds", "0.01"]
    assert torch_steps.main([*options, "--repeats", "2", "--json", str(out)]) == 0
    rows = json.loads(out.read_text())["rows"]
    assert [row["contestant"] for row in rows] == ["to_torch_vec", "to_gymnasium_vec"]
    assert all(row["steps_per_second"] > 0 and len(row["seconds"]) == 2 for row in rows)
    assert "steps/s" in capsys.readouterr().out


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"this needs torch.*\[torch\]"):
        torch_steps.main([])
